"""The same kernels by hand in Numba, threaded and vectorised. Flag name: numba.

Matrix products go to NumPy's BLAS; everything around them is written out. Each file starts with what its kernels
read and write, and notes what was tried and did not help.
"""

import numpy


def reason_against() -> str | None:
    try:
        import numba  # noqa: F401 - installed is not enough: it must also load
    except Exception as error:
        return f"Numba cannot be imported ({error}); pip install numba"
    return None


def array_module():
    return numpy


def to_numpy(array):
    return array
