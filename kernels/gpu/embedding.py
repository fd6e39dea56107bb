"""Rows of a table, picked by id: launches embedding.cu. For backward the ids are sorted (stably) first, so that each
row of the result has one owner, which adds in the order of n. No atomics, the same bits every time."""

from kernels.cuda.launcher import launch, module_of
from kernels.gpu.grid import BLOCK, WARP, contiguous, for_warps, ids64


def embedding(weight, ids):
    """y[n] = weight[ids[n]].   weight (V, C); ids (N) → y (N, C)"""
    N, C = len(ids), weight.shape[1]
    y = module_of(weight).empty((N, C), dtype=weight.dtype)
    launch("embedding", "embedding_forward", for_warps(N), BLOCK, (y, contiguous(weight), ids64(ids), N, C), y.dtype)
    return y


def embedding_backward(dy, ids, V):
    """dweight[v] = Σ of dy[n] over the n with ids[n] = v, added in the order of n.   dy (N, C) → dweight (V, C)"""
    xp = module_of(dy)
    N, C = dy.shape
    dweight = xp.zeros((V, C), dtype=dy.dtype)
    ids = ids64(ids)
    order = ids64(xp.argsort(ids, kind="stable"))
    changes = xp.flatnonzero(xp.diff(ids[order])) + 1
    starts = ids64(xp.concatenate((xp.zeros(1, dtype="int64"), changes, xp.full(1, N, dtype="int64"))))
    different, strips = len(starts) - 1, -(-C // WARP)
    args = (dweight, contiguous(dy), ids, order, starts, different, C)
    launch("embedding", "embedding_backward", for_warps(different * strips), BLOCK, args, dy.dtype)
    return dweight
