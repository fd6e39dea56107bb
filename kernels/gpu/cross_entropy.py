"""The mean cross-entropy of rows of logits (N, V) against target ids: launches cross_entropy.cu, a block a row."""

from kernels.cuda.launcher import launch, module_of
from kernels.gpu.grid import block_along, contiguous, for_blocks, ids64


def ignored(ignore_index) -> tuple[int, int]:
    """The ignored id and whether there is one, as kernels take it."""
    return (0, 0) if ignore_index is None else (int(ignore_index), 1)


def mean_of_kept(losses, targets, ignore_index):
    """The sum of the losses over the number of targets that count.   losses, targets (N) → ()"""
    loss = module_of(losses).empty((), dtype=losses.dtype)
    args = (loss, losses, targets, len(losses), *ignored(ignore_index))
    launch("cross_entropy", "cross_entropy_mean", (1,), block_along(len(losses)), args, losses.dtype)
    return loss


def cross_entropy(logits, targets, ignore_index, label_smoothing):
    """logits (N, V); targets (N) → loss (), lse (N)"""
    xp = module_of(logits)
    N, V = logits.shape
    targets = ids64(targets)
    losses, lse = xp.empty(N, dtype=logits.dtype), xp.empty(N, dtype=logits.dtype)
    args = (losses, lse, contiguous(logits), targets, N, V, *ignored(ignore_index), label_smoothing)
    launch("cross_entropy", "cross_entropy_rows", for_blocks(N), block_along(V), args, logits.dtype)
    return mean_of_kept(losses, targets, ignore_index), lse


def cross_entropy_backward(dloss, logits, lse, targets, ignore_index, label_smoothing):
    """dlogits = dloss / kept · (softmax(logits) - (1 - ε) onehot(target) - ε/V), zero in rows that do not count"""
    xp = module_of(logits)
    N, V = logits.shape
    targets, skip = ids64(targets), ignored(ignore_index)
    factor = xp.empty((), dtype=logits.dtype)
    args = (factor, contiguous(dloss), targets, N, *skip)
    launch("cross_entropy", "cross_entropy_factor", (1,), block_along(N), args, logits.dtype)
    dlogits = xp.empty((N, V), dtype=logits.dtype)
    args = (dlogits, contiguous(logits), contiguous(lse), targets, factor, N, V, *skip, label_smoothing)
    launch("cross_entropy", "cross_entropy_backward", for_blocks(N), block_along(V), args, logits.dtype)
    return dlogits
