"""Random numbers, exp, GELU, Adam: what has an exact or published answer."""

import math

import numpy as np
import pytest
from numba import njit

import kernels
from kernels.cpu.gelu import gelu_slope, gelu_value
from kernels.cpu.philox import philox as fast_philox
from kernels.cpu.vector_math import exp as vector_exp
from kernels.reference.philox import philox

# Known answers published with the generator (Random123, philox4x32-10): counter, key, output.
PHILOX = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]  # fmt: skip


@pytest.mark.parametrize("counter, key, expected", PHILOX)
def test_philox_known_answers(counter, key, expected):
    seed = key[0] | key[1] << 32
    assert tuple(int(word) for word in philox(*counter, seed)) == expected
    assert tuple(int(word) for word in fast_philox(*map(np.uint64, counter), np.uint64(seed))) == expected


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_masks_are_the_same_bits_on_every_tier(backend, p):
    for size in (1, 2, 3, 4, 5, 4095, 4096, 4097, 20000):
        x = np.random.default_rng(size).standard_normal(size).astype("float32")
        for seed in (0, 2**63 + 12345, -7):
            expected = kernels.backend("numpy").dropout(x, p, seed)
            assert backend.dropout(x, p, seed).tobytes() == expected.tobytes()


def test_dropout_drops_the_right_share(backend):
    n, p = 100_000, 0.3
    dropped = (backend.dropout(np.ones(n), p, 1) == 0).sum()
    # five standard deviations of a binomial count: wrong once in two million seeds, and this seed is fixed
    assert abs(dropped - n * p) < 5 * (n * p * (1 - p)) ** 0.5


def test_dropout_keeps_the_mean_and_depends_on_the_seed(backend):
    x = np.ones(1000)
    first, second = backend.dropout(x, 0.5, 1), backend.dropout(x, 0.5, 2)
    assert set(np.unique(first)) == {0.0, 2.0}
    assert 400 < (first != second).sum() < 600  # independent masks differ in half of the places


def test_attention_dropout_is_the_same_on_every_tier(backend, rng):
    """With v part of the identity, the output shows single weights: the zeros must be the same ones."""
    T, S = 70, 130
    q, k = rng.standard_normal((2, 2, T, 8)), rng.standard_normal((2, 2, S, 8))
    v = np.broadcast_to(np.eye(S, 8), (2, 2, S, 8)).copy()
    options = kernels.Mask(None, True, 20), 0.3, kernels.Dropout(0.5, 5)
    reference = kernels.backend("numpy").attention(q, k, v, *options)[0]
    assert np.array_equal(backend.attention(q, k, v, *options)[0] == 0, reference == 0)


@njit
def _exp_all(y, x):
    for i in range(x.size):
        y[i] = vector_exp(x[i])


@pytest.mark.parametrize("dtype, low, high", [("float32", -87.3, 88.7), ("float64", -708.3, 709.7)])
def test_exp_is_accurate_to_two_units_in_the_last_place(dtype, low, high):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(low, high, 200_000), rng.uniform(-2, 2, 200_000), [0.0]]).astype(dtype)
    y = np.empty_like(x)
    _exp_all(y, x)
    exact = np.exp(x.astype(np.longdouble))
    assert (np.abs(y - exact) / np.spacing(exact.astype(dtype))).max() < 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exp_at_the_edges(dtype):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e6, -1e6], dtype=dtype)
    y = np.empty_like(x)
    _exp_all(y, x)
    np.testing.assert_array_equal(y, np.array([np.nan, np.inf, 0, 1, 1, np.inf, 0], dtype=dtype))


def _below(x):
    """Φ(x), to the last digit in the tail too"""
    return math.erfc(-x * math.sqrt(0.5)) / 2


@njit
def _gelu_all(values, slopes, x):
    for i in range(x.size):
        values[i], slopes[i] = gelu_value(x[i]), gelu_slope(x[i])


def test_gelu_in_float32_is_accurate_far_into_the_tail():
    """The value's error in units of the last place, at most: the series 3.2, however its terms are rounded; exp 2; two
    products 1; and the exponent x²/2, rounded twice, x²/2. The slope has a zero, so its error is held against 1."""
    x = np.concatenate([np.linspace(-13, 13, 100_001), np.linspace(-1e-3, 1e-3, 1001)]).astype("float32")
    values, slopes = np.empty_like(x), np.empty_like(x)
    _gelu_all(values, slopes, x)
    wide = x.astype(float)
    below = np.array([_below(t) for t in wide])
    bell, unit = np.exp(-wide * wide / 2), np.finfo("float32").eps
    assert (np.abs(values - wide * below) <= (7 + wide * wide / 2) * unit * np.abs(wide * below)).all()
    assert np.abs(slopes - below - wide * bell / math.sqrt(2 * math.pi)).max() < 4 * unit


def _twice_u(x):
    """The argument of σ in the tanh form of GELU: x (1 + tanh u) / 2 = x σ(2u)"""
    kind = x.dtype.type
    return kind(2) * np.sqrt(kind(2) / kind(np.pi)) * (x + kind("0.044715") * x * x * x)


def _twice_u_slope(x):
    kind = x.dtype.type
    return kind(2) * np.sqrt(kind(2) / kind(np.pi)) * (1 + kind("0.134145") * x * x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gelu_at_the_edges(dtype):
    x = np.array([np.nan, np.inf, 1e4, 0, -1e4], dtype=dtype)
    values, slopes = np.empty_like(x), np.empty_like(x)
    _gelu_all(values, slopes, x)
    np.testing.assert_array_equal(values, np.array([np.nan, np.inf, 1e4, 0, 0], dtype=dtype))
    expected = np.array([np.nan, 1, 0.5, 0], dtype=dtype)  # the half is a sum of nine rounded coefficients
    np.testing.assert_allclose(slopes[[0, 2, 3, 4]], expected, rtol=4 * np.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name, u", [("silu", lambda x: x), ("gelu_tanh", _twice_u)])
def test_sigmoid_activations_are_accurate_in_the_tail(backend, name, u, dtype):
    """x σ(u) in units of the last place: exp 2, sum, division and product 2, and the exponent u, rounded four times,
    2 |u|. Through tanh all digits would be lost on the left. The slope has a zero, so its error is held against 1;
    where σ is almost 1, 1 - σ has an error of half a unit, and stands beside x u'."""
    x = np.concatenate([np.linspace(-13, 13, 2001), np.linspace(-1e-3, 1e-3, 101)]).astype(dtype)
    x = x[np.abs(u(x)) < 80]  # beyond, float32 has no normal numbers for σ
    wide = x.astype(np.longdouble)
    sigma, unit = 1 / (1 + np.exp(-u(wide))), np.finfo(dtype).eps
    values = getattr(backend, name)(x)
    assert (np.abs(values - wide * sigma) <= (4 + 2 * np.abs(u(wide))) * unit * np.abs(wide * sigma)).all()
    slopes = getattr(backend, f"{name}_backward")(np.ones_like(x), x)
    steep = np.abs(wide * (1 if name == "silu" else _twice_u_slope(wide)))
    expected = sigma + np.copysign(steep, wide) * sigma * (1 - sigma)
    assert (np.abs(slopes - expected) < (8 + steep) * unit).all()


def test_rotary_far_from_the_start(backend):
    """At position 10⁶ in float32 the turn is still right to the last place: angles formed in float32 would be off by
    10⁶ · 6e-8 = 0.06."""
    x = np.array([[[[1, 0, 1, 0]]]], "float32")
    y = backend.rotary(x, np.array([[1_000_000]]), 100.0, True)[0, 0, 0]
    angles = 1_000_000 * np.array([1.0, 0.1])
    np.testing.assert_allclose(y, np.stack([np.cos(angles), np.sin(angles)], 1).reshape(-1), rtol=2e-7)


@pytest.mark.parametrize("interleaved", [True, False])
def test_rotary_scores_depend_on_the_distance_alone(backend, rng, interleaved):
    q, k = rng.standard_normal((2, 1, 1, 1, 8))
    scores = []
    for t, s in ((5, 2), (105, 102), (3, 0)):
        turned = (backend.rotary(x, np.array([[p]]), 10000.0, interleaved) for x, p in ((q, t), (k, s)))
        scores.append(np.vdot(*turned))
    np.testing.assert_allclose(scores, scores[0], rtol=1e-13)  # angles up to 105 rounded at 2e-16 each


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_adam_against_the_formula_written_out(backend, rng, decoupled, dtype):
    param, grad, m, v = (rng.standard_normal(37).astype(dtype) for _ in range(4))
    v = np.abs(v)
    v *= 1e-3  # so that 1 - beta2 matters, which has few digits in float32
    lr, beta1, beta2, eps, decay, step = 0.1, 0.9, 0.999, 1e-3, 0.05, 3
    expected = []
    for p, g, m_old, v_old in zip(*(a.astype(float) for a in (param, grad, m, v)), strict=True):
        if decoupled:
            p -= lr * decay * p
        else:
            g += decay * p
        m_new, v_new = beta1 * m_old + (1 - beta1) * g, beta2 * v_old + (1 - beta2) * g * g
        m_hat, v_hat = m_new / (1 - beta1**step), v_new / (1 - beta2**step)
        expected.append((p - lr * m_hat / (v_hat**0.5 + eps), m_new, v_new))
    backend.adam(param, grad, m, v, lr, beta1, beta2, eps, decay, decoupled, step, 1.0)
    for ours, theirs in zip((param, m, v), np.array(expected).T, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=20 * np.finfo(dtype).eps, atol=20 * np.finfo(dtype).eps)


def test_adam_changes_strided_views_in_place(backend):
    plain = [np.linspace(1, 2, 6) for _ in range(4)]
    views = [np.repeat(a, 2)[::2] for a in plain]
    options = (0.1, 0.9, 0.99, 1e-8, 0.01, True, 1, 1.0)
    backend.adam(*plain, *options)
    backend.adam(*views, *options)
    for one, other in zip(plain, views, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(plain[0], np.linspace(1, 2, 6))


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_adam_applies_the_factor_of_clipping(backend, rng, decoupled, dtype):
    """On NumPy and Numba bit for bit as if the gradient had been multiplied before; the GPU may fuse it with a sum."""
    inputs = [np.abs(rng.standard_normal(1001)).astype(dtype) for _ in range(4)]
    options, factor = (0.1, 0.9, 0.999, 1e-8, 0.05, decoupled, 2), 0.123456789
    one, other = [a.copy() for a in inputs], [a.copy() for a in inputs]
    other[1] *= np.dtype(dtype).type(factor)
    backend.adam(*one, *options, factor)
    backend.adam(*other, *options, 1.0)
    assert np.array_equal(one[1], inputs[1]), "the gradient is not adam's to change"
    for ours, theirs in zip(one[2:] + one[:1], other[2:] + other[:1], strict=True):
        if backend.name in ("numpy", "numba"):
            np.testing.assert_array_equal(ours, theirs)
        # a fused product saves one rounding of g, which enters v twice
        np.testing.assert_allclose(ours, theirs, rtol=8 * np.finfo(dtype).eps)


def test_adam_reads_any_gradient(backend):
    """A gradient may be read-only, repeated by a zero stride, or a view in another order."""
    for grad in (np.broadcast_to(0.5, (3, 4)), np.arange(12.0).reshape(4, 3).T, np.arange(24.0).reshape(3, 8)[:, ::2]):
        given, plain = ([np.ones((3, 4)), g, np.zeros((3, 4)), np.zeros((3, 4))] for g in (grad, grad.copy(order="C")))
        for arrays in (given, plain):
            backend.adam(*arrays, 0.1, 0.9, 0.99, 1e-8, 0.0, False, 1, 1.0)
        np.testing.assert_array_equal(given[0], plain[0])


def test_sum_of_squares(backend, rng):
    x = rng.standard_normal(10_001).astype("float32")
    assert backend.sum_of_squares(x) == pytest.approx((x.astype(float) ** 2).sum(), rel=1e-12)  # summed in float64
    assert backend.sum_of_squares(np.zeros(0)) == 0


def test_sum_of_nothing(backend):
    assert backend.sum(np.zeros((0, 3)), (0,)).tolist() == [0, 0, 0]
    assert backend.sum(np.zeros((3, 0)), (1,)).tolist() == [0, 0, 0]
    assert backend.sum(np.zeros((0, 3)), (1,)).shape == (0,)


def test_seeds_may_be_numpy_integers(backend):
    for seed in (np.int64(5), np.int32(5), np.uint64(5)):
        assert np.array_equal(backend.dropout(np.ones(9), 0.5, seed), backend.dropout(np.ones(9), 0.5, 5))


@pytest.mark.parametrize("step, beta, message", [(0, 0.9, "count from 1"), (1, 1.0, "beta1 must be")])
def test_adam_refuses_to_divide_by_zero(backend, step, beta, message):
    with pytest.raises(kernels.KernelError, match=message):
        backend.adam(*(np.ones(2) for _ in range(4)), 0.1, beta, 0.99, 1e-8, 0.0, False, step, 1.0)
