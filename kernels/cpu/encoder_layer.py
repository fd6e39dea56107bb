"""A layer of an encoder as a whole, in one compiled call.

With few words it is not arithmetic that takes the time but what lies around it: calls from Python, arrays on their way
through memory, threads that are woken. So a layer is a list of stages in one kernel, and between most of them the
numbers stay in the layout in which `panels` multiplies: WIDE rows of x, turned, make a panel. The feed-forward layer's
hidden numbers come out of the first product in that layout, and the second finds its operand packed.

    few panels    stage by stage, each cut into blocks of columns for all threads
    many panels   all that follows attention is one task for a few panels, whose hidden numbers stay in its cache

Reads x and writes y once, reads the weights once for the panels of a task. Nothing is kept for a gradient. The bits are
those of the kernels one after the other, where these work with panels, too (from 13 rows on).
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import prange

from kernels.contract import Dropout
from kernels.cpu.attention import BLOCK, attend_tile, plain_options
from kernels.cpu.each import shared
from kernels.cpu.feed_forward import CODES, activate
from kernels.cpu.jit import contiguous, kernel
from kernels.cpu.layer_norm import norm_row
from kernels.cpu.panels import CACHED, SIDE, STEP, TASKS, WIDE, lanes_of, pack, tile_by_panel, times_panels
from kernels.cpu.parts import blocks, part

PACK, PROJECT, ATTEND, PACK_SEEN, MIX, NORM, OPEN, CLOSE, NORM_AGAIN, END = range(10)  # the stages, in their order
MANY = 16  # tasks of some panels each: from so many on, a task takes its panels through several stages
NARROW = 3 * STEP  # columns that a block keeps when a stage is cut


class Weights(NamedTuple):
    w_in: Any  # (3C, C)
    b_in: Any
    w_out: Any  # (C, C)
    b_out: Any
    weight1: Any  # (C)
    bias1: Any
    w1: Any  # (F, C)
    b1: Any
    w2: Any  # (C, F)
    b2: Any
    weight2: Any  # (C)
    bias2: Any


class Room(NamedTuple):
    """What lies between the stages."""

    projected: Any  # (N, 3C): queries, keys, values
    seen: Any  # (N, C): what attention gives
    lse: Any  # (B, H, T)
    z: Any  # (N, C): what a sublayer adds
    h: Any  # (N, C): what the first norm gives
    mean: Any  # (N): of each row before the norm
    rstd: Any  # (N)
    panels: Any  # (P, C, WIDE): what the next product reads
    hidden: Any  # (P, F, WIDE)
    q: Any  # (2, B, H, T, D), as attention.py wants its arguments: a view of `projected`, like k and v
    k: Any
    v: Any
    out: Any  # the same of `seen`


@kernel
def _open(hidden, panels, weight, bias, f0, f1, N, activation):
    """hidden[p, f] = activation(Σ_c weight[f, c] panels[p, c] + bias[f]) for f0 ≤ f < f1.
    hidden (P, F, WIDE); panels (P, C, WIDE)"""
    P = hidden.shape[0]
    tile = np.empty((SIDE, WIDE), hidden.dtype)
    for f in range(f0, f1, SIDE):
        end = min(f + SIDE, f1)
        for p in range(P):
            lanes = lanes_of(p, N)
            tile_by_panel(tile, weight, bias, panels[p], f, end, lanes, p, P)
            for i in range(end - f):
                activate(hidden[p, f + i][:lanes], tile[i][:lanes], activation)


@kernel
def _add_and_norm(y, mean, rstd, z, x, weight, bias, eps):
    """y = norm(x + z).   y, z, x (n, C); mean, rstd (n); z is used up"""
    for n in range(z.shape[0]):
        for c in range(z.shape[1]):
            z[n, c] += x[n, c]
        norm_row(y, mean, rstd, z, n, weight, bias, eps)


@kernel
def _stage(stage, row, rows, column, columns, y, x, w, room, mask, scale, dropout, eps, activation):
    """One stage for one task: part `row` of `rows` parts of the panels, part `column` of those of the columns."""
    (N, C), P = x.shape, room.panels.shape[0]
    p0, p1 = part(row, rows, P, 1)
    n0, n1 = p0 * WIDE, min(N, p1 * WIDE)
    panels, hidden = room.panels[p0:p1], room.hidden[p0:p1]
    z, h, mean, rstd = room.z[n0:n1], room.h[n0:n1], room.mean[n0:n1], room.rstd[n0:n1]
    if stage == PACK:
        pack(panels, x[n0:n1])
    elif stage == PROJECT:
        f0, f1 = part(column, columns, 3 * C, STEP)
        times_panels(room.projected[n0:n1], panels, w.w_in, w.b_in, f0, f1)
    elif stage == ATTEND:
        _, B, H, T, _ = room.q.shape
        tiles = blocks(T, BLOCK)
        for number in range(row * B * H * tiles // rows, (row + 1) * B * H * tiles // rows):
            b, h, first = number // tiles // H, number // tiles % H, number % tiles * BLOCK
            attend_tile(
                room.out[0, b, h : h + 1], room.lse[b, h : h + 1], room.q[0, b, h : h + 1], room.k[0, b, h],
                room.v[0, b, h], first, BLOCK, mask.key_lengths[b], mask, scale, dropout, b * H + h,
            )  # fmt: skip
    elif stage == PACK_SEEN:
        pack(panels, room.seen[n0:n1])
    elif stage == MIX:
        f0, f1 = part(column, columns, C, STEP)
        times_panels(z, panels, w.w_out, w.b_out, f0, f1)
    elif stage == NORM:
        _add_and_norm(h, mean, rstd, z, x[n0:n1], w.weight1, w.bias1, eps)
        pack(panels, h)
    elif stage == OPEN:
        f0, f1 = part(column, columns, w.w1.shape[0], STEP)
        _open(hidden, panels, w.w1, w.b1, f0, f1, n1 - n0, activation)
    elif stage == CLOSE:
        f0, f1 = part(column, columns, C, STEP)
        times_panels(z, hidden, w.w2, w.b2, f0, f1)
    else:
        _add_and_norm(y[n0:n1], mean, rstd, z, h, w.weight2, w.bias2, eps)


@kernel(parallel=True)
def _encoder_layer(y, x, plan, w, room, mask, scale, dropout, eps, activation):
    """y, x (N, C); plan: see _plan"""
    for phase in range(plan.shape[0]):
        first, last, rows, columns = plan[phase, 0], plan[phase, 1], plan[phase, 2], plan[phase, 3]
        if rows * columns == 1:  # the other threads need not be woken
            for stage in range(first, last):
                _stage(stage, 0, 1, 0, 1, y, x, w, room, mask, scale, dropout, eps, activation)
        else:
            for task in prange(rows * columns):
                row, column = task % rows, task // rows
                for stage in range(first, last):
                    _stage(stage, row, rows, column, columns, y, x, w, room, mask, scale, dropout, eps, activation)


@lru_cache(maxsize=64)
def _plan(N, C, F, tiles):
    """The phases, after each of which all threads wait: the first stage, the one after the last, and into how many
    parts panels (or the tiles of attention) and columns are cut. That follows from the sizes alone, so that the number
    of threads changes no bit."""
    panels = blocks(N, WIDE)
    tasks = blocks(panels, max(1, CACHED // max(C, F) // WIDE))
    if tasks >= MANY:
        phases = [(PACK, ATTEND, tasks, 1), (ATTEND, PACK_SEEN, tiles, 1), (PACK_SEEN, END, tasks, 1)]
    else:
        across = {
            stage: max(1, min(TASKS, width // NARROW))
            for stage, width in {PROJECT: 3 * C, MIX: C, OPEN: F, CLOSE: C}.items()
        }
        down = {**dict.fromkeys(range(END), panels), **dict.fromkeys(across, 1), ATTEND: tiles}
        phases = [(stage, stage + 1, down[stage], across.get(stage, 1)) for stage in range(END)]
    return np.array(phases, np.int64)


def encoder_layer(
    x, w_in, b_in, w_out, b_out, weight1, bias1, w1, b1, w2, b2, weight2, bias2, mask, n_heads, eps, activation
):
    """h = norm(x + heads w_outᵀ + b_out), heads = attention of x w_inᵀ + b_in;  y = norm(h + feed_forward(h))

    x (B, T, C); w_in (3C, C); b_in (3C); w_out (C, C); w1 (F, C); b1 (F); w2 (C, F); others (C) → y (B, T, C)"""
    (B, T, C), F, dtype, size = x.shape, len(w1), x.dtype, x.itemsize
    N, D, P = B * T, C // n_heads, blocks(B * T, WIDE)
    projected, seen, y = np.empty((N, 3 * C), dtype), np.empty((N, C), dtype), np.empty((B, T, C), dtype)

    def heads(of, first):
        row = of.shape[1] * size
        return np.ndarray((2, B, n_heads, T, D), dtype, of, first * C * size, (0, T * row, D * size, row, size))

    q, k, v = (heads(projected, first) for first in range(3))
    room = Room(
        projected, seen, np.empty((B, n_heads, T), dtype), np.empty((N, C), dtype), np.empty((N, C), dtype),
        *np.empty((2, N), dtype),
        np.empty((P, C, WIDE), dtype), np.empty((P, F, WIDE), dtype), q, k, v,
        heads(seen, 0),
    )  # fmt: skip
    weights = map(contiguous, (w_in, b_in, w_out, b_out, weight1, bias1, w1, b1, w2, b2, weight2, bias2))
    plan = _plan(N, C, F, B * n_heads * blocks(T, BLOCK))
    options = (*plain_options(q[0], k[0], mask, D**-0.5, Dropout()), dtype.type(eps), CODES[activation])
    rows = contiguous(x).reshape(N, C)
    numbers = max(w1.size, N * F)
    shared(_encoder_layer, numbers, y.reshape(N, C), rows, plan, Weights(*weights), room, *options)
    return y
