"""Layer norm over the last axis of x (N, C). One task a row; forward reads x once from memory (the second and third
sweep find the row in the cache) and writes y once. Backward reads dy and x, writes dx, and adds dweight and dbias up
in partial sums of few rows. How long sums keep their digits: sums.py."""

import numpy as np
from numba import prange

from kernels.cpu.jit import contiguous, kernel
from kernels.cpu.sums import TERMS, joined, row_tasks


@kernel(parallel=True)
def _layer_norm(y, mean, rstd, x, weight, bias, eps):
    N, C = x.shape
    one = x.dtype.type(1)
    share = one / x.dtype.type(C)
    for n in prange(N):
        total = 0.0
        for start in range(0, C, TERMS):
            part = x.dtype.type(0)
            for c in range(start, min(C, start + TERMS)):
                part += x[n, c]
            total += part
        centre = x.dtype.type(total) * share
        squares = 0.0
        for start in range(0, C, TERMS):
            part = x.dtype.type(0)
            for c in range(start, min(C, start + TERMS)):
                part += (x[n, c] - centre) * (x[n, c] - centre)
            squares += part
        inverse = one / np.sqrt(x.dtype.type(squares) * share + eps)
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
            sum_dn, sum_dn_n = 0.0, 0.0
            for start in range(0, C, TERMS):
                part_dn = x.dtype.type(0)
                part_dn_n = x.dtype.type(0)
                for c in range(start, min(C, start + TERMS)):
                    n = (x[row, c] - centre) * inverse
                    dn = dy[row, c] * weight[c]
                    part_dn += dn
                    part_dn_n += dn * n
                    dweight[task, c] += dy[row, c] * n
                    dbias[task, c] += dy[row, c]
                sum_dn += part_dn
                sum_dn_n += part_dn_n
            mean_dn, mean_dn_n = x.dtype.type(sum_dn) * share, x.dtype.type(sum_dn_n) * share
            for c in range(C):
                n = (x[row, c] - centre) * inverse
                dx[row, c] = inverse * (dy[row, c] * weight[c] - mean_dn - n * mean_dn_n)


def layer_norm_backward(dy, x, weight, mean, rstd):
    """dn = dy · weight;  dx = rstd · (dn - mean_c(dn) - n · mean_c(dn · n));  dweight = Σ dy n;  dbias = Σ dy"""
    dx = np.empty(x.shape, dtype=x.dtype)
    dweight, dbias = (np.zeros((row_tasks(len(x)), x.shape[1]), dtype=x.dtype) for _ in range(2))
    _layer_norm_backward(dx, dweight, dbias, *(contiguous(a) for a in (dy, x, weight, mean, rstd)))
    return dx, joined(dweight), joined(dbias)
