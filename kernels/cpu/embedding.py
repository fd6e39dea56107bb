"""Rows of a table, picked by id. Backward adds rows of dy into the rows they came from: the ids are sorted (stably),
so each row of the result has one owner, which adds in the order of n. No atomics, the same bits every time. An owner
adds up to ROWS rows in a block, and the blocks in double precision (see sums.py)."""

import numpy as np
from numba import prange

from kernels.cpu.jit import contiguous, ids64, kernel
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


@kernel
def _add_further_blocks(row, dy, order, first, last):
    """row, which holds the first ROWS rows of dy, becomes the sum of all."""
    total, block = row.astype(np.float64), np.empty_like(row)
    for start in range(first + ROWS, last, ROWS):
        block[:] = 0
        for position in range(start, min(start + ROWS, last)):
            for c in range(row.size):
                block[c] += dy[order[position], c]
        for c in range(row.size):
            total[c] += block[c]
    for c in range(row.size):
        row[c] = total[c]


@kernel(parallel=True)
def _embedding_backward(dweight, dy, ids, order, starts):
    """order (N) sorts the ids; starts (U + 1) are the borders between the U different ids in that order"""
    for u in prange(starts.size - 1):
        v = ids[order[starts[u]]]
        for position in range(starts[u], min(starts[u] + ROWS, starts[u + 1])):
            for c in range(dy.shape[1]):
                dweight[v, c] += dy[order[position], c]
        if starts[u + 1] - starts[u] > ROWS:
            _add_further_blocks(dweight[v], dy, order, starts[u], starts[u + 1])


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
    starts = np.concatenate(([0], changes, [len(ids)]))
    _embedding_backward(dweight, contiguous(dy), ids64(ids), order, starts)
    return dweight
