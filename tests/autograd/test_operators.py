"""Operators and functions against NumPy and against values known otherwise; mistakes, explained."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autograd.functional as F
import kernels
from autograd import AutogradError, Tensor


def leaf(values, dtype="float64"):
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1,), (1, 1), ()])
def test_axes_of_size_0_and_1(backend, shape):
    x = Tensor(np.ones(shape), requires_grad=True)
    y = ((x * 2 + 1) / 3).sum()
    assert y.item() == pytest.approx(x.size)
    y.backward()
    assert x.grad.shape == shape and np.allclose(x.grad, 2 / 3)


def test_mean_and_max_of_nothing_are_refused(backend):
    x = Tensor(np.ones((0, 3)))
    with pytest.raises(ValueError, match="mean of nothing"):
        x.mean(axis=0)
    with pytest.raises(ValueError, match="no largest element"):
        x.max()


def test_ties_share_the_gradient_of_max(backend):
    x = leaf([[1.0, 3.0, 3.0], [5.0, 4.0, 0.0]])
    x.max(axis=1).sum().backward()
    assert x.grad.numpy().tolist() == [[0, 0.5, 0.5], [1, 0, 0]]


def test_numbers_take_the_tensors_dtype(backend):
    x = leaf([1.0], "float32")
    for y in (x + 1, 2.5 * x, x / np.float64(3), x ** np.int64(2), 1 - x, x + np.array([1, 2]), x * True):
        assert y.dtype == np.float32


def test_float_arrays_of_another_precision_are_refused(backend):
    with pytest.raises(ValueError, match="b is float64 but a is float32; cast one"):
        leaf([1.0], "float32") + np.ones(1)


def test_what_a_tensor_can_hold(backend):
    assert Tensor([1.0, 2.0]).dtype == np.float32 and Tensor(np.ones(2)).dtype == np.float64
    assert Tensor([1, 2]).dtype.kind == "i"
    with pytest.raises(TypeError, match="not complex128"):
        Tensor(np.ones(2, complex))
    with pytest.raises(TypeError, match="not float16"):
        Tensor(np.ones(2, "float16"))
    with pytest.raises(TypeError, match="only float32 and float64 have gradients"):
        Tensor([1, 2], requires_grad=True)
    with pytest.raises(TypeError, match="a Tensor already"):
        Tensor(Tensor([1.0]))


UNARY = ["exp", "log", "sqrt", "tanh", "sigmoid", "relu", "silu", "gelu"]


REFERENCE = {"sigmoid": lambda x: 1 / (1 + np.exp(-x)), "relu": lambda x: np.maximum(x, 0),
             "silu": lambda x: x / (1 + np.exp(-x))}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in UNARY if name != "gelu"])
def test_functions_against_numpy(backend, rng, name):
    x = rng.uniform(0.1, 3, (3, 4))
    expected = REFERENCE.get(name, getattr(np, name, None))(x)
    np.testing.assert_allclose(getattr(F, name)(Tensor(x)).numpy(), expected, rtol=1e-14)  # last places only


def test_gelu_at_points_known_by_symmetry(backend):
    y = F.gelu(Tensor(np.array([0.0, 10.0, -10.0, 1.0]))).numpy()
    assert y[0] == 0 and y[1] == 10 and abs(y[2]) < 1e-20
    assert y[3] == pytest.approx(0.8413447460685429, rel=1e-15)  # the normal distribution function at 1


def test_gelu_in_its_tanh_form(backend, rng):
    x = 3 * rng.standard_normal(50)
    u = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    expected = x * (1 + np.tanh(u)) / 2
    # 1 + tanh cancels on the left, so the formula itself is right to some units of 1 only
    np.testing.assert_allclose(F.gelu(Tensor(x), approximate="tanh").numpy(), expected, rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match="approximate must be 'none' or 'tanh', not 'erf'"):
        F.gelu(Tensor(x), approximate="erf")


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


@given(shapes, st.data())
def test_reductions_against_numpy(shape, data):
    axes = data.draw(st.one_of(st.none(), st.sets(st.integers(-len(shape), len(shape) - 1)).map(tuple)))
    if axes is not None and len({axis % len(shape) for axis in axes}) != len(axes):
        return
    keepdims = data.draw(st.booleans())
    x = np.random.default_rng(0).standard_normal(shape)
    for name in ("sum", "mean", "max", "var"):
        for backend in kernels.available():
            with kernels.use(backend):
                ours = getattr(Tensor(x), name)(axis=axes, keepdims=keepdims).numpy()
            theirs = getattr(np, name)(x, axis=axes, keepdims=keepdims)
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14, err_msg=f"{name} {axes}")
            assert ours.shape == theirs.shape


def test_variance_with_correction(backend, rng):
    x = rng.standard_normal((3, 5))
    np.testing.assert_allclose(Tensor(x).var(axis=1, correction=1).numpy(), x.var(axis=1, ddof=1), rtol=1e-12)
    with pytest.raises(ValueError, match="1 values cannot be corrected by 1"):
        Tensor(np.ones((2, 1))).var(axis=1, correction=1)


KEYS = [
    0, -1, slice(1, 3), slice(None, None, -1), (slice(None), 2), (Ellipsis, None, 1), (None, 0),
    [0, 2, 2], np.array([[0, 1], [1, 1]]),
    (slice(None), np.array([3, 3, 0])), (np.array([0, 1]), np.array([2, 2])), np.array([True, False, True]),
    (1, np.array([0, 0])),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_indexing_against_numpy(backend, rng, key):
    x = rng.standard_normal((3, 4))
    t = Tensor(x, requires_grad=True)
    y = t[key]
    np.testing.assert_array_equal(y.numpy(), x[key])
    weights = rng.standard_normal(y.shape)
    y.backward(weights)
    expected = np.zeros_like(x)
    np.add.at(expected, key, weights)
    np.testing.assert_allclose(t.grad.numpy(), expected, rtol=1e-15)


def test_indices_out_of_range(backend):
    with pytest.raises(IndexError, match="out of bounds"):
        Tensor(np.ones(3))[5]


def test_shapes_against_numpy(backend, rng):
    x = rng.standard_normal((2, 3, 4))
    t = Tensor(x)
    for ours, theirs in (
        (t.reshape(4, -1), x.reshape(4, -1)), (t.reshape((6, 4)), x.reshape(6, 4)), (t.T, x.T),
        (t.transpose(1, 2, 0), x.transpose(1, 2, 0)), (t.transpose((0, -1, 1)), x.transpose(0, 2, 1)),
        (t.swapaxes(0, -1), x.swapaxes(0, -1)),
        (t[:, :, None].expand(2, 3, 5, 4), np.broadcast_to(x[:, :, None], (2, 3, 5, 4))),
        (F.concatenate([t, t], axis=-1), np.concatenate([x, x], -1)), (F.stack([t, t], axis=-1), np.stack([x, x], -1)),
        (F.split(t, 2, axis=2)[1], x[:, :, 2:]), (F.split(t, [1, 2], axis=1)[1], x[:, 1:]),
        (F.where(x > 0, t, 0.0), np.where(x > 0, x, 0)), (abs(t), abs(x)), (-t, -x), (t @ x[0].T, x @ x[0].T),
        (t @ x[0, 0], x @ x[0, 0]), (x[0, 0] @ t.swapaxes(1, 2), x[0, 0] @ x.swapaxes(1, 2)),
    ):  # fmt: skip
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-14)


def test_shape_mistakes_are_explained(backend):
    x = Tensor(np.ones((2, 6)))
    for mistake, message in (
        (lambda: F.split(x, 4, axis=1), "length 6 cannot be cut into 4 equal"),
        (lambda: F.split(x, [1, 2], axis=1), "do not add up"),
        (lambda: F.stack([]), "nothing to stack"),
        (lambda: F.concatenate([]), "nothing to concatenate"),
        (lambda: x.transpose((0, 0)), "not an order of the 2 axes"),
        (lambda: x.sum(axis=2), "out of bounds"),
        (lambda: x.sum(axis=(0, 0)), "named twice"),
        (lambda: x @ 3, "use \\* for a single number"),
    ):
        with pytest.raises(ValueError, match=message):
            mistake()


def test_dropout_draws_new_masks_unless_told(backend):
    x = Tensor(np.ones(1000))
    assert not np.array_equal(F.dropout(x, 0.5).numpy(), F.dropout(x, 0.5).numpy())
    assert np.array_equal(F.dropout(x, 0.5, seed=3).numpy(), F.dropout(x, 0.5, seed=3).numpy())
    assert F.dropout(x, 0.5, training=False) is x
    with pytest.raises(ValueError, match="below 1, not 1"):
        F.dropout(x, 1)


def test_linear_cross_entropy_is_the_same_number(backend, rng):
    x, weight, bias = (
        leaf(rng.standard_normal((2, 5, 4))),
        leaf(rng.standard_normal((7, 4))),
        leaf(rng.standard_normal(7)),
    )
    targets = rng.integers(0, 7, (2, 5))
    targets[1, 2:] = 6
    whole = F.cross_entropy(F.linear(x, weight, bias), targets, ignore_index=6, label_smoothing=0.1) * 3
    whole.backward()
    expected = [t.grad.numpy().copy() for t in (x, weight, bias)]
    for t in (x, weight, bias):
        t.grad = None
    fused = F.linear_cross_entropy(x, weight, bias, targets, ignore_index=6, label_smoothing=0.1) * 3
    fused.backward()
    assert fused.item() == pytest.approx(whole.item(), rel=1e-14)
    for t, gradient in zip((x, weight, bias), expected, strict=True):
        np.testing.assert_allclose(t.grad.numpy(), gradient, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda x: F.softmax(x, axis=2), lambda x: F.concatenate([x, x], axis=7), lambda x: F.stack([x, x], axis=7),
        lambda x: F.split(x, 2, axis=5), lambda x: x.transpose(0, 3), lambda x: x.swapaxes(0, 2),
        lambda x: F.softmax(Tensor(1.0)),
    ],
)  # fmt: skip
def test_an_axis_out_of_range_does_not_wrap_round(backend, mistake):
    with pytest.raises(np.exceptions.AxisError):
        mistake(Tensor(np.ones((2, 2))))


def test_more_mistakes_are_explained(backend):
    x, single = leaf(np.ones((2, 3))), leaf(np.ones((2, 3)), "float32")
    for mistake, error, message in (
        (lambda: x + None, TypeError, "a number is needed here, not NoneType"),
        (lambda: F.where(np.array(True), x, "a"), TypeError, "not str"),
        (lambda: x.astype("int64"), TypeError, "has no derivative"),
        (lambda: F.concatenate([x, single]), ValueError, "do not mix; cast one"),
        (lambda: F.where(np.array(True), x, single), ValueError, "do not mix"),
        (lambda: F.split(x, [5, -2], axis=1), ValueError, "do not add up"),
        (lambda: F.cross_entropy(Tensor(np.ones((2, 3, 4))), np.zeros((3, 2), int)), ValueError, "targets have shape"),
        (lambda: Tensor([x, x]), TypeError, "use autograd.functional.stack"),
        (lambda: F.linear(Tensor(1.0), x), ValueError, "at least one column"),
    ):
        with pytest.raises(error, match=message):
            mistake()
    x.grad = Tensor(np.ones((2, 2)))
    with pytest.raises(AutogradError, match=r"\.grad must be None or a Tensor of shape \(2, 3\)"):
        x.sum().backward()


def test_plain_arrays_are_taken_too(backend, rng):
    q = rng.standard_normal((1, 1, 3, 2))
    weight = leaf(rng.standard_normal((4, 2)))
    assert F.attention(q, q, q).shape == q.shape
    assert F.linear(q, weight).requires_grad


def test_to_the_power_of_zero(backend):
    x = leaf([0.0, 2.0])
    (x**0).sum().backward()
    assert x.grad.numpy().tolist() == [0, 0]


def test_an_empty_batch_passes_through(backend):
    """As in PyTorch: no rows in, no rows out, and gradients of zeros for the weights."""
    x, gain = (Tensor(np.ones(shape), requires_grad=True) for shape in ((0, 2, 3), (3,)))
    weight, bias = (Tensor(np.ones(shape), requires_grad=True) for shape in ((4, 3), (4,)))
    results = {
        "linear": (F.linear(x, weight, bias), (0, 2, 4)),
        "layer_norm": (F.layer_norm(x, gain, gain), (0, 2, 3)),
        "rms_norm": (F.rms_norm(x, gain), (0, 2, 3)),
        "softmax": (F.softmax(x), (0, 2, 3)),
        "log_softmax": (F.log_softmax(x, axis=1), (0, 2, 3)),
    }
    for name, (result, shape) in results.items():
        assert result.shape == shape, name
        result.sum().backward()
    assert x.grad.shape == x.shape
    for leaf_ in (weight, bias, gain):
        assert not leaf_.grad.numpy().any()
