"""Rows of a table, picked by id. Backward adds rows of dy into the rows they came from: the ids are sorted (stably),
so each row of the result has one owner, which adds in the order of n. No atomics, the same bits every time. An id
that occurs more than ROWS times has its rows summed in blocks (see sums.py)."""

import numpy as np
from numba import prange

from kernels.cpu.jit import contiguous, ids64, kernel
from kernels.cpu.linear import column_sums
from kernels.cpu.sums import ROWS
from kernels.cpu.workspace import recycled


@kernel(parallel=True)
def _embedding(y, weight, ids):
    for n in prange(ids.size):
        for c in range(weight.shape[1]):
            y[n, c] = weight[ids[n], c]


@kernel(parallel=True)
def _clear(dweight):
    for v in prange(dweight.shape[0]):
        for c in range(dweight.shape[1]):
            dweight[v, c] = 0


@kernel(parallel=True)
def _embedding_backward(dweight, dy, ids, order, starts, ends):
    """order (N) sorts the ids; starts, ends (U): where each of the U different ids begins and ends in that order"""
    for u in prange(starts.size):
        v = ids[order[starts[u]]]
        for position in range(starts[u], ends[u]):
            for c in range(dy.shape[1]):
                dweight[v, c] += dy[order[position], c]


def embedding(weight, ids):
    """y[n] = weight[ids[n]].   weight (V, C); ids (N) → y (N, C)"""
    y = np.empty((len(ids), weight.shape[1]), dtype=weight.dtype)
    _embedding(y, contiguous(weight), ids64(ids))
    return y


def embedding_backward(dy, ids, V):
    """dweight[v] = Σ of dy[n] over the n with ids[n] = v, added in the order of n.   dy (N, C) → dweight (V, C)"""
    dweight = recycled((V, dy.shape[1]), dy.dtype)
    _clear(dweight)
    order = np.argsort(ids, kind="stable")
    changes = np.flatnonzero(np.diff(ids[order])) + 1
    starts, ends = np.concatenate(([0], changes)), np.concatenate((changes, [len(ids)]))
    long = np.flatnonzero(ends - starts > ROWS)
    in_kernel = ends.copy()
    in_kernel[long] = starts[long]  # nothing: their sums are taken in blocks
    _embedding_backward(dweight, contiguous(dy), ids64(ids), order, starts, in_kernel)
    for u in long:
        rows = order[starts[u] : ends[u]]
        dweight[ids[rows[0]]] = column_sums(dy[rows])
    return dweight
