"""Reductions over a tuple of axes, which disappear from the result."""

import numpy as np


def sum(x, axes):
    return np.asarray(np.sum(x, axis=axes))


def max(x, axes):
    return np.asarray(np.max(x, axis=axes))


def sum_of_squares(x):
    """Σ x² in double precision, as a Python float: what the norm of a gradient is made of."""
    return float(np.sum(np.square(x, dtype=np.float64)))
