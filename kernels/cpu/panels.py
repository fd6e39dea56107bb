"""y = x Wᵀ + b for many rows of x, by the product of `tiles`, transposed: yᵀ = W xᵀ.

That product reads single numbers of its first operand, wherever they lie, and rows of its second. So W is read as it
lies, and each task makes panels of its part of x, once: WIDE rows, turned so that their numbers c are neighbours. What
comes out, SIDE rows of W times WIDE rows of x, is transposed and in the first cache; there it gets the bias and is
turned back on its way to y. While SIDE rows of W are in use, the next are on their way to the cache, and so is the
place in y: a processor reads a line of memory before it writes to it. Many rows of W make long pieces of rows of y,
fewer of which begin or end in the midst of a line; and a part of a panel in the first cache serves all of them.

BLAS turns both operands into such panels, for every block anew, and the bias is one more sweep. How much that saves
stands in README.md.

Each element is a chain of fused multiply-adds in order of c (of TERMS at most, then joined): the same bits wherever it
stands, in whatever company, and however wide the machine's vectors are.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload, register_jitable

from kernels.cpu.few_rows import fetch_to_write
from kernels.cpu.jit import kernel
from kernels.cpu.parts import blocks
from kernels.cpu.tiles import LANES, multiply

WIDE = 2 * LANES  # rows of x in a panel: the columns of a whole tile
STEP = 16 if LANES == 16 else 24  # rows of W that are whole tiles, and whole vectors of y: tasks are cut there
SIDE = 48 if LANES == 16 else 72  # rows of W at a time
TERMS = 128  # of a sum in one go
CACHED = 2**17  # numbers of x in the panels of one task: half of the second cache
MOST = 128  # rows of x in one task
TASKS = 8  # are enough; fewer tasks have more rows each, and read W less often


@register_jitable
def panel_rows(N, C):
    """Into how many tasks the rows are cut: whole panels, as many as the cache holds, once there are enough tasks."""
    panels, fit = blocks(N, WIDE), max(1, min(MOST, CACHED // max(C, 1)) // WIDE)
    return max(min(TASKS, panels), blocks(panels, fit))


@register_jitable
def lanes_of(p, N):
    """How many lanes of panel p are computed: those of its rows, up to a multiple of 8."""
    return blocks(min(WIDE, N - p * WIDE), 8) * 8


@kernel
def pack(panels, x):
    """panels[p, c, i] = x[p · WIDE + i, c]; what is computed behind the last row is 0.
    panels (P, C, WIDE); x (N, C)"""
    N, C = x.shape
    for p in range(panels.shape[0]):
        n0 = p * WIDE
        n1 = min(n0 + WIDE, N)
        turn(panels[p][:, : n1 - n0], x[n0:n1])
        for c in range(C):
            for i in range(n1 - n0, lanes_of(p, N)):
                panels[p, c, i] = 0


@kernel
def tile_by_panel(tile, weight, bias, panel, f, end, lanes, number, panels):
    """tile[i, j] = Σ_c weight[f + i, c] panel[c, j] + bias[f + i] for f + i < end and j < lanes; an empty bias is none.
    It is product `number` of so many `panels` with these rows of W, during which the next rows are asked for.
    tile (SIDE, WIDE); weight (F, C); bias (F); panel (C, WIDE)"""
    C, turned, numbers = weight.shape[1], tile[: end - f, :lanes], weight.reshape(-1)
    first = min(numbers.size, (f + SIDE) * C)
    size = min(numbers.size, first + SIDE * C) - first
    part, parts = number * blocks(C, TERMS), panels * blocks(C, TERMS)
    for c in range(0, C, TERMS):
        ahead = numbers[first + part * size // parts : first + (part + 1) * size // parts]
        multiply(turned, weight[f:end, c : c + TERMS], panel[c : c + TERMS, :lanes], False, c > 0, ahead)
        part += 1
    if bias.size:
        for i in range(end - f):
            row, shift = tile[i], bias[f + i]
            for j in range(lanes):
                row[j] += shift


@kernel
def times_panels(y, panels, weight, bias, f0, f1):
    """The product of all panels, turned back.   y (N, F); panels (P, C, WIDE)"""
    N, P = len(y), panels.shape[0]
    tile = np.empty((SIDE, WIDE), y.dtype)
    for f in range(f0, f1, SIDE):
        end = min(f + SIDE, f1)
        for p in range(P):
            n0, n1 = p * WIDE, min(N, (p + 1) * WIDE)
            fetch_to_write(y, n0, n1, f, end)
            tile_by_panel(tile, weight, bias, panels[p], f, end, lanes_of(p, N), p, P)
            turn(y[n0:n1, f:end], tile[: end - f, : n1 - n0])


@kernel
def by_panels(y, x, weight, bias, f0, f1):
    """y[n, f] = Σ_c x[n, c] weight[f, c] + bias[f] for all n and f0 ≤ f < f1; an empty bias is none.
    y (N, F); x (N, C); weight (F, C); bias (F)"""
    N, C = x.shape
    panels = np.empty((blocks(N, WIDE), C, WIDE), x.dtype)
    pack(panels, x)
    times_panels(y, panels, weight, bias, f0, f1)


def turn(to, x):
    """to = xᵀ, inside a kernel.   to (m, n); x (n, m): rows of neighbouring elements, at any distance"""
    to[...] = x.T


@overload(turn)
def _compiled_turn(to, x):
    size = 4 if to.dtype == types.float32 else 8
    side = LANES * 4 // size

    def compiled(to, x):
        n, m = x.shape
        to_row, x_row, zero = to.strides[0], x.strides[0], to.dtype.type(0)
        to_at, x_at = np.int64(to.ctypes.data), np.int64(x.ctypes.data)
        whole_n, whole_m = n - n % side, m - m % side
        for i in range(0, whole_n, side):
            for j in range(0, whole_m, side):
                _turn_square(zero, to_at + j * to_row + i * size, to_row, x_at + i * x_row + j * size, x_row)
        for i in range(n):
            for j in range(whole_m if i < whole_n else 0, m):
                to[j, i] = x[i, j]

    return compiled


@intrinsic
def _turn_square(typing, number, to, to_row, x, x_row):
    """A square of as many rows as a vector has numbers. `to` and `x` are addresses, rows lie to_row and x_row bytes
    apart. One step exchanges the halves beside the diagonal, the next the quarters inside the halves, and so on: each
    of them is a shuffle of two vectors."""
    size, bytes_each = types.int64, 4 if number == types.float32 else 8
    side = LANES * 4 // bytes_each

    def generate(context, builder, signature, args):
        _, to, to_row, x, x_row = args
        vector = ir.VectorType(context.get_value_type(number), side)
        index = ir.VectorType(ir.IntType(32), side)

        def row(start, distance, i):
            address = builder.add(start, builder.mul(distance, ir.IntType(64)(i)))
            return builder.inttoptr(address, vector.as_pointer())

        rows = [builder.load(row(x, x_row, i), align=bytes_each) for i in range(side)]
        half = side // 2
        while half:
            upper = ir.Constant(index, [side + (i ^ half) if i & half else i for i in range(side)])
            lower = ir.Constant(index, [side + i if i & half else i ^ half for i in range(side)])
            for i in range(side):
                if not i & half:
                    a, b = rows[i], rows[i + half]
                    rows[i], rows[i + half] = (builder.shuffle_vector(a, b, order) for order in (upper, lower))
            half //= 2
        for i in range(side):
            builder.store(rows[i], row(to, to_row, i), align=bytes_each)
        return context.get_dummy_value()

    return types.void(number, size, size, size, size), generate
