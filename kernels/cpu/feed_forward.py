"""Linear, bias, activation, linear, bias. A thread takes a block of rows through all of it, so that what lies between
the two products stays in the cache; memory sees x read, pre and y written. Backward forms the hidden values again from
pre (so that they need not be kept): dhidden becomes dpre block by block, then dx; the weights' gradients follow.
Where there are too few blocks of rows for the cores, one product follows the other, each in blocks of columns."""

import math

import numpy as np
from numba import prange

from kernels.cpu.elementwise import relu_slope, relu_value
from kernels.cpu.few_rows import few_rows, is_few
from kernels.cpu.gelu import gelu_slope, gelu_value
from kernels.cpu.jit import contiguous, kernel
from kernels.cpu.linear import (
    add_bias,
    add_rows,
    panel_block,
    panel_grid,
    row_blocks,
    rows_stay_together,
    strip,
    strips,
    weight_block,
    weight_blocks,
)
from kernels.cpu.panels import WIDE, by_panels, panel_rows
from kernels.cpu.parts import part
from kernels.cpu.silu import gelu_tanh_slope, gelu_tanh_value
from kernels.cpu.sums import joined
from kernels.cpu.tiles import multiply_long

RELU, GELU, TANH, GELU_TANH = 0, 1, 2, 3
CODES = {"relu": RELU, "gelu": GELU, "tanh": TANH, "gelu_tanh": GELU_TANH}


@kernel
def activate(hidden, pre, activation):
    """hidden = activation(pre).   both (n), of neighbours, and not the same"""
    if activation == RELU:
        for i in range(pre.size):
            hidden[i] = relu_value(pre[i])
    elif activation == GELU:
        for i in range(pre.size):
            hidden[i] = gelu_value(pre[i])
    elif activation == GELU_TANH:
        for i in range(pre.size):
            hidden[i] = gelu_tanh_value(pre[i])
    else:
        for i in range(pre.size):
            hidden[i] = math.tanh(pre[i])


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


@kernel(parallel=True)
def _feed_forward(y, pre, x, w1, b1, w2, b2, activation):
    (N, F), E = pre.shape, y.shape[1]
    tasks = panel_rows(N, F)
    for task in prange(tasks):
        n0, n1 = part(task, tasks, N, WIDE)
        hidden = np.empty((n1 - n0, F), pre.dtype)
        by_panels(pre[n0:n1], x[n0:n1], w1, b1, 0, F)
        for n in range(n1 - n0):
            activate(hidden[n], pre[n0 + n], activation)
        by_panels(y[n0:n1], hidden, w2, b2, 0, E)


@kernel(parallel=True)
def _feed_forward_few(y, pre, hidden, x, w1, b1, w2, b2, activation):
    (N, F), E = pre.shape, y.shape[1]
    tasks = strips(F)
    for task in prange(tasks):
        f0, f1 = strip(task, tasks, F)
        few_rows(pre, x, w1, f0, f1)
        add_bias(pre, b1, 0, N, f0, f1)
        for n in range(N):
            activate(hidden[n][f0:f1], pre[n][f0:f1], activation)
    tasks = strips(E)
    for task in prange(tasks):
        f0, f1 = strip(task, tasks, E)
        few_rows(y, hidden, w2, f0, f1)
        add_bias(y, b2, 0, N, f0, f1)


@kernel(parallel=True)
def _feed_forward_by_columns(y, pre, hidden, x, w1, b1, w2, b2, activation):
    (N, C), F, E = x.shape, pre.shape[1], y.shape[1]
    down, across = panel_grid(N, C, F)
    for task in prange(down * across):
        n0, n1, f0, f1 = panel_block(task, down, across, N, F)
        by_panels(pre[n0:n1], x[n0:n1], w1, b1, f0, f1)
        for n in range(n0, n1):
            activate(hidden[n][f0:f1], pre[n][f0:f1], activation)
    down, across = panel_grid(N, F, E)
    for task in prange(down * across):
        n0, n1, f0, f1 = panel_block(task, down, across, N, E)
        by_panels(y[n0:n1], hidden[n0:n1], w2, b2, f0, f1)


@kernel(parallel=True)
def _feed_forward_backward(dx, dw1, db1, dw2, db2, dpre, hidden, dy, x, w1, w2, pre, activation):
    """db1 (blocks of rows, F), db2 (blocks of rows, E): the bias gradients of each block"""
    N = dy.shape[0]
    tasks = row_blocks(N)
    for task in prange(tasks):
        n0, n1 = task * N // tasks, (task + 1) * N // tasks
        multiply_long(dpre[n0:n1], dy[n0:n1], w2, False, False)
        _activation_backward(hidden[n0:n1], dpre[n0:n1], pre[n0:n1], activation)
        multiply_long(dx[n0:n1], dpre[n0:n1], w1, False, False)
        add_rows(db1[task], dpre, n0, n1)
        add_rows(db2[task], dy, n0, n1)
    first, second = weight_blocks(dw1), weight_blocks(dw2)
    for task in prange(first + second):
        if task < first:
            weight_block(dw1, dpre, x, task, first)
        else:
            weight_block(dw2, dy, hidden, task - first, second)


def feed_forward(x, w1, b1, w2, b2, activation):
    """pre = x w1ᵀ + b1;  y = activation(pre) w2ᵀ + b2

    x (N, C); w1 (F, C); b1 (F); w2 (E, F); b2 (E) → y (N, E), pre (N, F), which backward needs"""
    x, w1, b1, w2, b2 = (contiguous(a) for a in (x, w1, b1, w2, b2))
    N, code = len(x), CODES[activation]
    y, pre = np.empty((N, len(w2)), x.dtype), np.empty((N, len(w1)), x.dtype)
    if rows_stay_together(N):
        _feed_forward(y, pre, x, w1, b1, w2, b2, code)
    else:
        run = _feed_forward_few if is_few(N) else _feed_forward_by_columns
        run(y, pre, np.empty_like(pre), x, w1, b1, w2, b2, code)
    return y, pre


def feed_forward_backward(dy, x, w1, w2, pre, activation):
    """dhidden = dy w2;  dpre = dhidden · activation'(pre);  then as for two linear layers. dy (N, E)"""
    dy, x, w1, w2, pre = (contiguous(a) for a in (dy, x, w1, w2, pre))
    dx, dpre, hidden = np.empty_like(x), np.empty_like(pre), np.empty_like(pre)
    dw1, dw2, tasks = np.empty_like(w1), np.empty_like(w2), row_blocks(len(dy))
    db1, db2 = np.empty((tasks, len(w1)), dy.dtype), np.empty((tasks, len(w2)), dy.dtype)
    _feed_forward_backward(dx, dw1, db1, dw2, db2, dpre, hidden, dy, x, w1, w2, pre, CODES[activation])
    return dx, dw1, joined(db1), dw2, joined(db2)
