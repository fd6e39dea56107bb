"""A matrix product of our own, for blocks that are already in the cache: c = op(a) b, or c += op(a) b.

A tile of c, ROWS rows of two vectors each, stays in registers while the sum runs over k. Each step loads one row of b
(two vectors) and ROWS single numbers of a, every one of which multiplies both vectors: 2 · ROWS fused multiply-adds for
ROWS + 2 loads, and none waits for another.

    for l in range(k):
        for i in range(ROWS):                       # unrolled: ROWS × 2 accumulators
            acc[i] += a[i, l] * b[l, j : j + 2 * LANES]

Libraries first copy ("pack") their operands in the order of this loop, which pays for itself in large products. Ours
have 64 to 512 terms and lie in the cache: single numbers of a may come from anywhere, transposed or not, and b is read
along its rows. Measured on one core (AMD EPYC with AVX-512), 96 × 200 × 288, 288 × 96 × 192 and 128 × 64 × 128: 111 to
116 GFLOPS, where OpenBLAS has 92 to 108, and 102 for 2,048³. With half the vector width (AVX2, 6 rows): 92 to 113.

Each element is a plain sum in order of k, whatever the width of vectors and the place in a tile: one chain of fused
multiply-adds from zero, then added to c. So the bits do not depend on the tile shape or on the width of the vectors.

The loop is written as LLVM's instructions on vectors: Numba has no vector type, and from loops over arrays the compiler
does not find the tile.
"""

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic, overload, register_jitable

from kernels.cpu.few_rows import LINE, prefetch
from kernels.cpu.jit import kernel

FEATURES = getattr(numba.config, "CPU_FEATURES", None) or binding.get_host_cpu_features().flatten()
# AVX-512 has 32 registers of 16 floats; others 16 (x86) or 32 of 8 or 4. More accumulators than fit would be spilled.
LANES, ROWS = (16, 8) if "+avx512f" in FEATURES else (8, 6)
# The part of b that all rows of a long product meet before the next one: with as much of a, half of the second cache.
TERMS, COLUMNS = 256, 256
# The same where a is transposed: each step then reads another row of it, often on another page of memory, and a
# processor knows the places of less than 100 pages by heart.
TERMS_TRANSPOSED = 64


@intrinsic(prefer_literal=True)
def _tile(typing, columns, number, rows, k, c, c_row, a, a_row, a_step, b, b_step, add):
    """`rows` ≤ ROWS rows and `columns` columns of c. c, a, b are addresses; c_row, a_row ... distances in bytes."""
    if not isinstance(columns, types.IntegerLiteral):
        return None
    width, size = columns.literal_value, types.int64
    bytes_each = 4 if number == types.float32 else 8
    lanes = min(width, LANES * 4 // bytes_each)
    signature = types.void(columns, number, *[size] * 9, types.boolean)

    def generate(context, builder, signature, args):
        _, _, rows, k, c, c_row, a, a_row, a_step, b, b_step, add = args
        integer, real = ir.IntType(64), context.get_value_type(number)
        vector = ir.VectorType(real, lanes)
        spread = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
        nothing = ir.Constant(vector, ir.Undefined)

        def at(address, kind):
            return builder.inttoptr(address, kind.as_pointer())

        def load(address, kind):
            return builder.load(at(address, kind), align=bytes_each)

        def plus(address, count):
            return builder.add(address, integer(count * bytes_each))

        def to_all_lanes(one):
            return builder.shuffle_vector(builder.insert_element(nothing, one, ir.IntType(32)(0)), nothing, spread)

        # a strip at the lower edge has fewer rows: its last one is then computed, and stored, several times
        last = builder.sub(rows, integer(1))
        index = [builder.select(builder.icmp_signed("<", integer(i), rows), integer(i), last) for i in range(ROWS)]
        a_rows = [builder.mul(i, a_row) for i in index]
        c_rows = [builder.add(c, builder.mul(i, c_row)) for i in index]
        places = [(i, j) for i in range(ROWS) for j in range(0, width, lanes)]  # of the tile's vectors
        c_tile = [plus(c_rows[i], j) for i, j in places]

        before, test = builder.block, builder.append_basic_block("test")
        body, done = builder.append_basic_block("body"), builder.append_basic_block("done")
        builder.branch(test)
        builder.position_at_end(test)
        step, a_now, b_now = (builder.phi(integer) for _ in range(3))
        sums = [builder.phi(vector) for _ in places]
        builder.cbranch(builder.icmp_signed("<", step, k), body, done)

        builder.position_at_end(body)
        b_row = {j: load(plus(b_now, j), vector) for j in range(0, width, lanes)}
        ones = [to_all_lanes(load(builder.add(a_now, offset), real)) for offset in a_rows]
        products = [builder.fmul(ones[i], b_row[j], flags=("contract",)) for i, j in places]
        new_sums = [builder.fadd(p, s, flags=("contract",)) for p, s in zip(products, sums, strict=True)]
        ahead = [builder.add(step, integer(1)), builder.add(a_now, a_step), builder.add(b_now, b_step)]
        builder.branch(test)
        zero = ir.Constant(vector, [0.0] * lanes)
        starts = [integer(0), a, b] + [zero] * len(sums)
        for phi, start, next_one in zip([step, a_now, b_now, *sums], starts, ahead + new_sums, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(next_one, body)

        builder.position_at_end(done)

        def store(values):
            for value, address in zip(values, c_tile, strict=True):
                builder.store(value, at(address, vector), align=bytes_each)

        with builder.if_else(add) as (to_add, to_set):
            with to_add:  # all loads before the first store: a row may be there several times
                old = [load(address, vector) for address in c_tile]
                store([builder.fadd(o, s) for o, s in zip(old, sums, strict=True)])
            with to_set:
                store(sums)
        return context.get_dummy_value()

    return signature, generate


@register_jitable
def _ask_for(address, end, lines):
    """So many lines of memory, up to the end; → where the next one begins."""
    for _ in range(lines):
        if address < end:
            prefetch(address)
            address += LINE
    return address


def multiply(c, a, b, transpose_a, add, ahead=None):
    """c = op(a) b, or c += ... with `add`; op transposes or not. To be called inside a kernel.

    c (m, n); op(a) (m, k); b (k, n): rows of neighbouring elements, at any distance from each other.
    ahead: a piece of memory without gaps that will be wanted soon. Some of it is asked for before every tile, so that
    it is in the second cache when the product is done."""
    product = (a.T if transpose_a else a) @ b
    c[...] = c + product if add else product


@overload(multiply)
def _compiled_multiply(c, a, b, transpose_a, add, ahead=None):
    size = 4 if c.dtype == types.float32 else 8
    wide = 2 * LANES * 4 // size  # columns of a whole tile; then the next smaller powers of two
    half = wide // 2
    asks = isinstance(ahead, types.Array)

    def compiled(c, a, b, transpose_a, add, ahead=None):
        m, n = c.shape
        k = b.shape[0]
        c_row, a_row, a_step, b_step = c.strides[0], a.strides[0], size, b.strides[0]
        if transpose_a:
            a_row, a_step = size, a.strides[0]
        zero = c.dtype.type(0)
        if asks:
            asked, end = np.int64(ahead.ctypes.data), np.int64(ahead.ctypes.data) + ahead.size * size
            tiles = max(1, (m + ROWS - 1) // ROWS * max(1, n // wide))
            lines = ahead.size * size // LINE // tiles + 1
        for i in range(0, m, ROWS):
            rows = min(ROWS, m - i)
            c_at, a_at = np.int64(c.ctypes.data) + i * c_row, np.int64(a.ctypes.data) + i * a_row
            b_at = np.int64(b.ctypes.data)
            for _ in range(n // wide):
                if asks:
                    asked = _ask_for(asked, end, lines)
                _tile(wide, zero, rows, k, c_at, c_row, a_at, a_row, a_step, b_at, b_step, add)
                c_at, b_at = c_at + wide * size, b_at + wide * size
            if asks and n < wide:
                asked = _ask_for(asked, end, lines)
            if n & half:
                _tile(half, zero, rows, k, c_at, c_row, a_at, a_row, a_step, b_at, b_step, add)
                c_at, b_at = c_at + half * size, b_at + half * size
            if half > 8 and n & 8:
                _tile(8, zero, rows, k, c_at, c_row, a_at, a_row, a_step, b_at, b_step, add)
                c_at, b_at = c_at + 8 * size, b_at + 8 * size
            if half > 4 and n & 4:
                _tile(4, zero, rows, k, c_at, c_row, a_at, a_row, a_step, b_at, b_step, add)
                c_at, b_at = c_at + 4 * size, b_at + 4 * size
            if n & 2:
                _tile(2, zero, rows, k, c_at, c_row, a_at, a_row, a_step, b_at, b_step, add)
                c_at, b_at = c_at + 2 * size, b_at + 2 * size
            if n & 1:
                _tile(1, zero, rows, k, c_at, c_row, a_at, a_row, a_step, b_at, b_step, add)

    return compiled


@kernel
def multiply_long(c, a, b, transpose_a, add):
    """c = op(a) b, or c += ... with `add`, for operands of any size: a part of b at a time, which stays in the cache
    while all rows meet it.

    c (m, n); op(a) (m, k); b (k, n)"""
    n, k = c.shape[1], b.shape[0]
    terms = TERMS_TRANSPOSED if transpose_a else TERMS
    parts = max(1, (k + terms - 1) // terms)
    for j0 in range(0, n, COLUMNS):
        j1 = min(j0 + COLUMNS, n)
        for part in range(parts):
            k0, k1 = part * k // parts, (part + 1) * k // parts
            left = a[k0:k1] if transpose_a else a[:, k0:k1]
            multiply(c[:, j0:j1], left, b[k0:k1, j0:j1], transpose_a, add or part > 0)
