"""Every tier computes what the reference computes: all samples, both dtypes, then shapes and values from hypothesis."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernels
from kernels import Dropout, Mask
from kernels.samples import SAMPLES, samples

# Rounding: results are sums of at most a few hundred terms of order 1, each rounded once or twice; the sums of two
# tiers are ordered differently. 100 units in the last place of the larger of the array's largest element and 1 covers
# sqrt(300) · a few; a wrong formula is off by far more.
UNITS = 100


def tolerance(reference, dtype):
    finite = np.abs(reference[np.isfinite(reference)])
    return UNITS * np.finfo(dtype).eps * max(1.0, float(finite.max(initial=0.0)))


def outputs(backend, name, arguments):
    if name == "linear_cross_entropy":
        arguments = (*arguments, True)
    result = getattr(backend, name)(*arguments)
    return result if isinstance(result, tuple) else (result,)


def in_float64(arguments):
    return tuple(a.astype("float64") if getattr(a, "dtype", None) == "float32" else a for a in arguments)


def assert_same(name, label, result, reference, dtype):
    for position, (ours, theirs) in enumerate(zip(result, reference, strict=True)):
        if theirs is None:
            assert ours is None
            continue
        where = f"{name}, {label}, result {position}"
        assert np.shape(ours) == np.shape(theirs), where
        assert ours.dtype == dtype, where
        theirs = np.asarray(theirs)
        np.testing.assert_array_equal(np.isfinite(ours), np.isfinite(theirs), err_msg=where)
        difference = np.abs(np.where(np.isfinite(theirs), ours, 0) - np.where(np.isfinite(theirs), theirs, 0))
        assert difference.max(initial=0.0) <= tolerance(theirs, dtype), where


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SAMPLES)
def test_samples(backend, name, dtype):
    reference = kernels.backend("numpy")
    for label, arguments in samples(name, dtype):
        expected = outputs(reference, name, in_float64(arguments))
        assert_same(name, label, outputs(backend, name, arguments), expected, np.dtype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SAMPLES)
def test_inputs_are_left_alone(backend, name, dtype):
    for label, arguments in samples(name, dtype):
        fields = [a for argument in arguments for a in (argument if isinstance(argument, Mask) else (argument,))]
        arrays = [a for a in fields if isinstance(a, np.ndarray)]
        before = [np.array(a) for a in arrays]
        outputs(backend, name, arguments)
        for old, new in zip(before, arrays, strict=True):
            assert old.tobytes() == np.array(new).tobytes(), f"{name}, {label}"


sizes = st.integers(1, 70)


@given(st.integers(1, 3), st.integers(1, 3), sizes, sizes, st.integers(1, 20), st.booleans(), st.data())
def test_attention_of_any_shape(B, G, T, S, D, is_causal, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    H = G * data.draw(st.sampled_from([1, 1, 2, 3, 5]))
    q, k, v = (rng.standard_normal(shape) for shape in ((B, H, T, D), (B, G, S, D), (B, G, S, D)))
    lengths = np.array(data.draw(st.lists(st.integers(0, S), min_size=B, max_size=B)))
    offset = data.draw(st.integers(0, S))
    p = data.draw(st.sampled_from([0.0, 0.25]))
    options = (Mask(lengths, is_causal, offset), D**-0.5, Dropout(p, 99))
    reference, fast = kernels.backend("numpy"), kernels.backend("numba")
    out, lse = reference.attention(q, k, v, *options)
    ours = fast.attention(q, k, v, *options)
    assert_same("attention", "hypothesis", ours, (out, lse), np.dtype("float64"))
    dout = rng.standard_normal(out.shape)
    expected = reference.attention_backward(dout, q, k, v, out, lse, *options)
    assert_same("backward", "", fast.attention_backward(dout, q, k, v, *ours, *options), expected, np.dtype("float64"))


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 1000))
def test_rows_of_any_shape(N, C, seed):
    rng = np.random.default_rng(seed)
    x, dy, weight, bias = (rng.standard_normal(shape) for shape in ((N, C), (N, C), (C,), (C,)))
    ids = rng.integers(0, N, C)
    reference, fast = kernels.backend("numpy"), kernels.backend("numba")
    for name, arguments in {
        "layer_norm": (x, weight, bias, 1e-3), "rms_norm": (x, weight, 1e-3),
        "softmax": (x,), "log_softmax": (x,), "embedding": (x, ids),
        "embedding_backward": (rng.standard_normal((C, 3)), ids, N), "softmax_backward": (dy, x),
        "log_softmax_backward": (dy, x),
        "linear_backward": (dy, rng.standard_normal((N, 5)), rng.standard_normal((C, 5)), True),
        "cross_entropy": (x, rng.integers(0, C, N), None, 0.1), "sum": (x, (1,)), "max": (x, (0,)),
    }.items():  # fmt: skip
        assert_same(
            name, f"N={N} C={C}", outputs(fast, name, arguments), outputs(reference, name, arguments), np.dtype("f8")
        )


@pytest.mark.parametrize("offset", [0, 45])
@pytest.mark.parametrize("G", [1, 2])
def test_attention_over_several_tiles(G, offset):
    """Tiles below, on and right of the diagonal, and strips that begin in the middle of one."""
    rng = np.random.default_rng(5)
    q, k, v, dout = (rng.standard_normal((1, heads, 300, 9)) for heads in (2, G, G, 2))
    options = (Mask(np.array([290]), True, offset), 0.3, Dropout(0.25, 7))
    reference, fast = kernels.backend("numpy"), kernels.backend("numba")
    expected, ours = (backend.attention(q, k, v, *options) for backend in (reference, fast))
    assert_same("attention", "several tiles", ours, expected, np.dtype("float64"))
    expected = reference.attention_backward(dout, q, k, v, *expected, *options)
    assert_same("backward", "", fast.attention_backward(dout, q, k, v, *ours, *options), expected, np.dtype("float64"))


NASTY = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-300, -1e-300, 88.0, -750.0, -40.0, 1.5]


NASTY_FOR = ["exp", "log", "sqrt", "tanh", "sigmoid", "relu", "gelu", "gelu_tanh", "silu", "softmax", "log_softmax"]


@pytest.mark.parametrize("name", NASTY_FOR)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_infinities_and_nan_are_treated_alike(name):
    x = np.array([NASTY]) if "softmax" in name else np.array(NASTY)
    cases = [x] if "softmax" not in name else [x, x[:, 1:], x[:, 2:]]
    for case in cases:
        theirs = getattr(kernels.backend("numpy"), name)(case)
        ours = getattr(kernels.backend("numba"), name)(case)
        np.testing.assert_allclose(ours, theirs, rtol=1e-14, atol=0, err_msg=name)  # a few units in the last place


def test_nan_in_attention_reaches_the_output(backend, rng):
    q, k, v = (rng.standard_normal((1, 1, 3, 4)) for _ in range(3))
    q[0, 0, 1, 2] = np.nan
    out, lse = backend.attention(q, k, v, Mask(), 0.5, Dropout())
    assert np.isnan(out[0, 0, 1]).all() and np.isnan(lse[0, 0, 1])
    assert np.isfinite(out[0, 0, [0, 2]]).all()


def test_scores_far_apart_between_tiles(backend, rng):
    """The online softmax must rescale when a later tile holds a much larger score, and ignore a much smaller one."""
    k = np.zeros((1, 1, 200, 1))
    k[0, 0, 150], k[0, 0, 10] = 700.0, -700.0
    v = rng.standard_normal((1, 1, 200, 1))
    out, lse = backend.attention(np.ones((1, 1, 1, 1)), k, v, Mask(), 1.0, Dropout())
    np.testing.assert_allclose(out[0, 0, 0], v[0, 0, 150], rtol=1e-14)
    np.testing.assert_allclose(lse, 700.0, rtol=1e-14)


def test_minus_infinity_in_early_tiles(backend):
    """A key of -inf score, then an ordinary one: nothing may turn into NaN, and low scores must survive."""
    k = np.full((1, 1, 80, 1), -np.inf)
    k[0, 0, 70] = -500.0
    v = np.arange(80.0).reshape(1, 1, 80, 1)
    out, lse = backend.attention(np.ones((1, 1, 1, 1)), k, v, Mask(), 1.0, Dropout())
    assert out.item() == 70.0 and lse.item() == -500.0


def test_a_query_without_keys_is_zero_and_passes_nothing(backend, rng):
    q, k, v, dout = (rng.standard_normal((2, 1, 3, 4)) for _ in range(4))
    lengths = np.array([0, 3])
    out, lse = backend.attention(q, k, v, Mask(lengths), 0.5, Dropout())
    assert not out[0].any() and np.isneginf(lse[0]).all() and out[1].all()
    for gradient in backend.attention_backward(dout, q, k, v, out, lse, Mask(lengths), 0.5, Dropout()):
        assert not gradient[0].any() and gradient[1].any()


def test_linear_cross_entropy_in_many_chunks(backend, rng, monkeypatch):
    """The buffer holds two rows only: the chunks must add up to the same loss and gradients."""
    import kernels.cpu.linear_cross_entropy as on_cpu
    import kernels.gpu.linear_cross_entropy as on_gpu

    monkeypatch.setattr(on_cpu, "BUFFER_BYTES", 2 * 11 * 8)
    monkeypatch.setattr(on_gpu, "BUFFER_BYTES", 2 * 11 * 8)
    x, weight, bias = rng.standard_normal((9, 4)), rng.standard_normal((11, 4)), rng.standard_normal(11)
    targets = rng.integers(0, 11, 9)
    targets[[2, 3]] = 5
    arguments = x, weight, bias, targets, 5, 0.1, True
    expected = outputs(kernels.backend("numpy"), "linear_cross_entropy", arguments[:-1])
    assert_same("chunks", "", backend.linear_cross_entropy(*arguments), expected, np.dtype("float64"))


def test_a_masked_logit_is_allowed(backend):
    """-inf for a word that cannot come: without label smoothing the loss is the one over the rest."""
    loss, lse = backend.cross_entropy(np.array([[0.0, -np.inf, 0.0]]), np.array([0]), None, 0.0)
    assert loss == pytest.approx(np.log(2), rel=1e-15) and lse[0] == pytest.approx(np.log(2), rel=1e-15)


def test_what_stands_behind_the_keys_is_never_read(backend, rng):
    q, k, v, dout = (rng.standard_normal((1, 2, 5, 4)) for _ in range(4))
    lengths = np.array([3])
    options = (Mask(lengths), 0.5, Dropout())
    clean = backend.attention(q, k, v, *options)
    gradients = backend.attention_backward(dout, q, k, v, *clean, *options)
    for array in (k, v):
        array[:, :, 3:] = np.nan
    assert all(np.array_equal(a, b) for a, b in zip(clean, backend.attention(q, k, v, *options), strict=True))
    again = backend.attention_backward(dout, q, k, v, *clean, *options)
    assert all(np.array_equal(a, b) for a, b in zip(gradients, again, strict=True))


@pytest.mark.parametrize("T", [1, 67])
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_groups_are_heads_with_repeated_keys(backend, rng, T, p):
    """Keys and values written out for every head give the same results, and their gradients add up to the group's.
    More heads than a tile has queries, so that every way of dividing the work is met."""
    B, H, G, S, D = 2, 150 if T == 1 else 6, 2, 40, 8
    q, k, v, dout = (rng.standard_normal(s) for s in ((B, H, T, D), (B, G, S, D), (B, G, S, D), (B, H, T, D)))
    options = (Mask(np.array([S, 33]), True, 30), 0.3, Dropout(p, 4))
    full = [x.repeat(H // G, axis=1) for x in (k, v)]
    results = backend.attention(q, k, v, *options)
    expected = backend.attention(q, *full, *options)
    assert_same("forward", "", results, expected, np.dtype("float64"))
    dq, dk, dv = backend.attention_backward(dout, q, k, v, *results, *options)
    dq_full, *others = backend.attention_backward(dout, q, *full, *expected, *options)
    summed = [x.reshape(B, G, H // G, S, D).sum(axis=2) for x in others]
    assert_same("backward", "", (dq, dk, dv), (dq_full, *summed), np.dtype("float64"))


def test_an_enormous_offset_sees_everything(backend, rng):
    q = rng.standard_normal((1, 1, 4, 3))
    everything = backend.attention(q, q, q, Mask(), 0.5, Dropout())[0]
    assert np.array_equal(backend.attention(q, q, q, Mask(None, True, 2**70), 0.5, Dropout())[0], everything)
