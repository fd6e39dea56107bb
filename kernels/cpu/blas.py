"""c ← c + a b in place, which NumPy cannot say: np.matmul only overwrites.

NumPy's wheels carry OpenBLAS, whose cblas_?gemm has the factor beta = 1 that does it. threadpoolctl knows where that
library lies; its routine is called through ctypes, after a small product has shown that it works. Where it is not
found (another BLAS), the product goes through a temporary array: the same numbers, more memory.
"""

import ctypes
from functools import cache

import numpy as np
from threadpoolctl import threadpool_info

ROW_MAJOR, AS_IS, TRANSPOSED = 101, 111, 112


@cache
def _gemm(dtype: str):
    """The library's routine for this dtype, or None."""
    letter, scalar = ("s", ctypes.c_float) if dtype == "float32" else ("d", ctypes.c_double)
    np.ones((2, 2)) @ np.ones((2, 2))  # makes sure that the library is loaded
    for info in threadpool_info():
        if info.get("user_api") != "blas":
            continue
        try:
            library = ctypes.CDLL(info["filepath"])
        except OSError:
            continue
        for name, size in (
            (f"scipy_cblas_{letter}gemm64_", ctypes.c_int64),
            (f"cblas_{letter}gemm64_", ctypes.c_int64),
            (f"cblas_{letter}gemm", ctypes.c_int32),
        ):
            routine = getattr(library, name, None)
            if routine is None:
                continue
            routine.restype = None
            routine.argtypes = [ctypes.c_int] * 3 + [size] * 3 + [
                scalar, ctypes.c_void_p, size, ctypes.c_void_p, size, scalar, ctypes.c_void_p, size,
            ]  # fmt: skip
            if _works(routine, dtype):
                return routine
    return None


def _works(routine, dtype: str) -> bool:
    """Tries the routine on a small product whose result is known."""
    a = np.arange(6, dtype=dtype).reshape(3, 2)
    b = np.arange(12, dtype=dtype).reshape(3, 4)
    c = np.ones((2, 4), dtype=dtype)
    _call(routine, c, a, b)
    return bool(np.array_equal(c, 1 + a.T @ b))


def _call(routine, c, a, b):
    rows, columns, inner = c.shape[0], c.shape[1], a.shape[0]
    routine(
        ROW_MAJOR, TRANSPOSED, AS_IS, rows, columns, inner, 1.0,
        a.ctypes.data, rows, b.ctypes.data, columns, 1.0, c.ctypes.data, columns,
    )  # fmt: skip


def add_transposed_product(c, a, b):
    """c += aᵀ b.   c (n, m); a (k, n); b (k, m), all contiguous in row order"""
    routine = _gemm(c.dtype.name)
    if routine is None:
        c += a.T @ b
    else:
        _call(routine, c, a, b)
