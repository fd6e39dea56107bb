"""y = x Wᵀ with a W of eight or four bits a weight.

A few rows (a model that generates word by word) are bound by reading W: its bytes are read once, become numbers in
registers, and meet x there. Many rows (a prompt) are bound by arithmetic: a tile of W is unpacked into the cache, and
multiplied there with all rows, as `panels` does, before the next one. Memory sees the bytes of W once either way: 5 or
8.5 bits a weight instead of 32. x stays as it is, so that only W carries an error; 2 N C F flops, and 2 C F to unpack.
"""

import numpy as np
from numba import prange

from kernels.cpu.gelu import gelu_value
from kernels.cpu.jit import contiguous, kernel
from kernels.cpu.panels import SIDE, WIDE, pack, times_panels
from kernels.cpu.parts import blocks
from kernels.cpu.quantised_blocks import CODES, QUANTISED, WEIGHTS_OF_A_BLOCK, dot, unpack_row
from kernels.cpu.silu import silu_value
from kernels.cpu.tiles import multiply_long

ROWS = 256  # of dx in one task
FEW = 6  # rows for which unpacking W again and again costs less than the detour through the cache
TILE = SIDE  # rows of W that are unpacked at a time
GELU = 1
ACTIVATIONS = {"silu": 0, "gelu": GELU}


@kernel(parallel=True)
def _dequantise(w, weight, kind):
    for f in prange(w.shape[0]):
        unpack_row(w[f], weight, f, kind)


@kernel(parallel=True)
def _few(y, x, weight, kind):
    for f in prange(y.shape[1]):
        for n in range(y.shape[0]):
            y[n, f] = dot(x, n, weight, f, kind)


@kernel(parallel=True)
def _many(y, panels, x, weight, kind):
    """panels (P, C, WIDE): room for x, turned"""
    N, F = y.shape
    tiles, nothing = blocks(F, TILE), np.empty(0, x.dtype)
    for p in prange(panels.shape[0]):
        pack(panels[p : p + 1], x[p * WIDE : (p + 1) * WIDE])
    for task in prange(tiles):
        f0, f1 = task * TILE, min(F, (task + 1) * TILE)
        tile = np.empty((f1 - f0, x.shape[1]), x.dtype)
        for f in range(f0, f1):
            unpack_row(tile[f - f0], weight, f, kind)
        times_panels(y[:, f0:f1], panels, tile, nothing, 0, f1 - f0)


@kernel(parallel=True)
def _backward(dx, dy, weight, kind):
    """dx = dy W: each block of rows adds up what the tiles of W give, in their order."""
    N, F = dy.shape
    tiles, down = blocks(F, TILE), blocks(N, ROWS)
    for i in prange(down):
        n0, n1 = i * N // down, (i + 1) * N // down
        for j in range(tiles):
            f0, f1 = j * F // tiles, (j + 1) * F // tiles
            tile = np.empty((f1 - f0, dx.shape[1]), dx.dtype)
            for f in range(f0, f1):
                unpack_row(tile[f - f0], weight, f, kind)
            multiply_long(dx[n0:n1], dy[n0:n1, f0:f1], tile, False, j > 0)


@kernel(parallel=True)
def _gate(gate, up, activation):
    """gate = activation(gate) · up.   gate, up (N, F)"""
    for n in prange(gate.shape[0]):
        if activation == GELU:
            for f in range(gate.shape[1]):
                gate[n, f] = gelu_value(gate[n, f]) * up[n, f]
        else:
            for f in range(gate.shape[1]):
                gate[n, f] = silu_value(gate[n, f]) * up[n, f]


@kernel(parallel=True)
def _few_gated(y, hidden, x, w_gate, w_up, w_down, kind, activation):
    for f in prange(hidden.shape[1]):
        for n in range(hidden.shape[0]):
            gate, up = dot(x, n, w_gate, f, kind), dot(x, n, w_up, f, kind)
            hidden[n, f] = (gelu_value(gate) if activation == GELU else silu_value(gate)) * up
    for e in prange(y.shape[1]):
        for n in range(y.shape[0]):
            y[n, e] = dot(hidden, n, w_down, e, kind)


def dequantise(weight, kind):
    """w = scale · q, or scale · q + least, in float32.   weight (F, R) bytes → w (F, C)"""
    w = np.empty((len(weight), columns(weight, kind)), np.float32)
    _dequantise(w, contiguous(weight), CODES[kind])
    return w


def columns(weight, kind):
    return weight.shape[1] // QUANTISED[kind] * WEIGHTS_OF_A_BLOCK


def quantised_linear(x, weight, kind):
    """y[n, f] = Σ_c x[n, c] w[f, c].   x (N, C); weight (F, R) bytes → y (N, F)"""
    x, weight, y = contiguous(x), contiguous(weight), np.empty((len(x), len(weight)), x.dtype)
    if len(x) <= FEW:
        _few(y, x, weight, CODES[kind])
    else:
        _many(y, np.empty((blocks(len(x), WIDE), x.shape[1], WIDE), x.dtype), x, weight, CODES[kind])
    return y


def quantised_linear_backward(dy, weight, kind):
    """dx = dy W.   dy (N, F); weight (F, R) bytes → dx (N, C)"""
    dx = np.empty((len(dy), columns(weight, kind)), dy.dtype)
    _backward(dx, contiguous(dy), contiguous(weight), CODES[kind])
    return dx


def quantised_gated_feed_forward(x, w_gate, w_up, w_down, kind, activation):
    """y = (activation(x w_gateᵀ) · (x w_upᵀ)) w_downᵀ.   x (N, C); w_gate, w_up (F, R); w_down (E, Q) → y (N, E)"""
    if len(x) > FEW:
        gate, up = quantised_linear(x, w_gate, kind), quantised_linear(x, w_up, kind)
        _gate(gate, up, ACTIVATIONS[activation])
        return quantised_linear(gate, w_down, kind)
    x, *weights = (contiguous(array) for array in (x, w_gate, w_up, w_down))
    hidden, y = (np.empty((len(x), len(w)), x.dtype) for w in (w_gate, w_down))
    _few_gated(y, hidden, x, *weights, CODES[kind], ACTIVATIONS[activation])
    return y
