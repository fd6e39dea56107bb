"""NumPy among Tensors: what would cut a gradient is refused with the name of ours, the rest works on the values."""

import numpy as np
import pytest

import autograd.functional as F
from autograd import Tensor, numpy_guard


def leaf(values):
    return Tensor(np.array(values, dtype="float64"), requires_grad=True)


def test_arrays_on_the_left_do_not_cut_the_gradient(backend):
    x = leaf([2.0, 4.0])
    array = np.array([1.0, 3.0])
    for y, derivative in (
        (array + x, [1, 1]),
        (array - x, [-1, -1]),
        (array * x, [1, 3]),
        (array / x, [-0.25, -0.1875]),
    ):
        x.grad = None
        assert isinstance(y, Tensor)
        y.sum().backward()
        assert x.grad.numpy().tolist() == derivative


CUTS = {  # a call of NumPy: what to use instead
    "numpy.exp": (lambda x: np.exp(x), "exp"),
    "numpy.tanh": (lambda x: np.tanh(x), "tanh"),
    "numpy.negative": (lambda x: np.negative(x), "multiply"),
    "numpy.maximum": (lambda x: np.maximum(x, 0), "where"),
    "numpy.add": (lambda x: np.add.reduce(x), "add"),
    "numpy.sin": (lambda x: np.sin(x), None),
    "numpy.concatenate": (lambda x: np.concatenate([np.ones((1, 2)), x]), "concatenate"),
    "numpy.stack": (lambda x: np.stack((x, x)), "stack"),
    "numpy.vstack": (lambda x: np.vstack([x, x]), "concatenate"),
    "numpy.hstack": (lambda x: np.hstack([x, x]), "concatenate"),
    "numpy.where": (lambda x: np.where(np.ones((2, 2), bool), 0.0, x), "where"),
    "numpy.dot": (lambda x: np.dot(x, np.ones(2)), "matmul"),
    "numpy.inner": (lambda x: np.inner(np.ones(2), x), "matmul"),
    "numpy.tensordot": (lambda x: np.tensordot(x, x), "matmul"),
    "numpy.einsum": (lambda x: np.einsum("ij->i", x), "matmul"),
    "numpy.mean": (lambda x: np.mean(x), "mean"),
    "numpy.sum": (lambda x: np.sum(x, axis=0), "sum"),
    "numpy.max": (lambda x: np.max(x), "max"),
    "numpy.amax": (lambda x: np.amax(x), "max"),
    "numpy.var": (lambda x: np.var(x), "var"),
    "numpy.std": (lambda x: np.std(x), "var"),
    "numpy.reshape": (lambda x: np.reshape(x, -1), "reshape"),
    "numpy.ravel": (lambda x: np.ravel(x), "reshape"),
    "numpy.squeeze": (lambda x: np.squeeze(x), "reshape"),
    "numpy.transpose": (lambda x: np.transpose(x), "transpose"),
    "numpy.swapaxes": (lambda x: np.swapaxes(x, 0, 1), "swapaxes"),
    "numpy.broadcast_to": (lambda x: np.broadcast_to(x, (3, 2, 2)), "expand"),
    "numpy.split": (lambda x: np.split(x, 2), "split"),
    "numpy.take": (lambda x: np.take(x, [0]), "index"),
    "numpy.cumsum": (lambda x: np.cumsum(x), None),
    "numpy.clip": (lambda x: np.clip(x, 0, 1), None),
    "numpy.interp": (lambda x: np.interp(x, [0, 1], [0, 1]), None),
    "numpy.linalg.norm": (lambda x: np.linalg.norm(x), None),
    "numpy.copyto": (lambda x: np.copyto(np.ones((2, 2)), x), None),
    "numpy.block": (lambda x: np.block([[x, x]]), None),
}


@pytest.mark.parametrize("name", CUTS)
def test_what_would_cut_a_gradient_is_refused(backend, name):
    call, ours = CUTS[name]
    use = "autograd.functional" + (f".{ours}" if ours else "")
    with pytest.raises(TypeError, match=rf"^{name} would cut the gradient; use {use}, or \.numpy\(\) on purpose$"):
        call(leaf([[1.0, 2.0], [3.0, 4.0]]))


@pytest.mark.parametrize("name", CUTS)
def test_without_a_gradient_it_works_on_the_values(backend, name):
    call, _ = CUTS[name]
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(call(Tensor(values)), call(values))


def test_a_gradient_is_found_wherever_it_hides(backend):
    x = leaf([1.0])
    for call in (
        lambda: np.concatenate([[0.0], x]),
        lambda: np.average([1.0], weights=x),
        lambda: np.block([[1.0, x]]),
    ):
        with pytest.raises(TypeError, match="would cut the gradient"):
            call()


@pytest.mark.parametrize(
    "call",
    [np.shape, np.ndim, np.size, np.argmax, np.argsort, np.zeros_like, np.isfinite, np.count_nonzero, np.any,
     np.array_repr, lambda x: np.allclose(x, x), lambda x: np.array_equal(x, [1, 2]),
     lambda x: np.less(x, 2)],
)  # fmt: skip
def test_an_answer_without_a_derivative_is_given(backend, call):
    np.testing.assert_array_equal(call(leaf([1.0, 2.0])), call(np.array([1.0, 2.0])))


def test_conversion_on_purpose(backend):
    x = leaf([1.0])
    assert np.asarray(x).tolist() == np.array(x).tolist() == [1.0]
    assert not np.shares_memory(np.array(x, copy=True), x.array)


def test_the_tables_name_what_there_is(backend):
    def known(name):
        return hasattr(np, name)

    assert all(map(known, numpy_guard.HARMLESS)) and all(map(known, numpy_guard.OURS))
    assert set(numpy_guard.OURS.values()) <= set(F.__all__)
    assert not set(numpy_guard.OURS) & set(F.__all__), "the same name needs no entry"


def test_comparisons_give_boolean_arrays(backend):
    x = leaf([1.0, 2.0, 3.0])
    assert (x > 2).tolist() == [False, False, True] and (x <= leaf([1.0, 1.0, 3.0])).tolist() == [True, False, True]
    assert (x == 2).tolist() == [False, True, False] and (x != x).any() == np.False_
    assert len({x, x}) == 1
