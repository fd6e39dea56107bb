"""Linear, bias, activation, linear, bias. Between the two products of BLAS there is one sweep that adds the bias and
applies the activation: pre is read and written once, hidden written once. Backward sweeps once too: it turns dhidden
into dpre in place, while the hidden values are formed again from pre (so that they need not be kept)."""

import math

import numpy as np
from numba import prange

from kernels.cpu.elementwise import gelu_slope, gelu_value, relu_slope, relu_value
from kernels.cpu.jit import contiguous, kernel
from kernels.cpu.linear import add_bias, column_sums

RELU, GELU, TANH = 0, 1, 2
CODES = {"relu": RELU, "gelu": GELU, "tanh": TANH}


@kernel(parallel=True)
def _bias_activation(hidden, pre, bias, activation):
    """pre[n] += bias;  hidden = activation(pre).   hidden, pre (N, F); bias (F)"""
    for n in prange(pre.shape[0]):
        for f in range(pre.shape[1]):
            pre[n, f] += bias[f]
        if activation == RELU:
            for f in range(pre.shape[1]):
                hidden[n, f] = relu_value(pre[n, f])
        elif activation == GELU:
            for f in range(pre.shape[1]):
                hidden[n, f] = gelu_value(pre[n, f])
        else:
            for f in range(pre.shape[1]):
                hidden[n, f] = math.tanh(pre[n, f])


@kernel(parallel=True)
def _activation_backward(hidden, dpre, pre, activation):
    """hidden = activation(pre);  dpre, which holds dhidden, is multiplied by activation'(pre).   all (N, F)"""
    for n in prange(pre.shape[0]):
        if activation == RELU:
            for f in range(pre.shape[1]):
                hidden[n, f] = relu_value(pre[n, f])
                dpre[n, f] *= relu_slope(pre[n, f])
        elif activation == GELU:
            for f in range(pre.shape[1]):
                hidden[n, f] = gelu_value(pre[n, f])
                dpre[n, f] *= gelu_slope(pre[n, f])
        else:
            for f in range(pre.shape[1]):
                t = math.tanh(pre[n, f])
                hidden[n, f] = t
                dpre[n, f] *= 1 - t * t


def feed_forward(x, w1, b1, w2, b2, activation):
    """pre = x w1ᵀ + b1;  y = activation(pre) w2ᵀ + b2

    x (N, C); w1 (F, C); b1 (F); w2 (E, F); b2 (E) → y (N, E), pre (N, F), which backward needs"""
    pre = x @ w1.T
    hidden = np.empty_like(pre)
    _bias_activation(hidden, pre, contiguous(b1), CODES[activation])
    y = hidden @ w2.T
    add_bias(y, contiguous(b2))
    return y, pre


def feed_forward_backward(dy, x, w1, w2, pre, activation):
    """dhidden = dy w2;  dpre = dhidden · activation'(pre);  then as for two linear layers. dy (N, E)"""
    dpre = dy @ w2
    hidden = np.empty_like(dpre)
    _activation_backward(hidden, dpre, contiguous(pre), CODES[activation])
    dx = dpre @ w1
    dw1 = dpre.T @ x
    db1 = column_sums(dpre)
    dw2 = dy.T @ hidden
    db2 = column_sums(dy)
    return dx, dw1, db1, dw2, db2
