"""Layer norm over the last axis of x (N, C). One task a row; forward reads x once from memory (the second and third
sweep find the row in the cache) and writes y once. Backward reads dy and x, writes dx, and adds dweight and dbias up
in a fixed number of partial sums."""

import numpy as np
from numba import prange

from kernels.cpu.jit import PARTIALS, contiguous, kernel


@kernel(parallel=True)
def _layer_norm(y, mean, rstd, x, weight, bias, eps):
    N, C = x.shape
    one = x.dtype.type(1)
    share = one / x.dtype.type(C)
    for n in prange(N):
        total = x.dtype.type(0)
        for c in range(C):
            total += x[n, c]
        centre = total * share
        squares = x.dtype.type(0)
        for c in range(C):
            squares += (x[n, c] - centre) * (x[n, c] - centre)
        inverse = one / np.sqrt(squares * share + eps)
        for c in range(C):
            y[n, c] = (x[n, c] - centre) * inverse * weight[c] + bias[c]
        mean[n] = centre
        rstd[n] = inverse


def layer_norm(x, weight, bias, eps):
    """n = (x - mean) · rstd;  y = n · weight + bias.   x (N, C); weight, bias (C) → y (N, C), mean (N), rstd (N)"""
    y = np.empty(x.shape, dtype=x.dtype)
    mean, rstd = np.empty(len(x), dtype=x.dtype), np.empty(len(x), dtype=x.dtype)
    _layer_norm(y, mean, rstd, contiguous(x), contiguous(weight), contiguous(bias), x.dtype.type(eps))
    return y, mean, rstd


@kernel(parallel=True)
def _layer_norm_backward(dx, dweight, dbias, dy, x, weight, mean, rstd):
    N, C = x.shape
    tasks = dweight.shape[0]
    share = x.dtype.type(1) / x.dtype.type(C)
    for task in prange(tasks):
        for row in range(task * N // tasks, (task + 1) * N // tasks):
            centre, inverse = mean[row], rstd[row]
            sum_dn = x.dtype.type(0)
            sum_dn_n = x.dtype.type(0)
            for c in range(C):
                n = (x[row, c] - centre) * inverse
                dn = dy[row, c] * weight[c]
                sum_dn += dn
                sum_dn_n += dn * n
                dweight[task, c] += dy[row, c] * n
                dbias[task, c] += dy[row, c]
            mean_dn, mean_dn_n = sum_dn * share, sum_dn_n * share
            for c in range(C):
                n = (x[row, c] - centre) * inverse
                dx[row, c] = inverse * (dy[row, c] * weight[c] - mean_dn - n * mean_dn_n)


def layer_norm_backward(dy, x, weight, mean, rstd):
    """dn = dy · weight;  dx = rstd · (dn - mean_c(dn) - n · mean_c(dn · n));  dweight = Σ dy n;  dbias = Σ dy"""
    dx = np.empty(x.shape, dtype=x.dtype)
    dweight, dbias = (np.zeros((min(PARTIALS, len(x)), x.shape[1]), dtype=x.dtype) for _ in range(2))
    _layer_norm_backward(dx, dweight, dbias, *(contiguous(a) for a in (dy, x, weight, mean, rstd)))
    return dx, dweight.sum(axis=0), dbias.sum(axis=0)
