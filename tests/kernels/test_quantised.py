"""Quantised weights, bit by bit: every float16, every byte, an independent reader, and what lies beside the arrays."""

import numpy as np
import pytest

import kernels
from kernels.reference.quantised_linear import LAYOUTS
from kernels.samples import normal, quantised


def blocks_of(kind, **fields):
    """One row a block, with these fields."""
    rows = max(len(value) for value in fields.values())
    blocks = np.zeros((rows, 1), LAYOUTS[kind])
    for name, value in fields.items():
        blocks[name][:, 0] = value
    return blocks.view(np.uint8)


EVERY_HALF = np.arange(2**16, dtype=np.uint16).view(np.float16)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_float16_is_read_exactly(backend):
    """Normal, tiny, infinite and no number; as the scale and as the least value."""
    halves = EVERY_HALF if backend.name == "numba" else EVERY_HALF[:: 61 if backend.name == "emulated" else 1]
    exact = halves.astype(np.float32)
    by_scale = backend.dequantise(blocks_of("Q8_0", scale=halves, q=np.ones((len(halves), 32))), "Q8_0")
    np.testing.assert_array_equal(by_scale, np.repeat(exact[:, None], 32, axis=1))
    by_least = backend.dequantise(blocks_of("Q4_1", least=halves), "Q4_1")
    np.testing.assert_array_equal(by_least, np.repeat(exact[:, None], 32, axis=1))


def test_every_byte_is_two_weights_sixteen_places_apart(backend):
    values = np.arange(256, dtype=np.uint8)
    w = backend.dequantise(blocks_of("Q4_1", scale=np.ones(256), halves=np.repeat(values[:, None], 16, 1)), "Q4_1")
    assert (w[:, :16] == (values % 16)[:, None]).all() and (w[:, 16:] == (values // 16)[:, None]).all()
    places = np.arange(16, dtype=np.uint8)[None] | np.arange(15, -1, -1, dtype=np.uint8)[None] << 4
    (w,) = backend.dequantise(blocks_of("Q4_1", scale=np.ones(1), halves=places), "Q4_1")
    assert w.tolist() == [*range(16), *range(15, -1, -1)]


@pytest.mark.oracle
@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("N", [1, 2, 3, 40])
def test_an_independent_reader_and_float64_give_the_same_products(backend, rng, kind, N):
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    weight, x = quantised(rng, kind, 50, 96), normal(rng, np.dtype("float32"), N, 96)
    theirs = dequantize(weight, GGMLQuantizationType[kind])
    np.testing.assert_array_equal(backend.dequantise(weight, kind), theirs)
    exact, size = x.astype(float) @ theirs.astype(float).T, np.abs(x).astype(float) @ np.abs(theirs).astype(float).T
    # each product and each of the 95 sums is off by half a unit of float32 at most
    assert (np.abs(backend.quantised_linear(x, weight, kind) - exact) <= 96 * 2.0**-24 * size).all()


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("N", [1, 2, 3, 9])
def test_nothing_beside_the_arrays_is_read_or_written(rng, kind, N):
    """The loops of the Numba tier work on addresses, where no check of bounds looks. Weights, numbers and results are
    cut out of larger arrays that hold NaN."""
    fast = kernels.backend("numba")
    weight, x = quantised(rng, kind, 7, 64), rng.standard_normal((N, 64))
    room = np.full((9, weight.shape[1]), 0xFF, np.uint8)  # a block of these bytes has the scale NaN
    room[1:-1] = weight
    numbers = np.full((N + 2, 64), np.nan)
    numbers[1:-1] = x
    expected = kernels.backend("numpy").quantised_linear(x, weight, kind)
    np.testing.assert_allclose(
        fast.quantised_linear(numbers[1:-1], room[1:-1], kind), expected, rtol=0, atol=1e-12
    )  # 64 terms of size 1 in double precision
    from kernels.cpu.panels import WIDE
    from kernels.cpu.quantised_blocks import CODES
    from kernels.cpu.quantised_linear import _dequantise, _few, _many

    results = np.full((N + 2, 7), np.nan)
    panels = [] if N <= 2 else [np.empty((1, 64, WIDE))]
    (_few if N <= 2 else _many)(results[1:-1], *panels, numbers[1:-1], room[1:-1], CODES[kind])
    assert np.isnan(results[[0, -1]]).all() and np.isfinite(results[1:-1]).all()
    unpacked = np.full((9, 64), np.nan)
    _dequantise(unpacked[1:-1], room[1:-1], CODES[kind])
    assert np.isnan(unpacked[[0, -1]]).all() and np.isfinite(unpacked[1:-1]).all()


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("N", [13, 33, 100])
def test_many_rows_have_the_bits_of_a_product_with_unpacked_weights(rng, kind, N):
    """Both are chains of sums in one order, in whatever tiles: 50 rows of W are one whole tile and a part of one."""
    fast = kernels.backend("numba")
    weight, x = quantised(rng, kind, 50, 288), normal(rng, np.dtype("float32"), N, 288)
    expected = fast.linear(x, fast.dequantise(weight, kind), None)
    assert fast.quantised_linear(x, weight, kind).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("B", "H", "G", "D", "S", "base"),
    [(1, 1, 1, 2, 1, 100.0), (1, 3, 3, 4, 5, 100.0), (2, 9, 3, 64, 33, 100.0), (3, 4, 2, 6, 7, 100.0),
     (1, 1, 1, 1, 1, None), (2, 4, 2, 5, 9, None), (3, 2, 2, 33, 31, None)],
)  # fmt: skip
def test_one_word_attends(backend, rng, dtype, B, H, G, D, S, base):
    """As rotary, if there is a base, and attention one after the other, in float64; keys and values are kept in arrays
    of any layout."""
    heads = rng.standard_normal((B, H + 2 * G, D)).astype(dtype)
    keys, values = (rng.standard_normal((B, S, G, D)).astype(dtype).transpose(0, 2, 1, 3) for _ in range(2))
    lengths = rng.integers(0, S, B)
    known = [array.astype(float) for array in (keys, values)]
    expected = kernels.backend("numpy").attend_word(heads.astype(float), *known, lengths, base, 0.3)
    result = backend.attend_word(heads, keys, values, lengths, base, 0.3)
    assert result.dtype == dtype and result.shape == (B, H, D)
    # means of at most 33 values of size 3, scores of 64 terms: a hundred units in the last place cover them
    for ours, theirs in ((result, expected), (keys, known[0]), (values, known[1])):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=300 * np.finfo(dtype).eps)


def test_a_word_is_kept_at_its_place_and_sees_no_later_one(backend, rng):
    heads, lengths = rng.standard_normal((2, 4, 2)), np.array([0, 2])
    keys, values = (np.full((2, 1, 4, 2), np.nan) for _ in range(2))
    keys[1, :, :2], values[1, :, :2] = 0.5, 1.0
    out = backend.attend_word(heads, keys, values, lengths, 10.0, 1.0)
    assert np.isfinite(out).all()
    assert np.isfinite(keys[0, 0, 0]).all() and np.isnan(keys[0, 0, 1:]).all()
    assert (values[0, 0, 0] == heads[0, 3]).all() and (values[1, 0, 2] == heads[1, 3]).all()
    np.testing.assert_allclose(keys[0, 0, 0], heads[0, 2])  # at place 0 nothing is turned
    np.testing.assert_allclose(out[0], np.tile(heads[0, 3], (2, 1)), rtol=1e-14)  # the only word is all it sees
