"""Reductions over a tuple of axes, which disappear from the result."""

import math

import numpy as np


def sum(x, axes):
    """NumPy adds in pairs, and so loses few digits, only along the axis whose elements are neighbours in memory; along
    any other it adds one after another. So the summed axes are brought to the end first."""
    rest = tuple(axis for axis in range(x.ndim) if axis not in axes)
    shape, length = (tuple(x.shape[axis] for axis in some) for some in (rest, axes))
    rows = np.ascontiguousarray(x.transpose(*rest, *axes)).reshape(*shape, math.prod(length))
    return np.asarray(rows.sum(axis=-1))


def max(x, axes):
    return np.asarray(np.max(x, axis=axes))


def sum_of_squares(x):
    """Σ x² in double precision, as a Python float: what the norm of a gradient is made of."""
    return float(np.sum(np.square(x, dtype=np.float64)))
