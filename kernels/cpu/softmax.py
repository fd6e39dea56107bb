"""Softmax and log-softmax over the last axis of x (N, C): one task a row, which stays in the cache between the sweep
for the maximum, the one for the sum and the one that writes. Memory sees one read and one write an element."""

import math

import numpy as np
from numba import prange

from kernels.cpu.jit import contiguous, kernel
from kernels.cpu.sums import TERMS
from kernels.cpu.vector_math import exp

LANES = 16


@kernel
def largest(row):
    """The maximum of a row in LANES parts, which the compiler turns into vectors: a single running maximum, with
    NaN allowed, would not be vectorised. Returns NaN-free maxima; NaN comes back through the sums that follow."""
    n = row.size
    best = row[0]
    if n >= LANES:
        lanes = row[:LANES].copy()
        for start in range(LANES, n - LANES + 1, LANES):
            for j in range(LANES):
                lanes[j] = max(lanes[j], row[start + j])
        for j in range(LANES):
            best = max(best, lanes[j])
    for i in range(n // LANES * LANES, n):
        best = max(best, row[i])
    return best


@kernel
def part_sum(part):
    total = part.dtype.type(0)
    for i in range(part.size):
        total += part[i]
    return total


@kernel
def row_sum(row):
    total = 0.0
    for start in range(0, row.size, TERMS):
        total += part_sum(row[start : start + TERMS])
    return row.dtype.type(total)


@kernel
def _part_sum_exp(part, shift):
    total = part.dtype.type(0)
    for i in range(part.size):
        total += exp(part[i] - shift)
    return total


@kernel
def sum_exp(row, shift):
    """Σ exp(row - shift)"""
    total = 0.0
    for start in range(0, row.size, TERMS):
        total += _part_sum_exp(row[start : start + TERMS], shift)
    return row.dtype.type(total)


@kernel
def _part_exp(y, x, shift):
    """y = exp(x - shift), and its sum"""
    total = x.dtype.type(0)
    for i in range(x.size):
        y[i] = exp(x[i] - shift)
        total += y[i]
    return total


@kernel
def part_dot(a, b):
    """Σ_i a[i] b[i]"""
    total = a.dtype.type(0)
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@kernel(parallel=True)
def _softmax(y, x):
    for n in prange(x.shape[0]):
        top = largest(x[n])
        total = 0.0
        for start in range(0, x.shape[1], TERMS):
            total += _part_exp(y[n][start : start + TERMS], x[n][start : start + TERMS], top)
        share = x.dtype.type(1) / x.dtype.type(total)
        for c in range(x.shape[1]):
            y[n, c] *= share


@kernel(parallel=True)
def _softmax_backward(dx, dy, y):
    for n in prange(y.shape[0]):
        total = 0.0
        for start in range(0, y.shape[1], TERMS):
            total += part_dot(dy[n][start : start + TERMS], y[n][start : start + TERMS])
        mean = y.dtype.type(total)
        for c in range(y.shape[1]):
            dx[n, c] = y[n, c] * (dy[n, c] - mean)


@kernel(parallel=True)
def _log_softmax(y, x):
    for n in prange(x.shape[0]):
        top = largest(x[n])
        lse = x.dtype.type(math.log(sum_exp(x[n], top)))
        for c in range(x.shape[1]):
            y[n, c] = (x[n, c] - top) - lse


@kernel(parallel=True)
def _log_softmax_backward(dx, dy, y):
    for n in prange(y.shape[0]):
        total = row_sum(dy[n])
        for c in range(y.shape[1]):
            dx[n, c] = dy[n, c] - exp(y[n, c]) * total


def _rows(loop, *inputs):
    result = np.empty(inputs[0].shape, dtype=inputs[0].dtype)
    loop(result, *(contiguous(x) for x in inputs))
    return result


def softmax(x):
    """y = exp(x) / Σ_c exp(x)"""
    return _rows(_softmax, x)


def softmax_backward(dy, y):
    """dx = y (dy - Σ_c dy y)"""
    return _rows(_softmax_backward, dy, y)


def log_softmax(x):
    """y = x - log Σ_c exp(x)"""
    return _rows(_log_softmax, x)


def log_softmax_backward(dy, y):
    """dx = dy - exp(y) Σ_c dy"""
    return _rows(_log_softmax_backward, dy, y)
