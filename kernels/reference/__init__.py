"""The specification: every kernel in plain NumPy, the shortest code that is plainly right. Flag name: numpy.

Nothing here is fast, and nothing here is clever. Any float dtype, any strides. What the other tiers compute is
held against these files. Products are NumPy's, so that the last bits may change with the number of BLAS threads.
"""

import numpy


def reason_against() -> None:
    """NumPy is always there."""


def array_module():
    return numpy


def to_numpy(array):
    return array
