"""Linear, bias, activation, linear, bias. A thread takes a block of rows through all of it, so that what lies between
the two products stays in the cache; memory sees x read, pre and y written. Backward forms the hidden values again from
pre (so that they need not be kept): dhidden becomes dpre block by block, then dx; the weights' gradients follow.
Where there are too few blocks of rows for the cores, one product follows the other, each in blocks of columns."""

import math

import numpy as np
from numba import prange

from kernels.cpu.blas import blas_kernel, gemm
from kernels.cpu.elementwise import relu_slope, relu_value
from kernels.cpu.few_rows import few_rows, is_few
from kernels.cpu.gelu import gelu_slope, gelu_value
from kernels.cpu.jit import contiguous, kernel
from kernels.cpu.linear import (
    add_bias,
    add_rows,
    product,
    row_blocks,
    rows_stay_together,
    strip,
    strips,
    times_transposed,
    weight_block,
    weight_blocks,
)
from kernels.cpu.silu import gelu_tanh_slope, gelu_tanh_value
from kernels.cpu.sums import joined

RELU, GELU, TANH, GELU_TANH = 0, 1, 2, 3
CODES = {"relu": RELU, "gelu": GELU, "tanh": TANH, "gelu_tanh": GELU_TANH}


@kernel
def _activate(hidden, pre, n, f0, f1, activation):
    """hidden = activation(pre) in one row, f0 ≤ f < f1.   hidden, pre (N, F)"""
    if activation == RELU:
        for f in range(f0, f1):
            hidden[n, f] = relu_value(pre[n, f])
    elif activation == GELU:
        for f in range(f0, f1):
            hidden[n, f] = gelu_value(pre[n, f])
    elif activation == GELU_TANH:
        for f in range(f0, f1):
            hidden[n, f] = gelu_tanh_value(pre[n, f])
    else:
        for f in range(f0, f1):
            hidden[n, f] = math.tanh(pre[n, f])


@kernel
def _bias_activation(hidden, pre, bias, f0, f1, activation):
    """pre[n] += bias;  hidden = activation(pre), for f0 ≤ f < f1.   hidden, pre (n, F); bias (F)"""
    for n in range(pre.shape[0]):
        for f in range(f0, f1):
            pre[n, f] += bias[f]
        _activate(hidden, pre, n, f0, f1, activation)


@kernel
def _activation_backward(hidden, dpre, pre, activation):
    """hidden = activation(pre);  dpre, which holds dhidden, is multiplied by activation'(pre).   all (n, F)"""
    for n in range(pre.shape[0]):
        if activation == RELU:
            for f in range(pre.shape[1]):
                hidden[n, f] = relu_value(pre[n, f])
                dpre[n, f] *= relu_slope(pre[n, f])
        elif activation == GELU:
            for f in range(pre.shape[1]):
                hidden[n, f] = gelu_value(pre[n, f])
                dpre[n, f] *= gelu_slope(pre[n, f])
        elif activation == GELU_TANH:
            for f in range(pre.shape[1]):
                hidden[n, f] = gelu_tanh_value(pre[n, f])
                dpre[n, f] *= gelu_tanh_slope(pre[n, f])
        else:
            for f in range(pre.shape[1]):
                t = math.tanh(pre[n, f])
                hidden[n, f] = t
                dpre[n, f] *= 1 - t * t


@blas_kernel
def _feed_forward(blas, y, pre, x, w1, b1, w2, b2, activation):
    N = x.shape[0]
    tasks = row_blocks(N)
    for task in prange(tasks):
        n0, n1 = task * N // tasks, (task + 1) * N // tasks
        hidden = np.empty((n1 - n0, pre.shape[1]), pre.dtype)
        times_transposed(blas, pre, x, w1, n0, n1, 0, pre.shape[1])
        _bias_activation(hidden, pre[n0:n1], b1, 0, pre.shape[1], activation)
        times_transposed(blas, y[n0:n1], hidden, w2, 0, n1 - n0, 0, y.shape[1])
        add_bias(y, b2, n0, n1, 0, y.shape[1])


@kernel(parallel=True)
def _feed_forward_few(y, pre, hidden, x, w1, b1, w2, b2, activation):
    (N, F), E = pre.shape, y.shape[1]
    tasks = strips(F)
    for task in prange(tasks):
        f0, f1 = strip(task, tasks, F)
        few_rows(pre, x, w1, f0, f1)
        _bias_activation(hidden, pre, b1, f0, f1, activation)
    tasks = strips(E)
    for task in prange(tasks):
        f0, f1 = strip(task, tasks, E)
        few_rows(y, hidden, w2, f0, f1)
        add_bias(y, b2, 0, N, f0, f1)


@kernel(parallel=True)
def _activation(hidden, pre, activation):
    for n in prange(pre.shape[0]):
        _activate(hidden, pre, n, 0, pre.shape[1], activation)


@blas_kernel
def _feed_forward_backward(blas, dx, dw1, db1, dw2, db2, dpre, hidden, dy, x, w1, w2, pre, activation):
    """db1 (blocks of rows, F), db2 (blocks of rows, E): the bias gradients of each block"""
    N = dy.shape[0]
    tasks = row_blocks(N)
    for task in prange(tasks):
        n0, n1 = task * N // tasks, (task + 1) * N // tasks
        gemm(blas, dpre[n0:n1], dy[n0:n1], w2, False, False, False)
        _activation_backward(hidden[n0:n1], dpre[n0:n1], pre[n0:n1], activation)
        gemm(blas, dx[n0:n1], dpre[n0:n1], w1, False, False, False)
        add_rows(db1[task], dpre, n0, n1)
        add_rows(db2[task], dy, n0, n1)
    first, second = weight_blocks(dw1.shape[0]), weight_blocks(dw2.shape[0])
    for task in prange(first + second):
        if task < first:
            weight_block(blas, dw1, dpre, x, task, first)
        else:
            weight_block(blas, dw2, dy, hidden, task - first, second)


def feed_forward(x, w1, b1, w2, b2, activation):
    """pre = x w1ᵀ + b1;  y = activation(pre) w2ᵀ + b2

    x (N, C); w1 (F, C); b1 (F); w2 (E, F); b2 (E) → y (N, E), pre (N, F), which backward needs"""
    x, w1, b1, w2, b2 = (contiguous(a) for a in (x, w1, b1, w2, b2))
    N, code = len(x), CODES[activation]
    if rows_stay_together(N, w1):
        y, pre = np.empty((N, len(w2)), x.dtype), np.empty((N, len(w1)), x.dtype)
        _feed_forward(y, pre, x, w1, b1, w2, b2, code)
    elif is_few(*x.shape) and is_few(N, len(w1)):
        y, pre, hidden = (np.empty((N, width), x.dtype) for width in (len(w2), len(w1), len(w1)))
        _feed_forward_few(y, pre, hidden, x, w1, b1, w2, b2, code)
    else:
        pre = product(x, w1, b1)
        hidden = np.empty_like(pre)
        _activation(hidden, pre, code)
        y = product(hidden, w2, b2)
    return y, pre


def feed_forward_backward(dy, x, w1, w2, pre, activation):
    """dhidden = dy w2;  dpre = dhidden · activation'(pre);  then as for two linear layers. dy (N, E)"""
    dy, x, w1, w2, pre = (contiguous(a) for a in (dy, x, w1, w2, pre))
    dx, dpre, hidden = np.empty_like(x), np.empty_like(pre), np.empty_like(pre)
    dw1, dw2, tasks = np.empty_like(w1), np.empty_like(w2), row_blocks(len(dy))
    db1, db2 = np.empty((tasks, len(w1)), dy.dtype), np.empty((tasks, len(w2)), dy.dtype)
    _feed_forward_backward(dx, dw1, db1, dw2, db2, dpre, hidden, dy, x, w1, w2, pre, CODES[activation])
    return dx, dw1, joined(db1), dw2, joined(db2)
