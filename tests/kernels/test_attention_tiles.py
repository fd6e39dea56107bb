"""Attention in CUDA C, run by the emulator: every head width the kernels are compiled for, sizes around the edges of
the tiles, masks of all kinds, both dtypes; how much memory is read; and the same bits whatever the schedule."""

import numpy as np
import pytest

import kernels
from kernels.contract import Dropout, KernelError, Mask

REASON = kernels.reasons()["emulated"]
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"the emulator cannot be used: {REASON}")

CASES = {  # B, H, G, T, S, D, key_lengths, is_causal, query_offset, dropout_p
    "single numbers": (1, 1, 1, 1, 1, 1, None, True, 0, 0.0),
    "no keys in one sequence": (2, 2, 2, 31, 33, 32, (33, 0), True, 0, 0.3),
    "no keys at all": (2, 1, 1, 5, 70, 5, (0, 0), False, 0, 0.1),
    "several tiles": (1, 2, 2, 127, 129, 33, None, True, 2, 0.0),
    "exactly whole tiles": (1, 1, 1, 64, 64, 64, None, True, 0, 0.1),
    "lengths at a tile's edge": (2, 1, 1, 33, 97, 65, (97, 64), False, 0, 0.2),
    "one key": (1, 2, 2, 67, 65, 100, (1,), True, 0, 0.1),
    "more queries than keys": (1, 1, 1, 65, 31, 128, None, True, 1, 0.0),
    "parts of a head": (1, 1, 1, 65, 67, 129, (66,), True, 0, 0.25),
    "one query at the end": (1, 1, 1, 1, 131, 200, None, True, 130, 0.1),
    "cross attention": (1, 2, 2, 71, 37, 200, (37,), False, 0, 0.5),
    "the widest head": (1, 1, 1, 63, 65, 256, (64,), True, 2, 0.1),
    "nearly everything dropped": (1, 1, 1, 3, 4, 7, None, True, 10**30, 1 - 1e-13),
    "a rate too small to drop, not to scale": (1, 1, 1, 3, 4, 7, None, True, 0, 1e-11),
    "groups of three": (1, 6, 2, 33, 67, 33, (66,), True, 34, 0.2),
    "all heads on one, in parts": (1, 3, 1, 35, 40, 129, None, True, 5, 0.1),
    "groups, no keys in one sequence": (2, 4, 2, 3, 33, 32, (33, 0), False, 0, 0.0),
    "groups, one query": (2, 6, 2, 1, 131, 70, (131, 40), True, 100, 0.0),
    "groups, one query, dropout": (1, 4, 2, 1, 70, 64, None, True, 69, 0.3),
    "groups, one query that sees one key": (1, 4, 1, 1, 70, 64, None, True, 0, 0.0),
    "more heads than a tile has rows": (1, 70, 1, 1, 33, 5, None, False, 0, 0.0),
}


@pytest.fixture
def emulated():
    return kernels.backend("emulated")


def inputs(dtype, B, H, G, T, S, D, key_lengths, is_causal, query_offset, dropout_p):
    rng = np.random.default_rng(3)
    shapes = (B, H, T, D), (B, G, S, D), (B, G, S, D), (B, H, T, D)
    q, k, v, dout = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    lengths = None if key_lengths is None else np.array(key_lengths)
    return (q, k, v, dout), (Mask(lengths, is_causal, query_offset), D**-0.5, Dropout(dropout_p, 5))


def both_ways(backend, arrays, options):
    """out, lse, dq, dk, dv"""
    q, k, v, dout = arrays
    forward = backend.attention(q, k, v, *options)
    return *forward, *backend.attention_backward(dout, q, k, v, *forward, *options)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_the_reference(emulated, case, dtype):
    arrays, options = inputs(dtype, *CASES[case])
    results = both_ways(emulated, arrays, options)
    expected = both_ways(kernels.backend("numpy"), [x.astype("float64") for x in arrays], options)
    _, H, G, T, S, D = CASES[case][:6]
    for name, ours, theirs in zip(("out", "lse", "dq", "dk", "dv"), results, expected, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == dtype, name
        finite = np.isfinite(theirs)
        np.testing.assert_array_equal(np.isfinite(ours), finite, err_msg=name)
        # a gradient adds D products for each of T or S terms: rounding walks randomly; four times its width
        units = 4 * np.sqrt(D * max(T * H // G, S)) * np.finfo(dtype).eps
        worst = np.abs(ours[finite] - theirs[finite]).max(initial=0.0)
        assert worst <= units * max(1.0, np.abs(theirs[finite]).max(initial=0.0)), name


@pytest.mark.parametrize(("T", "S"), [(0, 3), (3, 0), (0, 0)])
def test_empty_sides(T, S):
    """The contract has no empty axes; the kernels themselves still do the obvious."""
    from kernels.gpu.attention import attention, attention_backward

    q, k = np.ones((1, 2, T, 5)), np.ones((1, 2, S, 5))
    options = Mask(is_causal=True), 0.5, Dropout(0.1, 1)
    out, lse = attention(q, k, k, *options)
    assert out.shape == q.shape and not out.any() and np.isneginf(lse).all()
    gradients = attention_backward(out, q, k, k, out, lse, *options)
    assert [g.shape for g in gradients] == [q.shape, k.shape, k.shape]
    assert not any(g.any() for g in gradients)


def test_a_head_too_wide_is_named(emulated):
    q = np.ones((1, 1, 2, 300))
    with pytest.raises(KernelError, match="300 wide.*up to 256; use more heads"):
        emulated.attention(q, q, q, Mask(is_causal=True), 0.5, Dropout())


@pytest.mark.parametrize(("dtype", "D", "heads", "seed"), [
    ("float32", 64, (1, 1), 1), ("float64", 100, (2, 1), 2),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in [
        ("float64", 100, (1, 1), 3), ("float32", 64, (2, 1), 4), ("float32", 64, (1, 1), 5), ("float64", 100, (2, 1), 6)
    ]),
])  # fmt: skip
def test_no_fault_and_the_same_bits_in_any_order(emulated, dtype, D, heads, seed):
    """Checked mode raises on races, missing barriers, unwritten shared memory and indices out of bounds. One width
    whose tiles hold whole rows, one that comes in parts: they synchronise differently."""
    arrays, options = inputs(dtype, 1, *heads, 67, 70, D, (66,), True, 1, 0.2)
    plain = both_ways(emulated, arrays, options)
    with kernels.emulator.checked(seed=seed):
        shuffled = both_ways(emulated, arrays, options)
    assert [x.tobytes() for x in shuffled] == [x.tobytes() for x in plain]


@pytest.mark.parametrize(("keys", "is_causal"), [(128, False), (128, True), (70, True)])
def test_what_is_read(emulated, keys, is_causal):
    """As the header of attention.cu counts it: the rows of a block once, the other side once per block, and only tiles
    in which somebody sees something. A tile is loaded whole, or up to key_lengths."""
    T, D, threads = 128, 32, 128
    arrays, _ = inputs("float32", 1, 1, 1, T, T, D, None, False, 0, 0.0)
    with kernels.emulator.checked() as report:
        both_ways(emulated, arrays, (Mask(np.array([keys]), is_causal), 0.5, Dropout()))
    loads = {name: counters.global_loads for name, counters in report.by_kernel().items()}

    def key_tiles(rows):
        """The size of the key tile for each pair of tiles that is visited, with so many queries a tile."""
        for first in range(0, T, rows):
            end = min(keys, first + rows) if is_causal else keys  # what the last query of the tile sees
            yield from (min(32, keys - start) for start in range(0, end, 32))

    forward, backward = list(key_tiles(64)), list(key_tiles(32))
    # beside the arrays: every thread asks for the length, and for lse and delta of its two rows or columns a pair
    assert loads["attention_forward"] == (T + 2 * sum(forward)) * D + 2 * threads
    asked = 4 * threads + 4 * threads * len(backward)
    assert loads["attention_backward_queries"] == 2 * (T + sum(backward)) * D + asked
    assert loads["attention_backward_keys"] == 2 * (keys + 32 * len(backward)) * D + asked


def test_what_a_group_reads(emulated):
    """Four heads on one. The owner of dk and dv has its keys and values in shared memory once for the group, and with
    one query a head the four of them are one tile."""
    H, S, D, threads = 4, 128, 32, 128
    arrays, options = inputs("float32", 1, H, 1, S, S, D, None, False, 0, 0.0)
    with kernels.emulator.checked() as report:
        both_ways(emulated, arrays, options)
    loads = report.by_kernel()["attention_backward_keys"].global_loads
    pairs = H * (S // 32) ** 2
    assert loads == 2 * (S + 32 * pairs) * D + 4 * threads + 4 * threads * pairs
    arrays, options = inputs("float32", 1, H, 1, 1, S, D, None, True, S - 1, 0.0)
    with kernels.emulator.checked() as report:
        emulated.attention(*arrays[:3], *options)
    assert report.by_kernel()["attention_forward"].global_loads == (H + 2 * S) * D + threads
