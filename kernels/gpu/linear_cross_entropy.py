"""A linear head and its cross-entropy in one, without ever storing the logits whole.

Rows are taken in chunks whose logits fill a buffer of 64 MB. While a chunk is there, linear_cross_entropy.cu reads off
its losses and turns the buffer into dlogits in place, and both products of the backward pass are formed. The upstream
gradient of a loss is one number, so backward only has to multiply by it. Rows with an ignored target are left out
before the first product: padding costs nothing. A chunk's part of dweight goes through a second array of its size,
because NumPy and CuPy share no call that adds a product to what is there.
"""

from kernels.cuda.launcher import launch, module_of
from kernels.gpu.cross_entropy import mean_of_kept
from kernels.gpu.grid import block_along, contiguous, for_blocks, ids64
from kernels.gpu.linear import accumulate, column_sums

BUFFER_BYTES = 64 * 2**20


def linear_cross_entropy(x, weight, bias, targets, ignore_index, label_smoothing, with_gradients):
    """loss = cross_entropy(x weightᵀ + bias, targets), and its gradients for an upstream gradient of 1.

    x (N, C); weight (V, C); bias (V) or None; targets (N)
    → loss (), dx (N, C), dweight (V, C), dbias (V) or None; all three None unless with_gradients"""
    xp, dtype, (V, C) = module_of(x), x.dtype, weight.shape
    rows, wanted, kept = x, targets, None
    if ignore_index is not None:
        kept = xp.flatnonzero(targets != ignore_index)
        rows, wanted = x[kept], targets[kept]
    rows, wanted, count = contiguous(rows), ids64(wanted), len(rows)
    offset = xp.zeros(V, dtype=dtype) if bias is None else contiguous(bias)
    chunk = max(1, min(count, BUFFER_BYTES // (V * dtype.itemsize)))
    buffer, losses = xp.empty((chunk, V), dtype=dtype), xp.empty(count, dtype=dtype)
    if with_gradients:
        drows, dweight = xp.empty((count, C), dtype=dtype), xp.zeros((V, C), dtype=dtype)
        dbias = xp.zeros(V, dtype=dtype) if bias is not None else None
    for start in range(0, count, chunk):
        part, end = rows[start : start + chunk], min(start + chunk, count)
        logits = xp.matmul(part, weight.T, out=buffer[: end - start])
        args = (logits, losses[start:end], offset, wanted[start:end], end - start, V)
        options = (label_smoothing, 1 / count, bool(with_gradients))
        grid, block = for_blocks(end - start), block_along(V)
        launch("linear_cross_entropy", "loss_and_gradient", grid, block, (*args, *options), dtype)
        if with_gradients:
            xp.matmul(logits, weight, out=drows[start:end])
            accumulate(dweight, xp.matmul(logits.T, part))
            if dbias is not None:
                accumulate(dbias, column_sums(logits))
    loss = mean_of_kept(losses, wanted, None)
    if not with_gradients:
        return loss, None, None, None
    if kept is None:
        return loss, drows, dweight, dbias
    dx = xp.zeros(x.shape, dtype=dtype)
    dx[kept] = drows
    return loss, dx, dweight, dbias
