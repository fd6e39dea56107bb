"""y = x Wᵀ + b. Threads take blocks of the result: BLAS multiplies, and the bias is added while the block is in cache.

Reads x and W once a block of the other, writes y once; 2 N C F flops. Backward is two such products: dx in blocks of
rows, dW in blocks of its rows, whose owner also sums its part of the bias gradient.
A few rows only (a model that generates word by word) are bound by reading W: dot products then, one sweep over W.
"""

import numpy as np
from numba import prange

from kernels.cpu.blas import blas_kernel, blocks, gemm
from kernels.cpu.jit import PARTIALS, contiguous, kernel

ROWS, COLUMNS = 256, 512  # a block of the result: large enough for BLAS, small enough for the cache
WEIGHT_ROWS = 64  # of dW, whose products are long sums
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
    """Σ_n x[n], through a fixed number of partial sums.   x (N, C) → (C)"""
    partial = np.zeros((min(PARTIALS, len(x)), x.shape[1]), dtype=x.dtype)
    _column_sums(partial, contiguous(x))
    return partial.sum(axis=0)


@kernel
def add_bias(y, bias, n0, n1, f0, f1):
    """y[n, f] += bias[f] in one block; an empty bias is none. Ranges instead of slices: in a slice of columns the
    compiler no longer knows that neighbours are neighbours.   y (N, F); bias (F)"""
    if bias.size:
        for n in range(n0, n1):
            for f in range(f0, f1):
                y[n, f] += bias[f]


@kernel
def sum_rows(total, x, c0, c1):
    """total[c] = Σ_n x[n, c] for c0 ≤ c < c1.   total (C); x (N, C)"""
    for c in range(c0, c1):
        total[c] = 0
    for n in range(x.shape[0]):
        for c in range(c0, c1):
            total[c] += x[n, c]


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


@blas_kernel
def _input_gradient(blas, dx, dy, weight):
    """dx = dy W"""
    N, C = dx.shape
    down, across = blocks(N, ROWS), blocks(C, COLUMNS)
    for task in prange(down * across):
        i, j = task // across, task % across
        n0, n1, c0, c1 = i * N // down, (i + 1) * N // down, j * C // across, (j + 1) * C // across
        gemm(blas, dx[n0:n1, c0:c1], dy[n0:n1], weight[:, c0:c1], False, False, False)


@blas_kernel
def _weight_gradient(blas, dweight, dbias, dy, x):
    """dW = dyᵀ x;  db = Σ_n dy[n]"""
    F = dweight.shape[0]
    tasks = blocks(F, WEIGHT_ROWS)
    for task in prange(tasks):
        f0, f1 = task * F // tasks, (task + 1) * F // tasks
        gemm(blas, dweight[f0:f1], dy[:, f0:f1], x, True, False, False)
        if dbias.size:
            sum_rows(dbias, dy, f0, f1)


def product(x, weight, bias):
    """x Wᵀ + b on contiguous arrays; an empty bias is none."""
    y = np.empty((len(x), len(weight)), x.dtype)
    _linear_few(y, x, weight, bias) if len(x) <= FEW else _linear(y, x, weight, bias)
    return y


def input_gradient(dy, weight):
    dx = np.empty((len(dy), weight.shape[1]), dy.dtype)
    _input_gradient(dx, dy, weight)
    return dx


def weight_gradient(dy, x, with_bias):
    dweight = np.empty((dy.shape[1], x.shape[1]), dy.dtype)
    dbias = np.empty(dy.shape[1] if with_bias else 0, dy.dtype)
    _weight_gradient(dweight, dbias, dy, x)
    return dweight, dbias if with_bias else None


def linear(x, weight, bias):
    """y[n, f] = Σ_c x[n, c] weight[f, c] + bias[f].   x (N, C); weight (F, C); bias (F) or None → y (N, F)"""
    offset = np.empty(0, x.dtype) if bias is None else contiguous(bias)
    return product(contiguous(x), contiguous(weight), offset)


def linear_backward(dy, x, weight, with_bias):
    """dx = dy W;  dW = dyᵀ x;  db = Σ_n dy[n].   dy (N, F) → dx (N, C), dweight (F, C), dbias (F) or None"""
    dy = contiguous(dy)
    return input_gradient(dy, contiguous(weight)), *weight_gradient(dy, contiguous(x), bool(with_bias))


def matmul(a, b):
    """c = a b over the last two axes; the leading ones are broadcast.   a (..., n, k); b (..., k, m)"""
    return np.matmul(a, b)
