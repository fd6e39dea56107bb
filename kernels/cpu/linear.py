"""y = x Wᵀ + b. The products are BLAS's; the bias is added, and its gradient summed, by loops of our own."""

import numpy as np
from numba import prange

from kernels.cpu.jit import PARTIALS, contiguous, kernel


@kernel(parallel=True)
def add_bias(y, bias):
    """y[n] += bias, in place.   y (N, F); bias (F)"""
    for n in prange(y.shape[0]):
        for f in range(y.shape[1]):
            y[n, f] += bias[f]


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


def linear(x, weight, bias):
    """y[n, f] = Σ_c x[n, c] weight[f, c] + bias[f].   x (N, C); weight (F, C); bias (F) or None → y (N, F)"""
    y = x @ weight.T
    if bias is not None:
        add_bias(y, contiguous(bias))
    return y


def linear_backward(dy, x, weight, with_bias):
    """dx = dy W;  dW = dyᵀ x;  db = Σ_n dy[n].   dy (N, F) → dx (N, C), dweight (F, C), dbias (F) or None"""
    dx = dy @ weight
    dweight = dy.T @ x
    dbias = column_sums(dy) if with_bias else None
    return dx, dweight, dbias


def matmul(a, b):
    """c = a b over the last two axes; the leading ones are broadcast.   a (..., n, k); b (..., k, m)"""
    return np.matmul(a, b)
