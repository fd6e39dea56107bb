"""y = x Wᵀ + b, and plain matrix products."""

import numpy as np

from kernels.reference import reduce


def linear(x, weight, bias):
    """y[n, f] = Σ_c x[n, c] weight[f, c] + bias[f].   x (N, C); weight (F, C); bias (F) or None → y (N, F)"""
    y = x @ weight.T
    return y if bias is None else y + bias


def linear_backward(dy, x, weight, with_bias):
    """dx = dy W;  dW = dyᵀ x;  db = Σ_n dy[n].   dy (N, F) → dx (N, C), dweight (F, C), dbias (F) or None"""
    dx = dy @ weight
    dweight = dy.T @ x
    dbias = reduce.sum(dy, (0,)) if with_bias else None
    return dx, dweight, dbias


def matmul(a, b):
    """c = a b over the last two axes; the leading ones are broadcast.   a (..., n, k); b (..., k, m)"""
    return np.matmul(a, b)
