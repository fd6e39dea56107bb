"""The same kernels by hand in Numba, threaded and vectorised. Flag name: numba.

All of it is written out, matrix products too (`matmul` alone is NumPy's). Each file starts with what its kernels read
and write; README.md tells what helped, and what did not.
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
