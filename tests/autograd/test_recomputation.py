"""A part that is computed again in backward: the same bits, less memory, and no wrong gradient in silence."""

import gc
import tracemalloc

import numpy as np
import pytest

import autograd.functional as F
from autograd import AutogradError, Tensor, gradcheck, no_grad, recompute
from minitransformer.optim import SGD


def leaf(*shape, seed=0):
    return Tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=True)


def test_gradients_are_right(backend):
    x, weight = leaf(3, 5), leaf(4, 5, seed=1)

    def function(x, weight):
        return recompute(lambda x: F.gelu(F.linear(x, weight)) @ x[:1, :4].swapaxes(0, 1), x, parameters=[weight])

    gradcheck(function, [x, weight])


def gradients(result, *leaves):
    result.backward()
    found = [None if one.grad is None else one.grad.numpy() for one in leaves]
    for one in leaves:
        one.grad = None
    return found


def test_the_same_bits_as_without(backend):
    """x is used three times and y by two others: the sums of gradients must be taken in the same order."""
    x, weight = leaf(7, 6), leaf(6, 6, seed=1)

    def part(x):
        return F.tanh(F.linear(x, weight)) * x + x

    plain, again = part(x), recompute(part, x, parameters=[weight])
    np.testing.assert_array_equal(plain.numpy(), again.numpy())
    for a, b in zip(*(gradients((y * y + y).sum(), x, weight) for y in (plain, again)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_parts_inside_parts_and_one_part_twice():
    x, weight = leaf(3, 4), leaf(4, 4, seed=1)

    def inner(x):
        return F.tanh(F.linear(x, weight))

    def outer(x, part):
        return part(part(x)) + x

    plain = outer(x, inner)
    again = recompute(lambda x: outer(x, lambda x: recompute(inner, x, parameters=[weight])), x, parameters=[weight])
    for a, b in zip(*(gradients(y.sum(), x, weight) for y in (plain, again)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_inputs_and_parameters_without_a_gradient():
    x, constant, frozen = leaf(3), Tensor(np.arange(3.0)), leaf(3, seed=1)
    frozen.requires_grad = False
    unused = leaf(2)
    y = recompute(lambda x, c: x * c * frozen, x, constant, parameters=[frozen, unused])
    found = gradients(y.sum(), x, constant, frozen, unused)
    np.testing.assert_allclose(found[0], np.arange(3.0) * frozen.numpy(), rtol=1e-15)  # one product
    assert found[1:] == [None, None, None]


def test_nothing_is_kept_where_no_gradient_will_follow():
    with no_grad():
        assert recompute(F.exp, leaf(3)).node is None
    assert recompute(F.exp, Tensor(np.ones(3))).node is None


def test_a_second_backward(backend):
    x = leaf(4)
    y = recompute(lambda x: F.exp(x) * x, x).sum()
    y.backward(retain_graph=True)
    first = x.grad.numpy().copy()
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * first)
    with pytest.raises(AutogradError, match="freed"):
        y.backward()


def test_other_numbers_the_second_time_are_refused():
    """A mask drawn anew would be a wrong gradient that no shape or size betrays."""
    x, random = leaf(50), np.random.default_rng(0)
    y = recompute(lambda x: F.dropout(x, 0.5, seed=int(random.integers(1000))), x)
    with pytest.raises(AutogradError, match="other numbers"):
        y.sum().backward()
    assert x.grad is None
    masked = recompute(lambda x: F.dropout(x, 0.5, seed=7), x)
    masked.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy() != 0, masked.numpy() != 0)


def test_numbers_that_are_none_are_equal_to_themselves():
    x = Tensor(np.array([-1.0, 4.0]), requires_grad=True)
    with np.errstate(invalid="ignore"):
        recompute(F.sqrt, x).sum().backward()
    assert x.grad.numpy()[1] == 0.25


def test_a_weight_that_is_not_named_is_refused():
    x, weight = leaf(3), leaf(3, seed=1)
    with pytest.raises(AutogradError, match=r"parameters=\[\.\.\.\]"):
        recompute(lambda x: x * weight, x).sum().backward()


def test_a_step_of_the_optimizer_in_between_is_refused():
    x, weight = leaf(3), leaf(3, seed=1)
    optimizer = SGD([weight], lr=0.1)
    (x * weight).sum().backward()
    y = recompute(lambda x: x * weight, x, parameters=[weight]).sum()
    optimizer.step()
    with pytest.raises(AutogradError, match="changed in place"):
        y.backward()


def test_the_tape_holds_the_inputs_only():
    """Of 20 results inside each of 5 parts, none is kept: one part's worth of memory instead of five."""
    x = Tensor(np.ones((1000, 100)), requires_grad=True)

    def part(x):
        for _ in range(20):
            x = F.tanh(x)
        return x

    def held(run):
        gc.collect()
        tracemalloc.start()
        y = x
        for _ in range(5):
            y = run(part, y)
        kept = tracemalloc.get_traced_memory()[0] / x.data.nbytes
        y.sum().backward()
        peak = tracemalloc.get_traced_memory()[1] / x.data.nbytes
        tracemalloc.stop()
        x.grad = None
        return round(kept), round(peak)

    held(recompute)  # kernels are loaded once, and that takes memory too
    stored, again = held(lambda part, y: part(y)), held(recompute)
    assert stored[0] == 100 and again[0] == 5
    assert again[1] < 5 + 20 + 5  # one part's results, and a few gradients
