"""Layer norm over the last axis of x (N, C). One task a row; forward reads x once from memory (the second and third
sweep find the row in the cache) and writes y once. Backward reads dy and x, writes dx, and adds dweight and dbias up
in partial sums of few rows. How long sums keep their digits: sums.py."""

import numpy as np
from numba import prange

from kernels.cpu.jit import contiguous, kernel
from kernels.cpu.softmax import part_sum
from kernels.cpu.sums import TERMS, joined, row_tasks


@kernel
def _part_squares(x, centre):
    """Σ (x - centre)²"""
    total = x.dtype.type(0)
    for i in range(x.size):
        total += (x[i] - centre) * (x[i] - centre)
    return total


@kernel(inline=True)
def norm_row(y, mean, rstd, x, n, weight, bias, eps):
    """y[n] = norm(x[n])"""
    C = x.shape[1]
    one = x.dtype.type(1)
    share = one / x.dtype.type(C)
    total, squares = 0.0, 0.0
    if C <= TERMS:  # the usual case, without the cost of slices
        part = x.dtype.type(0)
        for c in range(C):
            part += x[n, c]
        centre = part * share
        part = x.dtype.type(0)
        for c in range(C):
            part += (x[n, c] - centre) * (x[n, c] - centre)
        squares = np.float64(part)
    else:
        for start in range(0, C, TERMS):
            total += part_sum(x[n][start : start + TERMS])
        centre = x.dtype.type(total) * share
        for start in range(0, C, TERMS):
            squares += _part_squares(x[n][start : start + TERMS], centre)
    inverse = one / np.sqrt(x.dtype.type(squares) * share + eps)
    for c in range(C):
        y[n, c] = (x[n, c] - centre) * inverse * weight[c] + bias[c]
    mean[n] = centre
    rstd[n] = inverse


@kernel(parallel=True)
def _layer_norm(y, mean, rstd, x, weight, bias, eps):
    for n in prange(len(x)):
        norm_row(y, mean, rstd, x, n, weight, bias, eps)


def layer_norm(x, weight, bias, eps):
    """n = (x - mean) · rstd;  y = n · weight + bias.   x (N, C); weight, bias (C) → y (N, C), mean (N), rstd (N)"""
    y = np.empty(x.shape, dtype=x.dtype)
    mean, rstd = np.empty(len(x), dtype=x.dtype), np.empty(len(x), dtype=x.dtype)
    _layer_norm(y, mean, rstd, contiguous(x), contiguous(weight), contiguous(bias), x.dtype.type(eps))
    return y, mean, rstd


@kernel
def _part_backward(dweight, dbias, dy, x, weight, centre, inverse):
    """Adds to dweight and dbias; returns Σ dn and Σ dn n.   all (part of a row)"""
    sum_dn = x.dtype.type(0)
    sum_dn_n = x.dtype.type(0)
    for c in range(x.size):
        n = (x[c] - centre) * inverse
        dn = dy[c] * weight[c]
        sum_dn += dn
        sum_dn_n += dn * n
        dweight[c] += dy[c] * n
        dbias[c] += dy[c]
    return sum_dn, sum_dn_n


@kernel(parallel=True)
def _layer_norm_backward(dx, dweight, dbias, dy, x, weight, mean, rstd):
    N, C = x.shape
    tasks = dweight.shape[0]
    share = x.dtype.type(1) / x.dtype.type(C)
    for task in prange(tasks):
        for row in range(task * N // tasks, (task + 1) * N // tasks):
            centre, inverse = mean[row], rstd[row]
            sum_dn, sum_dn_n = 0.0, 0.0
            if C <= TERMS:  # the usual case, without the cost of slices
                part_dn = x.dtype.type(0)
                part_dn_n = x.dtype.type(0)
                for c in range(C):
                    n = (x[row, c] - centre) * inverse
                    dn = dy[row, c] * weight[c]
                    part_dn += dn
                    part_dn_n += dn * n
                    dweight[task, c] += dy[row, c] * n
                    dbias[task, c] += dy[row, c]
                sum_dn, sum_dn_n = np.float64(part_dn), np.float64(part_dn_n)
            else:
                for start in range(0, C, TERMS):
                    end = start + TERMS
                    part_dn, part_dn_n = _part_backward(
                        dweight[task][start:end], dbias[task][start:end], dy[row][start:end], x[row][start:end],
                        weight[start:end], centre, inverse,
                    )  # fmt: skip
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
