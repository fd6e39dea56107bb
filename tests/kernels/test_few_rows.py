"""Products of few rows without BLAS: tiles, what is left beside them, and the same bits however the columns are cut."""

import numba
import numpy as np
import pytest

import kernels
from kernels.cpu import few_rows, linear

TILES = {"six": few_rows._tile_of_six, "three": few_rows._tile_of_three}


def close(y, x, weight):
    """Each sum has C terms, and each of them is rounded at most once more than C times."""
    exact = x.astype("float64") @ weight.astype("float64").T
    size = np.abs(x).astype("float64") @ np.abs(weight).astype("float64").T
    bound = (x.shape[1] + 1) * np.finfo(x.dtype).eps * size
    assert (np.abs(y - exact) <= bound).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("C", [1, 7, 16, 33, 130])
@pytest.mark.parametrize("name", TILES)
def test_a_tile_is_its_part_of_the_product_and_nothing_else(rng, name, C, dtype):
    columns = {"six": 6, "three": 3}[name]
    x, weight = rng.standard_normal((6, C)).astype(dtype), rng.standard_normal((9, C)).astype(dtype)
    y = np.full((6, 9), np.nan, dtype)
    TILES[name](y, x, weight, 1, 2)
    close(y[1:5, 2 : 2 + columns], x[1:5], weight[2 : 2 + columns])
    assert np.isfinite(y).sum() == 4 * columns


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("F", [1, 2, 3, 5, 6, 7, 13, 100])
def test_every_number_of_rows_and_columns(rng, F, dtype):
    weight = rng.standard_normal((F, 33)).astype(dtype)
    for N in (1, 2, 3, 4, 5, 7, 8, 11, 16):
        x = rng.standard_normal((N, 33)).astype(dtype)
        y = np.full((N, F), np.nan, dtype)
        few_rows.few_rows(y, x, weight, 0, F)
        close(y, x, weight)
        again, bias = np.empty_like(y), rng.standard_normal(F).astype(dtype)
        linear._linear_few(again, x, weight, bias)
        assert np.array_equal(again, y + bias)  # the same tiles, cut into strips


def test_a_range_of_columns_is_written_and_no_other(rng):
    x, weight = rng.standard_normal((5, 20)), rng.standard_normal((30, 20))
    y = np.full((5, 30), np.nan)
    few_rows.few_rows(y, x, weight, 4, 21)
    close(y[:, 4:21], x, weight[4:21])
    assert np.isnan(y[:, :4]).all() and np.isnan(y[:, 21:]).all()


@pytest.mark.parametrize("columns", [1, 5, 6, 47, 48, 95, 96, 97, 1000, 5001])
def test_strips_cover_every_column_once(columns):
    tasks = linear.strips(columns)
    ranges = [linear.strip(task, tasks, columns) for task in range(tasks)]
    assert [f for f0, f1 in ranges for f in range(f0, f1)] == list(range(columns))
    assert all(f0 % few_rows.COLUMNS == 0 for f0, _ in ranges)  # else tiles of one strip would be cut


@pytest.mark.parametrize("rows", [1, 63, 255, 256, 257, 512, 700, 1280, 1792, 5000])
def test_no_core_is_left_without_work(rows):
    """Where rows or columns are enough: at least four blocks, and an even number of them if there are few."""
    down, across = linear.grid(rows, 768)
    assert down * across >= 4 and (down * across > 8 or down * across % 2 == 0)
    assert rows / down <= linear.ROWS and 768 / across >= linear.NARROW


def exact(name, arguments):
    wide = tuple(a.astype("float64") if isinstance(a, np.ndarray) else a for a in arguments)
    return getattr(kernels.backend("numpy"), name)(*wide)


@pytest.mark.parametrize("N", [1, 4, 5, 16, 31, 40, 90, 300, 800])
def test_layers_take_every_path(rng, N):
    """Few rows; panels cut by columns; then four panels and more, each of which goes through all products."""

    def x(*shape):
        return rng.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[-1]))

    fast, C, F, E = kernels.backend("numba"), 66, 200, 35
    calls = {
        "linear": (x(N, C), x(F, C), x(F)),
        "feed_forward": (x(N, C), x(F, C), x(F), x(E, F), x(E), "gelu"),
        "gated_feed_forward": (x(N, C), x(F, C), x(F), x(F, C), None, x(E, F), x(E), "silu"),
    }
    for name, arguments in calls.items():
        results, expected = getattr(fast, name)(*arguments), exact(name, arguments)
        pairs = [(results, expected)] if name == "linear" else zip(results, expected, strict=True)
        for ours, theirs in pairs:
            # numbers of order 1 after at most 200 roundings, one sum after another
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=200 * np.finfo("f4").eps)


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs two threads to compare with one")
@pytest.mark.parametrize("N", [1, 5, 16, 100, 200, 700])
def test_the_number_of_threads_changes_no_bit_of_few_rows(rng, N):
    fast = kernels.backend("numba")

    def x(*shape):
        return rng.standard_normal(shape, dtype=np.float32)

    arguments = x(N, 210), x(300, 210), x(300), x(210, 300), x(210), "relu"
    dy, pre = x(N, 210), x(N, 300)

    def bits():
        parts = (
            fast.linear(*arguments[:3]), *fast.feed_forward(*arguments),
            *fast.linear_backward(pre, *arguments[:2], True),
            *fast.feed_forward_backward(dy, arguments[0], arguments[1], arguments[3], pre, "relu"),
        )  # fmt: skip
        return [part.tobytes() for part in parts]

    all_threads = bits()
    numba.set_num_threads(1)
    try:
        assert bits() == all_threads
    finally:
        numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
