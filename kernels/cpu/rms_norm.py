"""RMS norm over the last axis of x (N, C). One task a row; forward reads x once from memory (the second sweep finds the
row in the cache) and writes y once. Backward reads dy and x, writes dx, and adds dweight up in partial sums of few
rows. How long sums keep their digits: sums.py."""

import numpy as np
from numba import prange

from kernels.cpu.jit import contiguous, kernel
from kernels.cpu.sums import TERMS, joined, row_tasks


@kernel
def _part_squares(x):
    """Σ x²"""
    total = x.dtype.type(0)
    for i in range(x.size):
        total += x[i] * x[i]
    return total


@kernel(parallel=True)
def _rms_norm(y, rstd, x, weight, eps):
    N, C = x.shape
    one = x.dtype.type(1)
    share = one / x.dtype.type(C)
    for n in prange(N):
        squares = 0.0
        if C <= TERMS:  # the usual case, without the cost of slices
            part = x.dtype.type(0)
            for c in range(C):
                part += x[n, c] * x[n, c]
            squares = np.float64(part)
        else:
            for start in range(0, C, TERMS):
                squares += _part_squares(x[n][start : start + TERMS])
        inverse = one / np.sqrt(x.dtype.type(squares) * share + eps)
        for c in range(C):
            y[n, c] = x[n, c] * inverse * weight[c]
        rstd[n] = inverse


def rms_norm(x, weight, eps):
    """n = x · rstd;  y = n · weight, rstd = 1/√(mean_c(x²) + eps).   x (N, C); weight (C) → y (N, C), rstd (N)"""
    y, rstd = np.empty(x.shape, dtype=x.dtype), np.empty(len(x), dtype=x.dtype)
    _rms_norm(y, rstd, contiguous(x), contiguous(weight), x.dtype.type(eps))
    return y, rstd


@kernel
def _part_backward(dweight, dy, x, weight, inverse):
    """Adds to dweight; returns Σ dn n.   all (part of a row)"""
    total = x.dtype.type(0)
    for c in range(x.size):
        n = x[c] * inverse
        total += dy[c] * weight[c] * n
        dweight[c] += dy[c] * n
    return total


@kernel(parallel=True)
def _rms_norm_backward(dx, dweight, dy, x, weight, rstd):
    N, C = x.shape
    tasks = dweight.shape[0]
    share = x.dtype.type(1) / x.dtype.type(C)
    for task in prange(tasks):
        for row in range(task * N // tasks, (task + 1) * N // tasks):
            inverse, sum_dn_n = rstd[row], 0.0
            if C <= TERMS:  # the usual case, without the cost of slices
                part = x.dtype.type(0)
                for c in range(C):
                    n = x[row, c] * inverse
                    part += dy[row, c] * weight[c] * n
                    dweight[task, c] += dy[row, c] * n
                sum_dn_n = np.float64(part)
            else:
                for start in range(0, C, TERMS):
                    end = start + TERMS
                    sum_dn_n += _part_backward(
                        dweight[task][start:end], dy[row][start:end], x[row][start:end], weight[start:end], inverse
                    )
            mean_dn_n = x.dtype.type(sum_dn_n) * share
            for c in range(C):
                n = x[row, c] * inverse
                dx[row, c] = inverse * (dy[row, c] * weight[c] - n * mean_dn_n)


def rms_norm_backward(dy, x, weight, rstd):
    """dn = dy · weight;  dx = rstd · (dn - n · mean_c(dn · n));  dweight = Σ dy n"""
    dx = np.empty(x.shape, dtype=x.dtype)
    dweight = np.zeros((row_tasks(len(x)), x.shape[1]), dtype=x.dtype)
    _rms_norm_backward(dx, dweight, *(contiguous(a) for a in (dy, x, weight, rstd)))
    return dx, joined(dweight)
