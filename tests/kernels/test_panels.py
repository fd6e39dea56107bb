"""Products by panels: every edge of panels and tiles, nothing written beside the result, and the same bits for a row in
whatever company it comes."""

import numpy as np
import pytest

from kernels.cpu import linear
from kernels.cpu.jit import kernel
from kernels.cpu.panels import SIDE, TERMS, WIDE, by_panels, panel_rows, turn
from kernels.cpu.parts import part


@kernel
def turned(to, x):
    turn(to, x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_turning_at_every_edge(rng, dtype):
    for n, m in ((1, 1), (3, 17), (16, 16), (15, 33), (40, 20)):
        x = rng.standard_normal((n, m + 3)).astype(dtype)[:, :m]
        around = np.full((m + 2, n + 5), np.nan, dtype)
        turned(around[1 : m + 1, 2 : n + 2], x)
        np.testing.assert_array_equal(around[1 : m + 1, 2 : n + 2], x.T)
        assert np.isfinite(around).sum() == n * m


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("C", [1, 33, TERMS, TERMS + 1, 3 * TERMS - 1])
def test_every_number_of_rows_and_columns(rng, C, dtype):
    for N in (1, 7, 8, WIDE - 1, WIDE, WIDE + 1, 2 * WIDE + 9):
        for F in (1, SIDE - 1, SIDE, SIDE + 1, 3 * SIDE + 5):
            x, weight = rng.standard_normal((N, C)).astype(dtype), rng.standard_normal((F + 4, C)).astype(dtype)
            bias, y = rng.standard_normal(F + 4).astype(dtype), np.full((N, F + 4), np.nan, dtype)
            by_panels(y, x, weight, bias, 2, 2 + F)
            wide = x.astype(float), weight[2 : 2 + F].astype(float)
            size = np.abs(wide[0]) @ np.abs(wide[1]).T + np.abs(bias[2 : 2 + F])
            error = np.abs(y[:, 2 : 2 + F] - (wide[0] @ wide[1].T + bias[2 : 2 + F]))
            assert (error <= (C + 2) * np.finfo(dtype).eps * size).all()  # C terms and the bias, rounded once each
            assert np.isnan(y[:, :2]).all() and np.isnan(y[:, 2 + F :]).all()


def test_a_row_has_the_same_bits_in_any_company(rng):
    x, weight = (rng.standard_normal((size, 300), dtype=np.float32) for size in (700, 200))
    bias = rng.standard_normal(200, dtype=np.float32)
    alone = linear.linear(x, weight, bias)
    for n in (13, 40, 96, 97, 257):
        np.testing.assert_array_equal(linear.linear(x[-n:], weight, bias), alone[-n:])


@pytest.mark.parametrize("rows", [1, 13, 32, 33, 97, 128, 1000, 5000])
def test_blocks_cover_everything_once(rows):
    columns = 200
    for width in (1, 384, 100_000):
        down, across = linear.panel_grid(rows, width, columns)
        seen = np.zeros((rows, columns), int)
        for task in range(down * across):
            n0, n1, f0, f1 = linear.panel_block(task, down, across, rows, columns)
            seen[n0:n1, f0:f1] += 1
        assert (seen == 1).all()
        ranges = [part(i, panel_rows(rows, width), rows, WIDE) for i in range(panel_rows(rows, width))]
        assert all(n1 > n0 and n0 % WIDE == 0 for n0, n1 in ranges)
