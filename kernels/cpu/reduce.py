"""Reductions over a tuple of axes, which are brought to the end first unless they lead. Each element is read once.
Long sums go through blocks of BLOCK elements, whose partial sums are added in double precision (see sums.py)."""

import math

import numpy as np
from numba import prange

from kernels.cpu.each import addresses, array_at, shared
from kernels.cpu.jit import contiguous, flat, kernel
from kernels.cpu.linear import column_sums
from kernels.cpu.softmax import largest
from kernels.cpu.sums import TERMS as BLOCK


@kernel(parallel=True)
def _sum_rows(partial, x):
    """partial[o, b] = Σ of block b of row o.   x (O, M); partial (O, blocks)"""
    O, M = x.shape
    blocks = partial.shape[1]
    for task in prange(O * blocks):
        o, b = task // blocks, task % blocks
        total = x.dtype.type(0)
        for i in range(b * BLOCK, min(M, (b + 1) * BLOCK)):
            total += x[o, i]
        partial[o, b] = total


@kernel(parallel=True)
def _max_rows(y, x):
    """y[o] = max_m x[o, m], NaN if there is one.   x (O, M)"""
    for o in prange(x.shape[0]):
        best = largest(x[o])
        for m in range(x.shape[1]):
            if x[o, m] != x[o, m]:
                best = x[o, m]
        y[o] = best


@kernel
def _part_squares(x):
    """Σ x² in double precision: a kernel of its own, so that it is vectorised (see sums.py)."""
    total = 0.0
    for i in range(x.size):
        total += np.float64(x[i]) * np.float64(x[i])
    return total


@kernel(parallel=True)
def _sum_of_squares(partial, x):
    for b in prange(partial.size):
        partial[b] = _part_squares(x[b * BLOCK : (b + 1) * BLOCK])


@kernel(parallel=True)
def _sum_of_squares_each(totals, addresses, sizes, number):
    for array in prange(totals.size):
        x = array_at(addresses[array], sizes[array], number)
        total = 0.0
        for first in range(0, x.size, BLOCK):
            total += _part_squares(x[first : first + BLOCK])
        totals[array] = total


@kernel
def _in_order(partial):
    total = 0.0
    for b in range(partial.size):
        total += partial[b]
    return total


def _reduced_last(x, axes):
    """x (O, M) with the reduced axes brought to the end, and the shape that remains."""
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    shape = tuple(x.shape[axis] for axis in rest)
    return contiguous(x.transpose(*rest, *axes)).reshape(math.prod(shape), -1), shape


def sum(x, axes):
    if x.size == 0 or not axes:
        return np.asarray(np.sum(x, axis=axes))
    leading = tuple(axes) == tuple(range(len(axes)))
    if leading and len(axes) < x.ndim:  # summing rows: no transposition needed
        rest = x.shape[len(axes) :]
        return column_sums(x.reshape(-1, math.prod(rest))).reshape(rest)
    rows, shape = _reduced_last(x, axes)
    partial = np.empty((rows.shape[0], -(-rows.shape[1] // BLOCK)), dtype=x.dtype)
    _sum_rows(partial, rows)
    return partial.sum(axis=1, dtype=np.float64).astype(x.dtype).reshape(shape)


def max(x, axes):
    if not axes:
        return x.copy()
    rows, shape = _reduced_last(x, axes)
    y = np.empty(rows.shape[0], dtype=x.dtype)
    _max_rows(y, rows)
    return y.reshape(shape)


def sum_of_squares(x):
    """Σ x² in double precision, as a Python float: what the norm of a gradient is made of."""
    partial = np.empty(-(-x.size // BLOCK))
    _sum_of_squares(partial, flat(x))
    return _in_order(partial)


def sum_of_squares_each(calls):
    """The same for several arrays in one sweep."""
    arrays = [flat(x) for (x,) in calls]
    totals, sizes = np.empty(len(arrays)), np.array([a.size for a in arrays])
    zero = arrays[0].dtype.type(0)
    shared(_sum_of_squares_each, int(sizes.sum()), totals, addresses(arrays), sizes, zero)
    return totals.tolist()
