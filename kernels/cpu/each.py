"""Many small arrays in one call. Numba takes apart each array that it is given, and a kernel for each of thirty weights
takes longer to call than to compute. Here only their addresses and sizes reach the kernel, in a table of numbers.

Whoever calls such a kernel holds the arrays until it is done; they are contiguous (`jit.flat`).
"""

from functools import lru_cache

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from kernels.contract import KernelError
from kernels.cpu.jit import kernel

BUNDLE = 16  # arrays whose addresses are asked for at once: a kernel is compiled for a fixed number
CHUNK = 4096  # numbers that are one task


@kernel
def _write_addresses(addresses, arrays):
    for i in range(len(arrays)):
        addresses[i] = arrays[i].ctypes.data


def addresses(arrays):
    """Where in memory each of these arrays begins.   flat arrays of one dtype → (n)"""
    if len({array.dtype for array in arrays}) > 1:  # a kernel would read beyond the end of the shorter numbers
        raise KernelError("arrays that share a call must share a dtype: call once for each dtype")
    found = np.empty(-(-len(arrays) // BUNDLE) * BUNDLE, np.int64)
    padded = (*arrays, *[arrays[0]] * (found.size - len(arrays)))
    for first in range(0, found.size, BUNDLE):
        _write_addresses(found[first : first + BUNDLE], padded[first : first + BUNDLE])
    return found[: len(arrays)]


@lru_cache(100)  # a training step asks for the same again and again
def tasks_of(sizes):
    """Arrays of these sizes cut into pieces of at most CHUNK numbers.   → (tasks, 3): array, first number, number after
    the last"""
    pieces = [(i, start, min(start + CHUNK, n)) for i, n in enumerate(sizes) for start in range(0, n, CHUNK)]
    return np.array(pieces, np.int64).reshape(-1, 3)


def shared(kernel, numbers, *args):
    """kernel(*args) with as many threads as that many numbers are worth, which its arguments do not show."""
    return kernel(*args) if numba.config.DISABLE_JIT else kernel(*args, numbers=numbers)


def array_at(address, size, number):
    """The array of so many numbers of that kind that begins there. To be called inside a kernel."""
    kind = np.ctypeslib.as_ctypes_type(np.dtype(type(number)))
    return np.ctypeslib.as_array((kind * int(size)).from_address(int(address)))


@intrinsic
def _pointer(typing, address, number):
    def generate(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.CPointer(number)(address, number), generate


@overload(array_at, inline="always")
def _compiled_array_at(address, size, number):
    return lambda address, size, number: numba.carray(_pointer(address, number), (size,))
