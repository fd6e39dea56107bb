"""Dropout (see reference/dropout.py). Reads and writes each element once; 4 elements share a Philox call."""

import numpy as np
from numba import prange

from kernels.cpu.jit import flat, kernel
from kernels.cpu.philox import key, philox
from kernels.reference.dropout import keep_factor
from kernels.reference.philox import threshold

U = np.uint64
BLOCK = U(4096)  # elements a task: a multiple of 4


@kernel(parallel=True)
def _dropout(y, x, limit, factor, seed):
    n = U(x.size)
    for block in prange((x.size + 4095) // 4096):
        for i in range(U(block) * BLOCK, min(n, (U(block) + U(1)) * BLOCK), U(4)):
            group = U(i) >> U(2)
            words = philox(group & U(0xFFFFFFFF), group >> U(32), U(0), U(0), seed)
            for j in range(min(U(4), n - U(i))):
                y[U(i) + U(j)] = x[U(i) + U(j)] * factor if words[j] >= limit else 0


def dropout(x, p, seed):
    """y = x · keep / (1 - p).   x of any shape"""
    y = np.empty(x.shape, dtype=x.dtype)
    _dropout(y.reshape(-1), flat(x), U(threshold(p)), keep_factor(p, x.dtype), key(seed))
    return y


@kernel
def drop_row(row, keys_from, count, t, head, limit, factor, seed):
    """Drops among attention weights row[j] of keys keys_from + j, j < count; keys_from is a multiple of 4."""
    for j in range(0, count, 4):
        words = philox(U((keys_from + j) // 4), U(t), U(head), U(1), seed)
        for i in range(min(4, count - j)):
            row[j + i] = row[j + i] * factor if words[i] >= limit else 0
