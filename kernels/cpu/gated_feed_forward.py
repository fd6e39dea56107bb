"""Two linear layers side by side, one activated and multiplied by the other, then a third. A thread takes a block of
rows through all of it, so that what lies between the products stays in the cache; memory sees x read, gate, up and y
written. Backward forms the hidden values again from gate and up (so that they need not be kept): dhidden becomes dgate
and dup block by block, then dx, which both add to; the weights' gradients follow.
Where there are too few blocks of rows for the cores, the products follow one another, each in blocks of columns."""

import numpy as np
from numba import prange

from kernels.cpu.gelu import gelu_slope, gelu_value
from kernels.cpu.jit import contiguous, kernel
from kernels.cpu.linear import (
    add_rows,
    product,
    row_blocks,
    rows_stay_together,
    weight_block,
    weight_blocks,
)
from kernels.cpu.panels import WIDE, by_panels, panel_rows
from kernels.cpu.parts import part
from kernels.cpu.silu import silu_slope, silu_value
from kernels.cpu.sums import joined
from kernels.cpu.tiles import multiply_long

SILU, GELU = 0, 1
CODES = {"silu": SILU, "gelu": GELU}


@kernel
def _gate_row(hidden, gate, up, activation):
    """hidden = activation(gate) · up.   all (F)"""
    if activation == SILU:
        for f in range(gate.size):
            hidden[f] = silu_value(gate[f]) * up[f]
    else:
        for f in range(gate.size):
            hidden[f] = gelu_value(gate[f]) * up[f]


@kernel(parallel=True)
def _gate(hidden, gate, up, activation):
    """The same for rows (N, F)"""
    for n in prange(gate.shape[0]):
        _gate_row(hidden[n], gate[n], up[n], activation)


@kernel
def _gate_backward(hidden, dgate, dup, gate, up, activation):
    """hidden = activation(gate) · up;  dgate = dhidden · up · activation'(gate);  dup, which holds dhidden, is
    multiplied by activation(gate).   all (n, F)"""
    for n in range(gate.shape[0]):
        if activation == SILU:
            for f in range(gate.shape[1]):
                value = silu_value(gate[n, f])
                hidden[n, f] = value * up[n, f]
                dgate[n, f] = dup[n, f] * up[n, f] * silu_slope(gate[n, f])
                dup[n, f] *= value
        else:
            for f in range(gate.shape[1]):
                value = gelu_value(gate[n, f])
                hidden[n, f] = value * up[n, f]
                dgate[n, f] = dup[n, f] * up[n, f] * gelu_slope(gate[n, f])
                dup[n, f] *= value


@kernel(parallel=True)
def _gated_feed_forward(y, gate, up, x, w_gate, b_gate, w_up, b_up, w_down, b_down, activation):
    N, F = gate.shape
    tasks = panel_rows(N, F)
    for task in prange(tasks):
        n0, n1 = part(task, tasks, N, WIDE)
        hidden = np.empty((n1 - n0, F), gate.dtype)
        by_panels(gate[n0:n1], x[n0:n1], w_gate, b_gate, 0, F)
        by_panels(up[n0:n1], x[n0:n1], w_up, b_up, 0, F)
        for n in range(n0, n1):
            _gate_row(hidden[n - n0], gate[n], up[n], activation)
        by_panels(y[n0:n1], hidden, w_down, b_down, 0, y.shape[1])


@kernel(parallel=True)
def _gated_feed_forward_backward(
    dx, dw_gate, db_gate, dw_up, db_up, dw_down, db_down, dgate, dup, hidden, dy, x, w_gate, w_up, w_down, gate,
    up, activation,
):  # fmt: skip
    """db_gate, db_up (blocks of rows, F), db_down (blocks of rows, E): the bias gradients of each block, or nothing"""
    N = dy.shape[0]
    tasks = row_blocks(N)
    for task in prange(tasks):
        n0, n1 = task * N // tasks, (task + 1) * N // tasks
        multiply_long(dup[n0:n1], dy[n0:n1], w_down, False, False)
        _gate_backward(hidden[n0:n1], dgate[n0:n1], dup[n0:n1], gate[n0:n1], up[n0:n1], activation)
        multiply_long(dx[n0:n1], dgate[n0:n1], w_gate, False, False)
        multiply_long(dx[n0:n1], dup[n0:n1], w_up, False, True)
        if db_gate.size:
            add_rows(db_gate[task], dgate, n0, n1)
        if db_up.size:
            add_rows(db_up[task], dup, n0, n1)
        if db_down.size:
            add_rows(db_down[task], dy, n0, n1)
    wide, narrow = weight_blocks(dw_gate), weight_blocks(dw_down)
    for task in prange(2 * wide + narrow):
        if task < wide:
            weight_block(dw_gate, dgate, x, task, wide)
        elif task < 2 * wide:
            weight_block(dw_up, dup, x, task - wide, wide)
        else:
            weight_block(dw_down, dy, hidden, task - 2 * wide, narrow)


def gated_feed_forward(x, w_gate, b_gate, w_up, b_up, w_down, b_down, activation):
    """gate = x w_gateᵀ + b_gate;  up = x w_upᵀ + b_up;  y = (activation(gate) · up) w_downᵀ + b_down

    x (N, C); w_gate, w_up (F, C); b_gate, b_up (F) or None; w_down (E, F); b_down (E) or None
    → y (N, E), gate (N, F), up (N, F), which backward needs"""
    x, w_gate, w_up, w_down = (contiguous(a) for a in (x, w_gate, w_up, w_down))
    b_gate, b_up, b_down = (np.empty(0, x.dtype) if b is None else contiguous(b) for b in (b_gate, b_up, b_down))
    if not rows_stay_together(len(x)):
        gate, up = product(x, w_gate, b_gate), product(x, w_up, b_up)
        hidden = np.empty_like(gate)
        _gate(hidden, gate, up, CODES[activation])
        return product(hidden, w_down, b_down), gate, up
    y = np.empty((len(x), len(w_down)), x.dtype)
    gate, up = (np.empty((len(x), len(w_gate)), x.dtype) for _ in range(2))
    _gated_feed_forward(y, gate, up, x, w_gate, b_gate, w_up, b_up, w_down, b_down, CODES[activation])
    return y, gate, up


def gated_feed_forward_backward(dy, x, w_gate, w_up, w_down, gate, up, activation, with_b_gate, with_b_up, with_b_down):
    """dhidden = dy w_down;  dup = dhidden · activation(gate);  dgate = dhidden · up · activation'(gate);  then as for
    three linear layers, of which two share their input. dy (N, E)"""
    dy, x, w_gate, w_up, w_down, gate, up = (contiguous(a) for a in (dy, x, w_gate, w_up, w_down, gate, up))
    dx, dw_gate, dw_up, dw_down = (np.empty_like(a) for a in (x, w_gate, w_up, w_down))
    dgate, dup, hidden = (np.empty_like(gate) for _ in range(3))
    tasks = row_blocks(len(dy))
    wanted = (with_b_gate, len(w_gate)), (with_b_up, len(w_up)), (with_b_down, len(w_down))
    sums = db_gate, db_up, db_down = [np.empty((tasks if wish else 0, width), dy.dtype) for wish, width in wanted]
    _gated_feed_forward_backward(
        dx, dw_gate, db_gate, dw_up, db_up, dw_down, db_down, dgate, dup, hidden, dy, x, w_gate, w_up, w_down, gate,
        up, CODES[activation],
    )  # fmt: skip
    db_gate, db_up, db_down = (joined(parts) if len(parts) else None for parts in sums)
    return dx, dw_gate, db_gate, dw_up, db_up, dw_down, db_down
