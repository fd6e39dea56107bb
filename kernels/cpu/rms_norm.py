"""RMS norm over the last axis of x (N, C). One task a row; forward reads x once from memory (the second sweep finds the
row in the cache) and writes y once. Backward reads dy and x, writes dx, and adds dweight up in a fixed number of
partial sums."""

import numpy as np
from numba import prange

from kernels.cpu.jit import PARTIALS, contiguous, kernel


@kernel(parallel=True)
def _rms_norm(y, rstd, x, weight, eps):
    N, C = x.shape
    one = x.dtype.type(1)
    share = one / x.dtype.type(C)
    for n in prange(N):
        squares = x.dtype.type(0)
        for c in range(C):
            squares += x[n, c] * x[n, c]
        inverse = one / np.sqrt(squares * share + eps)
        for c in range(C):
            y[n, c] = x[n, c] * inverse * weight[c]
        rstd[n] = inverse


def rms_norm(x, weight, eps):
    """n = x · rstd;  y = n · weight, rstd = 1/√(mean_c(x²) + eps).   x (N, C); weight (C) → y (N, C), rstd (N)"""
    y, rstd = np.empty(x.shape, dtype=x.dtype), np.empty(len(x), dtype=x.dtype)
    _rms_norm(y, rstd, contiguous(x), contiguous(weight), x.dtype.type(eps))
    return y, rstd


@kernel(parallel=True)
def _rms_norm_backward(dx, dweight, dy, x, weight, rstd):
    N, C = x.shape
    tasks = dweight.shape[0]
    share = x.dtype.type(1) / x.dtype.type(C)
    for task in prange(tasks):
        for row in range(task * N // tasks, (task + 1) * N // tasks):
            inverse = rstd[row]
            sum_dn_n = x.dtype.type(0)
            for c in range(C):
                n = x[row, c] * inverse
                sum_dn_n += dy[row, c] * weight[c] * n
                dweight[task, c] += dy[row, c] * n
            mean_dn_n = sum_dn_n * share
            for c in range(C):
                n = x[row, c] * inverse
                dx[row, c] = inverse * (dy[row, c] * weight[c] - n * mean_dn_n)


def rms_norm_backward(dy, x, weight, rstd):
    """dn = dy · weight;  dx = rstd · (dn - n · mean_c(dn · n));  dweight = Σ dy n"""
    dx = np.empty(x.shape, dtype=x.dtype)
    dweight = np.zeros((min(PARTIALS, len(x)), x.shape[1]), dtype=x.dtype)
    _rms_norm_backward(dx, dweight, *(contiguous(a) for a in (dy, x, weight, rstd)))
    return dx, dweight.sum(axis=0)
