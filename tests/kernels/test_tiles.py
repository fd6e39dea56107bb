"""The matrix product of our own: every edge of a tile, any distance between rows, nothing written beside the result,
and the same bits whatever the width of the machine's vectors."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernels.cpu.jit import kernel
from kernels.cpu.tiles import LANES, ROWS, multiply

# around one and two tiles, every tail of columns (16, 8, 4, 2, 1), and sums of no term
SIZES = [
    (1, 1, 1),
    (ROWS - 1, 3, 2 * LANES),
    (ROWS, 0, 5),
    (ROWS + 1, 17, 4 * LANES - 1),
    (2 * ROWS, 64, 2 * LANES + 8),
]


@kernel
def product(c, a, b, transpose_a, add):
    multiply(c, a, b, transpose_a, add)


def inside(rng, rows, columns, dtype):
    """An array inside a wider one, so that rows lie apart."""
    return rng.standard_normal((rows, columns + 3)).astype(dtype)[:, :columns]


def as_one_chain(c, a, b, add):
    """What is promised: one multiply-add after another in order of k, from zero, then added to c. float64 stands for
    the unrounded product of a fused step of float32."""
    total = np.zeros(c.shape, np.float32)
    for step in range(a.shape[1]):
        total = (a[:, step, None].astype(float) * b[step].astype(float) + total.astype(float)).astype(np.float32)
    return c + total if add else total


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_edge(rng, dtype, transposed, add):
    for m, k, n in SIZES:
        a, b, c = (
            inside(rng, *((k, m) if transposed else (m, k)), dtype),
            inside(rng, k, n, dtype),
            inside(rng, m, n, dtype),
        )
        left, before = a.T if transposed else a, c.base.copy()
        expected = (c if add else 0) + left.astype(float) @ b.astype(float)
        chain = as_one_chain(c, left, b, add)
        product(c, a, b, transposed, add)
        # k products and sums, each rounded once, of numbers of size 4 at most
        np.testing.assert_allclose(c, expected, atol=16 * (k + 2) * np.finfo(dtype).eps)
        if dtype == "float32":  # twice rounded in float64 and float32: one unit in the last place once in 2²⁸ steps
            np.testing.assert_array_equal(c, chain)
        np.testing.assert_array_equal(c.base[:, n:], before[:, n:])


BITS = """
import hashlib, numpy as np
from kernels.cpu.jit import kernel
from kernels.cpu.tiles import LANES, multiply
@kernel
def product(c, a, b):
    multiply(c, a, b, False, False)
rng = np.random.default_rng(0)
a, b, c = rng.standard_normal((37, 53)), rng.standard_normal((53, 61)), np.empty((37, 61))
a, b, c = (x.astype(np.float32) for x in (a, b, c))
product(c, a, b)
print(LANES, hashlib.sha256(c.tobytes()).hexdigest())
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names instruction sets of x86")
@pytest.mark.slow
def test_narrow_vectors_have_the_same_bits(tmp_path):
    kept = {"NUMBA_CACHE_DIR": str(tmp_path)}
    narrow = {**kept, "NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": "+sse2,+avx,+avx2,+fma"}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", BITS], cwd=Path(__file__).parents[2], env={**os.environ, **extra},
            capture_output=True, text=True, check=True,
        ).stdout.split()
        for extra in (kept, narrow)
    ]  # fmt: skip
    assert outputs[1][0] == "8"
    assert outputs[0][1] == outputs[1][1]
