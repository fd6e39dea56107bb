"""y = x Wᵀ + b. Threads take blocks of the result: BLAS multiplies, and the bias is added while the block is in cache.

Reads x and W once a block of the other, writes y once; 2 N C F flops. Backward is two such products: dx in blocks of
rows, whose owner also sums them for the bias while they are in the cache; dW in blocks of its rows.
A few rows only (a model that generates word by word) are bound by reading W: dot products then, one sweep over W.
"""

import numpy as np
from numba import prange

from kernels.cpu.blas import blas_kernel, blocks, gemm
from kernels.cpu.jit import contiguous, kernel
from kernels.cpu.sums import ROWS as SUMMED_ROWS
from kernels.cpu.sums import joined, row_tasks

# a block of the result: large enough for BLAS, small enough for the cache and for the sum that is the bias's gradient
ROWS, COLUMNS = SUMMED_ROWS, 1024
WEIGHT_ROWS = 128  # of dW, whose products are long sums
FEW = 4  # rows for which packing W costs more than it saves


@kernel(parallel=True)
def _column_sums(partial, x):
    N, C = x.shape
    tasks = partial.shape[0]
    for task in prange(tasks):
        for n in range(task * N // tasks, (task + 1) * N // tasks):
            for c in range(C):
                partial[task, c] += x[n, c]


def column_sums(x):
    """Σ_n x[n], through partial sums of few rows.   x (N, C) → (C)"""
    partial = np.zeros((row_tasks(len(x)), x.shape[1]), dtype=x.dtype)
    _column_sums(partial, contiguous(x))
    return joined(partial)


@kernel
def add_bias(y, bias, n0, n1, f0, f1):
    """y[n, f] += bias[f] in one block; an empty bias is none. Ranges instead of slices: in a slice of columns the
    compiler no longer knows that neighbours are neighbours.   y (N, F); bias (F)"""
    if bias.size:
        for n in range(n0, n1):
            for f in range(f0, f1):
                y[n, f] += bias[f]


@blas_kernel
def _linear(blas, y, x, weight, bias):
    N, F = y.shape
    down, across = blocks(N, ROWS), blocks(F, COLUMNS)
    for task in prange(down * across):
        i, j = task // across, task % across
        n0, n1, f0, f1 = i * N // down, (i + 1) * N // down, j * F // across, (j + 1) * F // across
        gemm(blas, y[n0:n1, f0:f1], x[n0:n1], weight[f0:f1], False, True, False)
        add_bias(y, bias, n0, n1, f0, f1)


@kernel(parallel=True)
def _linear_few(y, x, weight, bias):
    for f in prange(y.shape[1]):
        for n in range(y.shape[0]):
            total = y.dtype.type(0)
            for c in range(x.shape[1]):
                total += x[n, c] * weight[f, c]
            y[n, f] = total + bias[f] if bias.size else total


@kernel
def add_rows(total, x, n0, n1):
    """total[c] = Σ x[n, c] for n0 ≤ n < n1.   total (C); x (N, C)"""
    for c in range(x.shape[1]):
        total[c] = 0
    for n in range(n0, n1):
        for c in range(x.shape[1]):
            total[c] += x[n, c]


@kernel
def weight_block(blas, dweight, dy, x, task, tasks):
    """One block of rows of dW = dyᵀ x."""
    f0, f1 = task * len(dweight) // tasks, (task + 1) * len(dweight) // tasks
    gemm(blas, dweight[f0:f1], dy[:, f0:f1], x, True, False, False)


@blas_kernel
def _linear_backward(blas, dx, dweight, sums, dy, x, weight):
    """sums (blocks of rows, F): the bias gradient of each block, or nothing"""
    N, C = dx.shape
    down, across = blocks(N, ROWS), blocks(C, COLUMNS)
    for task in prange(down * across):
        i, j = task // across, task % across
        n0, n1, c0, c1 = i * N // down, (i + 1) * N // down, j * C // across, (j + 1) * C // across
        gemm(blas, dx[n0:n1, c0:c1], dy[n0:n1], weight[:, c0:c1], False, False, False)
        if j == 0 and sums.size:
            add_rows(sums[i], dy, n0, n1)  # these rows are in the cache now
    tasks = blocks(dweight.shape[0], WEIGHT_ROWS)
    for task in prange(tasks):
        weight_block(blas, dweight, dy, x, task, tasks)


def product(x, weight, bias):
    """x Wᵀ + b on contiguous arrays; an empty bias is none."""
    y = np.empty((len(x), len(weight)), x.dtype)
    _linear_few(y, x, weight, bias) if len(x) <= FEW else _linear(y, x, weight, bias)
    return y


def linear(x, weight, bias):
    """y[n, f] = Σ_c x[n, c] weight[f, c] + bias[f].   x (N, C); weight (F, C); bias (F) or None → y (N, F)"""
    offset = np.empty(0, x.dtype) if bias is None else contiguous(bias)
    return product(contiguous(x), contiguous(weight), offset)


def linear_backward(dy, x, weight, with_bias):
    """dx = dy W;  dW = dyᵀ x;  db = Σ_n dy[n].   dy (N, F) → dx (N, C), dweight (F, C), dbias (F) or None"""
    dy, x, weight = contiguous(dy), contiguous(x), contiguous(weight)
    dx, dweight = np.empty_like(x), np.empty_like(weight)
    sums = np.empty((-(-len(dy) // ROWS) if with_bias else 0, dy.shape[1]), dy.dtype)
    _linear_backward(dx, dweight, sums, dy, x, weight)
    return dx, dweight, joined(sums) if with_bias else None


def matmul(a, b):
    """c = a b over the last two axes; the leading ones are broadcast.   a (..., n, k); b (..., k, m)

    NumPy's own product: unlike those above, its bits may change with the number of BLAS threads."""
    return np.matmul(a, b)
