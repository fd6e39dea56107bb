"""Blocks of 32 quantised weights, unpacked in vector registers. kernels/reference/quantised_linear.py draws a block.

    unpack_row(row, weight, f, kind)    row[c] = w[f, c]
    dot(x, n, weight, f, kind)          Σ_c x[n, c] w[f, c]

These few lines are written for LLVM, the compiler behind Numba, instead of in Python: a loop over the 16 bytes of a
block is so short that the compiler unrolls it first, and then finds nothing left that fits its vectors (4 billion
weights a second on two cores, where this has 30). `_weights` says what a block is; all else are loads, sums and
loops. Bytes become whole numbers, then float32, times the scale (exact: 11 bits times 8 at most), plus the least value:
the very numbers that the reference unpacks. Sums run in 16 lanes, each adding every 16th product, in the type of x.
"""

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic, overload

from kernels.reference.quantised_linear import dequantise
from kernels.signature import QUANTISED, WEIGHTS_OF_A_BLOCK

Q8_0, Q4_1 = 0, 1
CODES = {"Q8_0": Q8_0, "Q4_1": Q4_1}
NAMES = tuple(CODES)
Q8_0_BYTES, Q4_1_BYTES = QUANTISED["Q8_0"], QUANTISED["Q4_1"]
LANES = WEIGHTS_OF_A_BLOCK // 2
_FEATURES = getattr(config, "CPU_FEATURES", None)  # of the processor to compile for, if it is not this one
LOOKS_UP = "+avx512f" in (get_host_cpu_features() if _FEATURES is None else _FEATURES)

BYTE, WORD, LONG, HALF, FLOAT = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.HalfType(), ir.FloatType()
FLAGS = ("contract",)  # a·b + c may be one instruction


def _vector(element):
    return ir.VectorType(element, LANES)


def _at(builder, address, offset, what):
    """A number or vector that lies so many bytes behind an address."""
    place = builder.add(address, ir.Constant(LONG, offset))
    return builder.load(builder.inttoptr(place, what.as_pointer()), align=1)


def _halves(builder, address, count):
    """The float16 numbers at an address as float32, each in all lanes."""
    numbers = builder.fpext(_at(builder, address, 0, ir.VectorType(HALF, count)), ir.VectorType(FLOAT, count))
    undefined = ir.Constant(numbers.type, ir.Undefined)
    lanes = [ir.Constant(_vector(WORD), [number] * LANES) for number in range(count)]
    return [builder.shuffle_vector(numbers, undefined, lane) for lane in lanes]


def _looked_up(builder, table, places):
    """table[places % 16], in one instruction"""
    kind = ir.FunctionType(table.type, [table.type, places.type])
    permute = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.permvar.sf.512")
    return builder.call(permute, [table, places])


def _weights(builder, kind, block, real):
    """The first and the last 16 weights of the block at this address, as vectors of `real`."""
    if kind == Q8_0:
        (scale,) = _halves(builder, block, 1)
        parts = [builder.sext(_at(builder, block, start, _vector(BYTE)), _vector(WORD)) for start in (2, 2 + LANES)]
        numbers = [builder.sitofp(part, _vector(FLOAT)) for part in parts]
        weights = [builder.fmul(scale, number) for number in numbers]
    else:
        scale, least = _halves(builder, block, 2)

        def levels(numbers):
            return builder.fadd(builder.fmul(scale, numbers, flags=FLAGS), least, flags=FLAGS)

        lower = builder.zext(_at(builder, block, 4, _vector(BYTE)), _vector(WORD))
        upper = builder.lshr(lower, ir.Constant(_vector(WORD), [4] * LANES))
        if LOOKS_UP:  # four bits have 16 levels, as many as a register has lanes
            table = levels(ir.Constant(_vector(FLOAT), [float(level) for level in range(LANES)]))
            weights = [_looked_up(builder, table, part) for part in (lower, upper)]
        else:
            lower = builder.and_(lower, ir.Constant(_vector(WORD), [15] * LANES))
            weights = [levels(builder.uitofp(part, _vector(FLOAT))) for part in (lower, upper)]
    return weights if real == FLOAT else [builder.fpext(weight, _vector(real)) for weight in weights]


def _unpack(kind):
    size = QUANTISED[NAMES[kind]]

    @intrinsic
    def unpack(typing, row, weight, count, zero):
        """`count` blocks at the address `weight` become numbers at the address `row`; `zero` gives their type"""

        def generate(context, builder, signature, args):
            row, weight, count, zero = args
            place = builder.inttoptr(row, _vector(zero.type).as_pointer())
            with cgutils.for_range(builder, count) as loop:
                block = builder.add(weight, builder.mul(loop.index, ir.Constant(LONG, size)))
                for part, numbers in enumerate(_weights(builder, kind, block, zero.type)):
                    number = builder.add(builder.mul(loop.index, ir.Constant(LONG, 2)), ir.Constant(LONG, part))
                    builder.store(numbers, builder.gep(place, [number]), align=_width(zero))
            return context.get_dummy_value()

        return types.void(types.intp, types.intp, types.intp, zero), generate

    return unpack


def _width(zero):
    """Bytes of a number of this type."""
    return 4 if zero.type == FLOAT else 8


def _dot(kind):
    size = QUANTISED[NAMES[kind]]

    @intrinsic
    def dot(typing, x, weight, count, zero):
        """Σ x w over `count` blocks at the address `weight`, and numbers of the type of `zero` at the address `x`"""

        def generate(context, builder, signature, args):
            x, weight, count, zero = args
            real, width = zero.type, _width(zero)
            # two sums, so that the second half of a block need not wait for the first
            sums = [cgutils.alloca_once_value(builder, ir.Constant(_vector(real), None)) for _ in range(2)]
            with cgutils.for_range(builder, count) as loop:
                block = builder.add(weight, builder.mul(loop.index, ir.Constant(LONG, size)))
                numbers = builder.add(x, builder.mul(loop.index, ir.Constant(LONG, WEIGHTS_OF_A_BLOCK * width)))
                for part, weights in enumerate(_weights(builder, kind, block, real)):
                    others = _at(builder, numbers, part * LANES * width, _vector(real))
                    term = builder.fmul(weights, others, flags=FLAGS)
                    builder.store(builder.fadd(builder.load(sums[part]), term, flags=FLAGS), sums[part])
            lanes = builder.fadd(*(builder.load(total) for total in sums))
            add_up = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(real, [real, _vector(real)]),
                f"llvm.vector.reduce.fadd.v{LANES}f{8 * width}",
            )
            return builder.call(add_up, [ir.Constant(real, 0.0), lanes], fastmath=("reassoc",))

        return zero(types.intp, types.intp, types.intp, zero), generate

    return dot


_unpack_q8_0, _unpack_q4_1 = _unpack(Q8_0), _unpack(Q4_1)
_dot_q8_0, _dot_q4_1 = _dot(Q8_0), _dot(Q4_1)


# Plain Python first, for whoever reads, and where nothing is compiled; then what the compiler puts in its place.


def unpack_row(row, weight, f, kind):
    """row[c] = w[f, c].   row (C); weight (F, R) bytes"""
    row[:] = dequantise(weight[f : f + 1], NAMES[kind])[0]


@overload(unpack_row, jit_options={"forceinline": True})
def _compiled_unpack_row(row, weight, f, kind):
    def compiled(row, weight, f, kind):
        at = weight.ctypes.data + f * weight.shape[1]
        if kind == Q8_0:
            _unpack_q8_0(row.ctypes.data, at, weight.shape[1] // Q8_0_BYTES, row.dtype.type(0))
        else:
            _unpack_q4_1(row.ctypes.data, at, weight.shape[1] // Q4_1_BYTES, row.dtype.type(0))

    return compiled


def dot(x, n, weight, f, kind):
    """Σ_c x[n, c] w[f, c].   x (N, C): rows of neighbouring numbers; weight (F, R) bytes"""
    return dequantise(weight[f : f + 1], NAMES[kind])[0].astype(x.dtype) @ x[n]


@overload(dot, jit_options={"forceinline": True})
def _compiled_dot(x, n, weight, f, kind):
    def compiled(x, n, weight, f, kind):
        numbers, at = x.ctypes.data + n * x.strides[0], weight.ctypes.data + f * weight.shape[1]
        if kind == Q8_0:
            return _dot_q8_0(numbers, at, weight.shape[1] // Q8_0_BYTES, x.dtype.type(0))
        return _dot_q4_1(numbers, at, weight.shape[1] // Q4_1_BYTES, x.dtype.type(0))

    return compiled
