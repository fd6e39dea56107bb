"""Softmax and log-softmax over the last axis of x (N, C). The row's largest element is subtracted first, so that
exp cannot overflow; a row of -inf only has no softmax and gives NaN, as the formula does."""

import numpy as np

from kernels.reference import reduce


def row_sum(x):
    """(N, C) → (N, 1)"""
    return reduce.sum(x, (1,))[:, None]


def softmax(x):
    """y = exp(x) / Σ_c exp(x)"""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / row_sum(e)


def softmax_backward(dy, y):
    """dx = y (dy - Σ_c dy y)"""
    return y * (dy - row_sum(dy * y))


def log_softmax(x):
    """y = x - log Σ_c exp(x)"""
    shifted = x - x.max(axis=1, keepdims=True)
    return shifted - np.log(row_sum(np.exp(shifted)))


def log_softmax_backward(dy, y):
    """dx = dy - exp(y) Σ_c dy"""
    return dy - np.exp(y) * row_sum(dy)
