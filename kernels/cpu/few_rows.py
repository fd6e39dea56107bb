"""y = x Wᵀ for a few rows of x: one word of each of some texts in the making.

W is read as it lies: y[n, f] is the dot product of two rows, and a tile of them shares what it loads. Four rows of x
with six rows of W are ten loads for 24 multiply-adds, and 24 sums that stay in vector registers; where there are only
16 of those (AVX2), it is four with three. While one tile of W is in use, those after it are on their way to the cache.

The price is paid at the end of a row, where the 16 (or 8) parts of each sum are added up. `panels` has no such end, but
fills vectors with rows of x: from some twelve rows on it is the faster one.

Measured with two threads on AVX-512, GFLOPS of this and of panels:
    rows                    4            8           16           32
    384 → 1,152      124 / 69    148 / 131    160 / 194    171 / 210
    1,536 → 384      152 / 64    179 / 118    195 / 190    204 / 209
    200 → 600        81 /  55    101 / 102    116 / 161    122 / 185
"""

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from kernels.cpu.jit import kernel
from kernels.cpu.softmax import part_dot

ROWS = 4
WIDE = llvm.get_host_cpu_features().get("avx512f", False)  # 32 vector registers; else take it to be 16
COLUMNS = 6 if WIDE else 3
LINE = 64  # bytes that come from memory at once
AHEAD = 16384  # bytes of W that are asked for in advance, or one tile: the first cache has three times as many
FEW = 12  # rows


def is_few(rows):
    """Whether so many rows are multiplied here rather than by panels."""
    return rows <= FEW


@kernel
def few_rows(y, x, weight, f0, f1):
    """y[n, f] = Σ_c x[n, c] weight[f, c] for all n and f0 ≤ f < f1.   y (N, F); x (N, C); weight (F, C)"""
    N = x.shape[0]
    tiled = N - N % ROWS
    last = f1 - (f1 - f0) % COLUMNS
    ahead = COLUMNS * max(1, AHEAD // (COLUMNS * weight.strides[0]))
    for f in range(f0, last, COLUMNS):
        for n in range(0, tiled, ROWS):
            fetch_part(weight, f + ahead, COLUMNS, n // ROWS, tiled // ROWS)
            if WIDE:
                _tile_of_six(y, x, weight, n, f)
            else:
                _tile_of_three(y, x, weight, n, f)
    for f in range(f0, f1):
        for n in range(tiled if f < last else 0, N):
            y[n, f] = part_dot(x[n], weight[f])


@kernel
def _tile_of_six(y, x, weight, n, f):
    """y[n : n + 4, f : f + 6]"""
    x0, x1, x2, x3 = x[n], x[n + 1], x[n + 2], x[n + 3]
    wa, wb, wc, wd, we, wf = weight[f], weight[f + 1], weight[f + 2], weight[f + 3], weight[f + 4], weight[f + 5]
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = c0 = c1 = c2 = c3 = y.dtype.type(0)
    d0 = d1 = d2 = d3 = e0 = e1 = e2 = e3 = f0 = f1 = f2 = f3 = y.dtype.type(0)
    for i in range(x.shape[1]):
        p0, p1, p2, p3 = x0[i], x1[i], x2[i], x3[i]
        q = wa[i]
        a0, a1, a2, a3 = a0 + p0 * q, a1 + p1 * q, a2 + p2 * q, a3 + p3 * q
        q = wb[i]
        b0, b1, b2, b3 = b0 + p0 * q, b1 + p1 * q, b2 + p2 * q, b3 + p3 * q
        q = wc[i]
        c0, c1, c2, c3 = c0 + p0 * q, c1 + p1 * q, c2 + p2 * q, c3 + p3 * q
        q = wd[i]
        d0, d1, d2, d3 = d0 + p0 * q, d1 + p1 * q, d2 + p2 * q, d3 + p3 * q
        q = we[i]
        e0, e1, e2, e3 = e0 + p0 * q, e1 + p1 * q, e2 + p2 * q, e3 + p3 * q
        q = wf[i]
        f0, f1, f2, f3 = f0 + p0 * q, f1 + p1 * q, f2 + p2 * q, f3 + p3 * q
    y[n, f], y[n, f + 1], y[n, f + 2], y[n, f + 3], y[n, f + 4], y[n, f + 5] = a0, b0, c0, d0, e0, f0
    n += 1
    y[n, f], y[n, f + 1], y[n, f + 2], y[n, f + 3], y[n, f + 4], y[n, f + 5] = a1, b1, c1, d1, e1, f1
    n += 1
    y[n, f], y[n, f + 1], y[n, f + 2], y[n, f + 3], y[n, f + 4], y[n, f + 5] = a2, b2, c2, d2, e2, f2
    n += 1
    y[n, f], y[n, f + 1], y[n, f + 2], y[n, f + 3], y[n, f + 4], y[n, f + 5] = a3, b3, c3, d3, e3, f3


@kernel
def _tile_of_three(y, x, weight, n, f):
    """y[n : n + 4, f : f + 3]"""
    x0, x1, x2, x3 = x[n], x[n + 1], x[n + 2], x[n + 3]
    wa, wb, wc = weight[f], weight[f + 1], weight[f + 2]
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = c0 = c1 = c2 = c3 = y.dtype.type(0)
    for i in range(x.shape[1]):
        p0, p1, p2, p3 = x0[i], x1[i], x2[i], x3[i]
        q = wa[i]
        a0, a1, a2, a3 = a0 + p0 * q, a1 + p1 * q, a2 + p2 * q, a3 + p3 * q
        q = wb[i]
        b0, b1, b2, b3 = b0 + p0 * q, b1 + p1 * q, b2 + p2 * q, b3 + p3 * q
        q = wc[i]
        c0, c1, c2, c3 = c0 + p0 * q, c1 + p1 * q, c2 + p2 * q, c3 + p3 * q
    y[n, f], y[n, f + 1], y[n, f + 2] = a0, b0, c0
    y[n + 1, f], y[n + 1, f + 1], y[n + 1, f + 2] = a1, b1, c1
    y[n + 2, f], y[n + 2, f + 1], y[n + 2, f + 2] = a2, b2, c2
    y[n + 3, f], y[n + 3, f + 1], y[n + 3, f + 2] = a3, b3, c3


def fetch_part(weight, f, rows, part, parts):
    """Asks for one of some parts of `rows` rows of W, from row f on. An address behind the array does no harm: nothing
    is read."""


@overload(fetch_part)
def _compiled_fetch(weight, f, rows, part, parts):
    def fetch(weight, f, rows, part, parts):
        size = rows * weight.strides[0]
        start = weight.ctypes.data + f * weight.strides[0]
        for offset in range(part * size // parts, (part + 1) * size // parts, LINE):
            prefetch_near(start + offset)

    return fetch


def fetch_to_write(y, n0, n1, f0, f1):
    """Asks for y[n0:n1, f0:f1], which will be written to."""


@overload(fetch_to_write)
def _compiled_fetch_to_write(y, n0, n1, f0, f1):
    def fetch(y, n0, n1, f0, f1):
        size = y.itemsize
        for n in range(n0, n1):
            row = y.ctypes.data + n * y.strides[0]
            for address in range(row + f0 * size, row + f1 * size, LINE):
                prefetch_to_write(address)

    return fetch


def _prefetch(to_write, cache):
    """An instruction that asks for the line of memory at an address. The cache is 2 for the second, 3 for the first."""

    @intrinsic
    def prefetch(typing, address):
        def generate(context, builder, signature, args):
            pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            function = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
            prefetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer], function)
            data = number(1)  # and not instructions
            builder.call(prefetch, [builder.inttoptr(args[0], pointer), number(to_write), number(cache), data])
            return context.get_dummy_value()

        return types.void(types.int64), generate

    return prefetch


prefetch = _prefetch(0, 2)  # the first cache is full of what is in use
prefetch_near = _prefetch(0, 3)
prefetch_to_write = _prefetch(1, 3)
