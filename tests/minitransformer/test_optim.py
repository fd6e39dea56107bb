"""Optimizers against their formulas written out with plain floats, clipping, schedules, and saved state."""

import copy
import math
import pickle

import numpy as np
import pytest

from autograd import Tensor
from autograd.scaled_gradient import gradient_and_factor
from minitransformer import optim
from minitransformer.module import Parameter
from minitransformer.optim import SGD, Adam, AdamW, clip_grad_norm

pytestmark = pytest.mark.usefixtures("backend")

GRADIENTS = [np.array([0.5, -2.0, 0.0]), np.array([-1.0, 0.25, 3.0]), np.array([0.1, 0.1, -0.1])]
# a few operations of float64 in another order: some units of the last place
CLOSE = {"rtol": 1e-14, "atol": 1e-15}


def run(make, gradients=GRADIENTS):
    weight = Parameter(np.array([1.0, -1.0, 2.0]))
    optimizer = make([weight])
    for gradient in gradients:
        weight.grad = Tensor(gradient.copy())
        optimizer.step()
    return weight.numpy()


def adam_by_hand(w, gradients, lr, beta1, beta2, eps, decay, decoupled):
    m = v = 0.0
    for t, g in enumerate(gradients, 1):
        if decoupled:
            w -= lr * decay * w
        else:
            g = g + decay * w
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        w -= lr * (m / (1 - beta1**t)) / (math.sqrt(v / (1 - beta2**t)) + eps)
    return w


@pytest.mark.parametrize("kind, decoupled", [(Adam, False), (AdamW, True)])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_follows_the_formula(kind, decoupled, decay):
    got = run(lambda p: kind(p, lr=0.1, betas=(0.8, 0.9), eps=1e-3, weight_decay=decay))
    expected = [
        adam_by_hand(w, [g[i] for g in GRADIENTS], 0.1, 0.8, 0.9, 1e-3, decay, decoupled)
        for i, w in enumerate([1.0, -1.0, 2.0])
    ]
    np.testing.assert_allclose(got, expected, **CLOSE)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_sgd_follows_the_formula(momentum, decay):
    w, b = np.array([1.0, -1.0, 2.0]), np.zeros(3)
    for g in GRADIENTS:
        b = momentum * b + g + decay * w
        w = w - 0.1 * b
    np.testing.assert_allclose(run(lambda p: SGD(p, 0.1, momentum, decay)), w, **CLOSE)


def test_default_weight_decay_is_pytorchs():
    assert Adam([Parameter(np.ones(1))]).weight_decay == 0.0
    assert AdamW([Parameter(np.ones(1))]).weight_decay == 1e-2


def test_a_parameter_without_gradient_is_skipped_and_starts_late():
    """Its own step count must start when its gradients do, or the first update is corrected by the wrong power."""
    late, early = Parameter(np.ones(1)), Parameter(np.ones(1))
    optimizer = Adam([early, late], lr=0.1)
    early.grad = Tensor(np.ones(1))
    optimizer.step()
    assert late.numpy() == 1.0
    late.grad = Tensor(np.full(1, 5.0))
    optimizer.step()
    np.testing.assert_allclose(late.numpy(), 0.9, rtol=1e-8)  # a first step is lr · sign, up to eps / |g| = 2e-9


def test_the_weight_array_changes_in_place():
    weight = Parameter(np.ones(3))
    array = weight.data
    for optimizer in (Adam([weight]), SGD([weight]), SGD([weight], momentum=0.9)):
        weight.grad = Tensor(np.ones(3))
        optimizer.step()
        assert weight.data is array


@pytest.mark.parametrize("make", [lambda p: Adam(p, 0.1), lambda p: SGD(p, 0.1, 0.9), lambda p: SGD(p, 0.1)])
def test_saved_state_continues_bit_for_bit(make):
    through = run(make)
    weight = Parameter(np.array([1.0, -1.0, 2.0]))
    first = make([("w", weight)])
    for gradient in GRADIENTS[:2]:
        weight.grad = Tensor(gradient.copy())
        first.step()
    state, saved = first.state_dict(), weight.numpy().copy()
    weight.grad = Tensor(np.ones(3))
    first.step()  # must not reach into the saved state
    resumed = Parameter(saved)
    second = make([("w", resumed)])
    second.load_state_dict(state)
    resumed.grad = Tensor(GRADIENTS[2].copy())
    second.step()
    assert resumed.numpy().tobytes() == through.tobytes()


def test_state_is_named_and_strict():
    weight = Parameter(np.ones(3))
    optimizer = Adam([("layer.weight", weight)], lr=0.1)
    weight.grad = Tensor(np.ones(3))
    optimizer.step()
    good = optimizer.state_dict()
    assert set(good) == {"lr", "steps", "m.layer.weight", "v.layer.weight"}
    before = optimizer.state_dict()
    for change, message in [
        (lambda s: s.pop("m.layer.weight"), "m.layer.weight is missing"),
        (lambda s: s.update({"m.other": np.ones(3)}), "m.other is unknown"),
        (lambda s: s.update({"v.layer.weight": np.ones(4)}), "expected floats"),
        (lambda s: s.update({"v.layer.weight": np.ones(3, int)}), "expected floats"),
        (lambda s: s.update(steps={"x": 1}), "x is unknown"),
        (lambda s: s.pop("steps"), "not the state"),
    ]:
        bad = dict(good)
        change(bad)
        bad["lr"] = 7.0
        with pytest.raises(ValueError, match=message):
            optimizer.load_state_dict(bad)
        after = optimizer.state_dict()
        assert after["lr"] == 0.1 and after["steps"] == before["steps"]
        assert all(np.array_equal(after[k], before[k]) for k in before if k.startswith(("m.", "v.")))


def test_clipping_scales_to_the_common_norm():
    a, b, without = Parameter(np.zeros(2)), Parameter(np.zeros((1, 2))), Parameter(np.zeros(3))
    a.grad, b.grad = Tensor(np.array([3.0, 0.0])), Tensor(np.array([[0.0, 4.0]]))
    assert clip_grad_norm([a, b, without, a], 1.0) == 5.0  # `a` given twice counts once
    np.testing.assert_allclose(a.grad.numpy(), [0.6, 0.0], **CLOSE)
    np.testing.assert_allclose(b.grad.numpy(), [[0.0, 0.8]], **CLOSE)
    before = a.grad.numpy().copy()
    assert clip_grad_norm([a, b], 2.0) == pytest.approx(1.0)
    assert a.grad.numpy().tobytes() == before.tobytes()  # short enough: not a bit changes


@pytest.mark.parametrize("make", [lambda p: Adam(p, weight_decay=0.1), AdamW, SGD, lambda p: SGD(p, momentum=0.9)])
def test_clipping_is_a_factor_and_writes_to_no_gradient(make, backend):
    """Bit for bit what gradients give that were multiplied before. Two weights that share a gradient's array are each
    clipped once, and whoever looks at a gradient sees it clipped."""
    gradient = np.random.default_rng(0).standard_normal(1001).astype(np.float32)
    clipped, scaled = ([Parameter(np.ones(1001, np.float32)) for _ in range(2)] for _ in range(2))
    ((clipped[0] + clipped[1]) * 1.0).backward(gradient)
    shared = clipped[0].grad.array
    assert clipped[1].grad.array is shared
    norm = clip_grad_norm(clipped, 0.5)
    product = gradient * np.float32(0.5 / norm)
    for parameter in scaled:
        parameter.grad = Tensor(product)
    for parameters in (clipped, scaled):
        make(parameters).step()
    assert np.array_equal(shared, gradient)
    # CUDA may fuse the product with a sum, which can turn the last rounding of a weight
    bound = 0 if backend.name in ("numpy", "numba") else np.finfo(np.float32).eps
    for one, other in zip(clipped, scaled, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=bound)
        np.testing.assert_array_equal(one.grad.numpy(), product)


def test_clipped_gradients_add_up():
    a = Parameter(np.zeros(2))
    a.grad = Tensor(np.array([3.0, 4.0]))
    clip_grad_norm([a], 1.0)
    (a * 1.0).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), [1.6, 1.8], **CLOSE)


CLIPPED = {
    "attributes": lambda weight: (weight.grad.shape, weight.grad.requires_grad, weight.grad.is_leaf) and weight.grad,
    "detached": lambda weight: weight.grad.detach(),
    "copied": lambda weight: copy.deepcopy(weight).grad,
    "pickled": lambda weight: pickle.loads(pickle.dumps(weight)).grad,
    "moved": lambda weight: weight.to("numpy").grad,
    "clipped again": lambda weight: clip_grad_norm([weight], 9.0) and weight.grad,
}


@pytest.mark.parametrize("way", CLIPPED.values(), ids=CLIPPED)
def test_a_clipped_gradient_is_a_tensor_like_others(way, backend):
    """However one comes to it; and an optimizer steps by the product, not by the product times the factor."""
    weight = Parameter(np.zeros(2))
    weight.grad = Tensor(np.array([30.0, 40.0]))
    clip_grad_norm([weight], 5.0)
    found = way(weight)
    np.testing.assert_allclose(found.numpy(), [3.0, 4.0], **CLOSE)
    array, factor = gradient_and_factor(found)
    np.testing.assert_allclose(found.backend.to_numpy(array) * factor, [3.0, 4.0], **CLOSE)
    with pytest.raises(AttributeError, match="no 'nonsense'"):
        weight.grad.nonsense  # noqa: B018 - the question is the test
    with pytest.raises(ValueError, match="read-only"):
        weight.grad.data *= 2


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_norm_that_is_no_number_is_shown(bad):
    a, b = Parameter(np.zeros(2)), Parameter(np.zeros(2))
    a.grad, b.grad = Tensor(np.array([3.0, bad])), Tensor(np.ones(2))
    assert not math.isfinite(clip_grad_norm([a, b], 1.0))
    assert b.grad.numpy().tolist() == [1.0, 1.0]


def test_norm_of_float32_does_not_overflow():
    a = Parameter(np.zeros(4, np.float32))
    a.grad = Tensor(np.full(4, 1e30, np.float32))
    assert clip_grad_norm([a], 1.0) == pytest.approx(2e30)
    np.testing.assert_allclose(a.grad.numpy(), 0.5, rtol=1e-6)  # one rounding of float32 in the factor, one after


def test_schedules():
    assert [optim.constant()(s) for s in (1, 1000)] == [1.0, 1.0]
    cosine = optim.warmup_cosine(4, 12, floor=0.1)
    assert [cosine(s) for s in (1, 2, 4)] == [0.25, 0.5, 1.0]
    assert cosine(8) == pytest.approx(0.55) and cosine(12) == pytest.approx(0.1) and cosine(99) == pytest.approx(0.1)
    root = optim.inverse_square_root(4)
    assert [root(s) for s in (1, 4, 16, 64)] == [0.25, 1.0, 0.5, 0.25]
    for step in range(1, 40):  # the paper: C^-½ min(step^-½, step · warmup^-3/2), here divided by its peak
        paper = min(step**-0.5, step * 4**-1.5)
        assert root(step) == pytest.approx(paper * 2, rel=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        lambda p: Adam([]),
        lambda p: Adam(p, lr=-1),
        lambda p: Adam(p, betas=(1.0, 0.9)),
        lambda p: SGD(p, momentum=1.0),
        lambda p: AdamW(p, weight_decay=math.nan),
        lambda p: clip_grad_norm(p, 0.0),
        lambda p: optim.warmup_cosine(5, 5),
        lambda p: optim.inverse_square_root(0),
    ],
)
def test_nonsense_is_refused(call):
    with pytest.raises(ValueError):
        call([Parameter(np.ones(1))])


def test_clipping_before_adam_writes_no_second_gradient(monkeypatch, backend):
    """The factor travels with the gradient, and the kernel multiplies: no pass over all gradients, no second array."""
    weight = Parameter(np.ones((3, 2), np.float32))
    (weight * 5).sum().backward()
    optimizer, gradient = Adam([weight]), weight.grad
    monkeypatch.setattr(weight.backend, "multiply", None)  # whoever calls it now fails
    clip_grad_norm([weight], 1.0)
    optimizer.step()
    array, factor = gradient_and_factor(weight.grad)
    assert array is gradient.array and factor < 1


def test_an_optimizer_shows_what_it_does():
    weight = Tensor(np.ones((2, 3), dtype="float32"), requires_grad=True)
    optimizer = Adam([weight], lr=3e-4)
    weight.sum().backward()
    optimizer.step()
    assert repr(optimizer) == "Adam(lr=0.0003, weight_decay=0): 6 numbers in 1 arrays, step 1"
