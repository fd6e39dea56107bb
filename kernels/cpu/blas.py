"""Matrix products inside compiled loops: our threads call BLAS, each for a block of its own.

NumPy's products bring a second team of threads, which fights with Numba's for the cores, and can only overwrite their
result. Here a kernel's `prange` hands out blocks, and `gemm` calls the same library (OpenBLAS in NumPy's wheels) on one
block with one thread: what goes before and after the product is done while the block is in the cache, a sum may be
accumulated in place (beta = 1), and no thread ever waits for another's part. Blocks depend on the sizes alone, never on
the number of threads, so that the bits do not either. (The kernel `matmul`, for products of any shape, is NumPy's own:
its bits may change with the number of BLAS threads.)

The routine's address is found once (threadpoolctl knows where the library lies), tried on a small product, and given
to kernels as an argument: an address compiled into a kernel would spoil its cache. Where no library is found, plain
loops under the same signature take its place: the same numbers, slower.
"""

import ctypes
import ctypes.util
import os
import threading
from functools import cache, wraps

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload, register_jitable
from threadpoolctl import ThreadpoolController

from kernels.cpu.jit import kernel
from kernels.forks import hold

ROW_MAJOR, AS_IS, TRANSPOSED = 101, 111, 112


@cache
def _libraries():
    np.ones((2, 2)) @ np.ones((2, 2))  # makes sure that NumPy's library is loaded
    return ThreadpoolController().select(user_api="blas").lib_controllers


@cache
def routine(dtype: np.dtype | str) -> tuple[int, int]:
    """(address, bits of its integers) of the library's product for this dtype."""
    dtype = np.dtype(dtype)  # a name will do: taken for the wrong one, it would multiply beyond the ends of its arrays
    letter, scalar = ("s", ctypes.c_float) if dtype == np.float32 else ("d", ctypes.c_double)
    paths = [library.filepath for library in _libraries()]
    paths += [path for path in [ctypes.util.find_library("Accelerate")] if path]  # macOS, which threadpoolctl omits
    for path in paths:
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        for name, bits in (
            (f"scipy_cblas_{letter}gemm64_", 64),
            (f"cblas_{letter}gemm64_", 64),
            (f"cblas_{letter}gemm", 32),
        ):
            function = getattr(library, name, None)
            if function is not None and _works(function, scalar, bits, dtype):
                return ctypes.cast(function, ctypes.c_void_p).value or 0, bits
    return _loops(dtype).address, 64


def _works(function, scalar, bits: int, dtype: np.dtype) -> bool:
    """Tries the routine on a small product whose result is known."""
    size = ctypes.c_int64 if bits == 64 else ctypes.c_int32
    function.restype = None
    function.argtypes = [ctypes.c_int] * 3 + [size] * 3 + [
        scalar, ctypes.c_void_p, size, ctypes.c_void_p, size, scalar, ctypes.c_void_p, size,
    ]  # fmt: skip
    a = np.arange(6, dtype=dtype).reshape(3, 2)
    b = np.arange(12, dtype=dtype).reshape(3, 4)
    c = np.ones((2, 4), dtype=dtype)
    function(ROW_MAJOR, TRANSPOSED, AS_IS, 2, 4, 3, 1.0, a.ctypes.data, 2, b.ctypes.data, 4, 1.0, c.ctypes.data, 4)
    return bool(np.array_equal(c, 1 + a.T @ b))


def blas_kernel(function):
    """A parallel kernel that calls `gemm`. Its first argument, the routine, is filled in here; meanwhile the library
    works with the calling thread alone, since our own threads call it side by side."""
    compiled = kernel(function, parallel=True)

    @wraps(function)
    def call(*args):
        try:
            _one_thread.enter()
            return compiled(routine(args[0].dtype), *args)
        finally:
            try:
                _one_thread.leave()
            except BaseException:  # Ctrl-C in the midst of it
                _one_thread.leave()
                raise

    return call


class _OneThread:
    """BLAS works with the calling thread alone while any Python thread is inside; the last one to leave gives it back
    its threads. An exception at any point (Ctrl-C) leaves nothing behind: `former` is known as long as it is not set
    again, and `leave` undoes what `enter` may have begun."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside: set[int] = set()  # Python threads; a thread is inside at most once
        self.former: list[int] = []  # numbers of threads, one a library, while they are at one

    def enter(self) -> None:
        with self.lock:
            self.inside.add(threading.get_ident())
            if not self.former:
                self.former = [library.get_num_threads() for library in _libraries()]
            for library in _libraries():
                library.set_num_threads(1)

    def leave(self) -> None:
        with self.lock:
            self.inside.discard(threading.get_ident())
            if not self.inside and self.former:
                for library, threads in zip(_libraries(), self.former, strict=True):
                    library.set_num_threads(threads)
                self.former = []

    def forked(self) -> None:
        """In a child: no other thread of the parent exists."""
        self.inside = set()
        self.leave()


_one_thread = _OneThread()
hold(_one_thread.lock)  # nobody is about to change a number while a process forks
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_one_thread.forked)


def _loops(dtype: np.dtype):
    """A function of the library's signature made of three loops, for machines where no library was found."""
    number, size, flag = numba.from_dtype(np.dtype(dtype)), types.int64, types.int32
    pointer = types.CPointer(number)
    signature = types.void(
        flag, flag, flag, size, size, size, number, pointer, size, pointer, size, number, pointer, size
    )

    def product(order, ta, tb, m, n, k, alpha, a_at, lda, b_at, ldb, beta, c_at, ldc):
        a = numba.carray(a_at, (k if ta == TRANSPOSED else m, lda))
        b = numba.carray(b_at, (n if tb == TRANSPOSED else k, ldb))
        c = numba.carray(c_at, (m, ldc))
        for i in range(m):
            for j in range(n):
                c[i, j] = beta * c[i, j] if beta != 0 else 0
            for l in range(k):  # noqa: E741 - the letter of BLAS
                factor = alpha * (a[l, i] if ta == TRANSPOSED else a[i, l])
                for j in range(n):
                    c[i, j] += factor * (b[j, l] if tb == TRANSPOSED else b[l, j])

    return _keep(numba.cfunc(signature)(product))


def _keep(function, kept=[]):  # noqa: B006 - one list for good: the address must stay valid
    kept.append(function)
    return function


def _call(bits: int):
    """An LLVM call of cblas_?gemm at a given address, for integers of this many bits."""

    @intrinsic
    def call(typing, address, ta, tb, m, n, k, a, lda, b, ldb, beta, c, ldc):
        number, size = beta, types.int64
        signature = types.void(
            size, types.int32, types.int32, size, size, size, size, size, size, size, number, size, size
        )

        def generate(context, builder, signature, args):
            flag, integer, pointer = ir.IntType(32), ir.IntType(bits), ir.IntType(64)
            real = context.get_value_type(number)
            address, ta, tb, m, n, k, a, lda, b, ldb, beta, c, ldc = args
            m, n, k, lda, ldb, ldc = (builder.trunc(v, integer) if bits < 64 else v for v in (m, n, k, lda, ldb, ldc))
            types_of = [flag] * 3 + [integer] * 3 + [real, pointer, integer, pointer, integer, real, pointer, integer]
            function = builder.inttoptr(address, ir.FunctionType(ir.VoidType(), types_of).as_pointer())
            one = ir.Constant(real, 1.0)
            builder.call(function, [flag(ROW_MAJOR), ta, tb, m, n, k, one, a, lda, b, ldb, beta, c, ldc])
            return context.get_dummy_value()

        return signature, generate

    return call


_call64, _call32 = _call(64), _call(32)


def gemm(blas, c, a, b, transpose_a, transpose_b, add):
    """c = op(a) op(b), or c += ... with `add`; op transposes or not. To be called inside a kernel.

    c (m, n); op(a) (m, k); op(b) (k, n): rows of neighbouring elements, at any distance from each other.
    blas: routine(dtype)"""
    product = (a.T if transpose_a else a) @ (b.T if transpose_b else b)
    c[...] = c + product if add else product


@overload(gemm)
def _compiled_gemm(blas, c, a, b, transpose_a, transpose_b, add):
    zero, one = (np.float32(0), np.float32(1)) if c.dtype == types.float32 else (0.0, 1.0)
    width = 4 if c.dtype == types.float32 else 8
    as_is, transposed = np.int32(AS_IS), np.int32(TRANSPOSED)

    def compiled(blas, c, a, b, transpose_a, transpose_b, add):
        address, bits = blas
        m, n = c.shape
        k = a.shape[0] if transpose_a else a.shape[1]
        ta = transposed if transpose_a else as_is
        tb = transposed if transpose_b else as_is
        # an array of one row may carry any stride; the library insists on at least its width
        lda = max(1, a.strides[0] // width, a.shape[1])
        ldb = max(1, b.strides[0] // width, b.shape[1])
        ldc = max(1, c.strides[0] // width, n)
        beta = one if add else zero
        if bits == 64:
            _call64(address, ta, tb, m, n, k, a.ctypes.data, lda, b.ctypes.data, ldb, beta, c.ctypes.data, ldc)
        else:
            _call32(address, ta, tb, m, n, k, a.ctypes.data, lda, b.ctypes.data, ldb, beta, c.ctypes.data, ldc)

    return compiled


@register_jitable
def blocks(size, block):
    """How many nearly equal parts of at most `block` make up `size`."""
    return (size + block - 1) // block
