"""The same kernels by hand in Numba, threaded and vectorised. Flag name: numba.

Matrix products go to NumPy's BLAS; everything around them is written out. Each file starts with what its kernels
read and write, and notes what was tried and did not help.
"""

import importlib.util

import numpy


def reason_against() -> str | None:
    if importlib.util.find_spec("numba") is None:
        return "Numba is not installed (pip install numba)"
    return None


def array_module():
    return numpy


def to_numpy(array):
    return array
