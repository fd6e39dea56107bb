"""Products of long rows: sums and columns in parts, memory asked for in advance without any effect on the numbers, and
blocks of a weight's gradient that cover it once."""

import numpy as np
import pytest

from kernels.cpu import linear
from kernels.cpu.jit import kernel
from kernels.cpu.tiles import COLUMNS, TERMS, multiply, multiply_long


def close(result, a, b):
    """Each sum has k terms, each rounded at most k + 1 times, and once more for every part."""
    exact, size = a.astype("float64") @ b.astype("float64"), np.abs(a).astype("float64") @ np.abs(b).astype("float64")
    assert (np.abs(result - exact) <= (a.shape[1] + 4) * np.finfo(result.dtype).eps * size).all()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize(("k", "n"), [(0, 3), (TERMS, COLUMNS), (TERMS + 1, COLUMNS + 1), (2 * TERMS + 3, 5)])
def test_long_products(rng, k, n, transposed, add):
    a, b, c = (rng.standard_normal(shape) for shape in ((k, 9) if transposed else (9, k), (k, n), (9, n)))
    before = c.copy()
    multiply_long(c, a, b, transposed, add)
    exact = (a.T if transposed else a) @ b + (before if add else 0)
    # sums of some hundred products of order 1
    np.testing.assert_allclose(c, exact, rtol=0, atol=(k + 2) * 16 * np.finfo("f8").eps)


def test_what_is_asked_for_in_advance_changes_nothing(rng):
    @kernel
    def product(c, a, b, ahead):
        multiply(c, a, b, False, False, ahead)

    a, b, wanted = rng.standard_normal((17, 21)), rng.standard_normal((21, 70)), rng.standard_normal((40, 30))
    before, c = wanted.copy(), np.empty((17, 70))
    for ahead in (wanted, wanted[:0], wanted[:1]):
        c[:] = np.nan
        product(c, a, b, ahead)
        close(c, a, b)
    np.testing.assert_array_equal(wanted, before)


@pytest.mark.parametrize("shape", [(1, 1), (130, 1), (1, 300), (600, 200), (257, 513)])
def test_blocks_of_the_weight_gradient_cover_it_once(rng, shape):
    dy, x = rng.standard_normal((5, shape[0])), rng.standard_normal((5, shape[1]))
    tasks = linear.weight_blocks(np.empty(shape))
    written = np.zeros(shape, int)
    total = np.empty(shape)
    for task in range(tasks):
        total[:] = np.nan
        linear.weight_block(total, dy, x, task, tasks)
        written += np.isfinite(total)
        close(np.where(np.isfinite(total), total, dy.T @ x), dy.T, x)
    assert (written == 1).all()
