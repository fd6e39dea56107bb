"""Reductions over a tuple of axes, which are brought to the end first unless they lead: launches reduce.cu, a warp for
each block of a row, and again on the results until one number a row is left."""

import math

from kernels.cuda.launcher import launch, module_of
from kernels.gpu.grid import BLOCK, contiguous, flat, for_warps
from kernels.gpu.linear import column_sums

ELEMENTS = 1024  # elements that one warp reduces
VARIANTS = [{"BLOCK": ELEMENTS}]


def _reduced(kernel, x):
    """x (O, M) → (O)"""
    while True:
        O, M = x.shape
        blocks = -(-M // ELEMENTS)
        partial = module_of(x).empty((O, blocks), dtype=x.dtype)
        launch("reduce", kernel, for_warps(O * blocks), BLOCK, (partial, x, O, M, blocks), x.dtype, VARIANTS[0])
        if blocks == 1:
            return partial.reshape(O)
        x = partial


def _reduced_last(x, axes):
    """x (O, M) with the reduced axes brought to the end, and the shape that remains."""
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    shape = tuple(x.shape[axis] for axis in rest)
    return contiguous(x.transpose(*rest, *axes)).reshape(math.prod(shape), -1), shape


def sum(x, axes):
    if not axes:
        return x.copy()
    if x.size == 0:
        return module_of(x).zeros(tuple(size for axis, size in enumerate(x.shape) if axis not in axes), dtype=x.dtype)
    leading = tuple(axes) == tuple(range(len(axes)))
    if leading and len(axes) < x.ndim:  # summing rows: no transposition needed
        rest = x.shape[len(axes) :]
        return column_sums(x.reshape(-1, math.prod(rest))).reshape(rest)
    rows, shape = _reduced_last(x, axes)
    return _reduced("sum_rows", rows).reshape(shape)


def max(x, axes):
    if not axes:
        return x.copy()
    rows, shape = _reduced_last(x, axes)
    return _reduced("max_rows", rows).reshape(shape)


def sum_of_squares(x):
    """Σ x² in double precision, as a Python float: what the norm of a gradient is made of."""
    if x.size == 0:
        return 0.0
    blocks = -(-x.size // ELEMENTS)
    partial = module_of(x).empty(blocks, dtype="uint64")
    launch("reduce", "sum_of_squares", for_warps(blocks), BLOCK, (partial, flat(x), x.size), x.dtype, VARIANTS[0])
    return float(_reduced("sum_rows", partial.view("float64").reshape(1, -1))[0])
