"""Every function that PyTorch has too: the same values and the same gradients, in float64 and float32."""

import math
from functools import partial

import numpy as np
import pytest

import autograd.functional as F
from autograd import Tensor

pytestmark = pytest.mark.oracle
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-oracles installs it")

rng = np.random.default_rng(3)
A, B, C = (rng.standard_normal(shape) for shape in ((5, 7), (5, 7), (7, 5)))
POSITIVE = rng.uniform(0.2, 3.0, (5, 7))
Q, K, V = (rng.standard_normal((3, 2, n, 9)) for n in (65, 70, 70))
MANY = rng.standard_normal((3, 6, 65, 9))  # six heads of queries for two of keys
WEIGHT, BIAS, NARROW = rng.standard_normal((4, 7)), rng.standard_normal(4), rng.standard_normal(7)
W1, B1, W2, B2 = (rng.standard_normal(s) for s in ((11, 7), (11,), (7, 11), (7,)))
W3 = rng.standard_normal((11, 7))
IDS = rng.integers(0, 5, (4, 6))
TARGETS = rng.integers(0, 7, 5)
IGNORING = np.array([1, 6, 1, 0, 3])
LENGTHS = np.array([70, 3, 41])
EVEN = rng.standard_normal((3, 2, 65, 8))
OWN_POSITIONS = np.array([[0], [17], [900]]) + np.arange(65)
functional = torch.nn.functional


def masked(q, k, v, **options):
    """PyTorch wants the mask spelt out."""
    return functional.scaled_dot_product_attention(
        q, k, v, attn_mask=torch.tensor(np.arange(70) < LENGTHS[:, None, None, None]), **options
    )


def gated(activation):
    return lambda x, gate, b_gate, up, b_up, down, b_down: F.gated_feed_forward(
        x, gate, up, down, activation, b_gate=b_gate, b_up=b_up, b_down=b_down
    )


def gated_peer(activation):
    def layer(x, gate, b_gate, up, b_up, down, b_down):
        hidden = activation(functional.linear(x, gate, b_gate)) * functional.linear(x, up, b_up)
        return functional.linear(hidden, down, b_down)

    return layer


sharing = partial(functional.scaled_dot_product_attention, enable_gqa=True)


def turns(positions, base):
    """(B or 1, 1, T, D/2) angles"""
    positions = torch.tensor(np.atleast_2d(positions), dtype=torch.float64)
    frequencies = torch.exp(torch.arange(4, dtype=torch.float64) * (-math.log(base) / 4))
    return (positions[..., None] * frequencies)[:, None]


def as_complex_numbers(x, positions, base=10000.0):
    """A pair of columns is a complex number, and a turn is a product with one."""
    angles = turns(positions, base)
    numbers = torch.view_as_complex(x.unflatten(-1, (4, 2)).contiguous())
    turned = numbers * torch.polar(torch.ones_like(angles), angles).to(numbers.dtype)
    return torch.view_as_real(turned).flatten(-2)


def in_halves(x, positions, base=10000.0):
    """As Llama's code in PyTorch has it: the angles twice, and the halves of x exchanged."""
    angles = turns(positions, base)
    cos, sin = (torch.cat([f(angles), f(angles)], -1).to(x.dtype) for f in (torch.cos, torch.sin))
    return x * cos + torch.cat([-x[..., 4:], x[..., :4]], -1) * sin


CASES = {
    "add": ([A, B[0]], lambda a, b: a + b, None),
    "subtract": ([A, B[:, :1]], lambda a, b: a - b, None),
    "multiply": ([A, B], lambda a, b: a * b, None),
    "divide": ([A, POSITIVE], lambda a, b: a / b, None),
    "power": ([POSITIVE, B], lambda a, b: a**b, None),
    "power of a number": ([A], lambda a: a**3, None),
    "matmul": ([A, C], lambda a, c: a @ c, None),
    "exp": ([A], F.exp, torch.exp),
    "log": ([POSITIVE], F.log, torch.log),
    "sqrt": ([POSITIVE], F.sqrt, torch.sqrt),
    "tanh": ([A], F.tanh, torch.tanh),
    "sigmoid": ([A], F.sigmoid, torch.sigmoid),
    "relu": ([A], F.relu, functional.relu),
    "gelu": ([A], F.gelu, functional.gelu),
    "gelu, tanh form": ([4 * A], lambda a: F.gelu(a, approximate="tanh"),
        lambda a: functional.gelu(a, approximate="tanh")),
    "silu": ([4 * A], F.silu, functional.silu),
    "abs": ([A], abs, abs),
    "sum": ([A], lambda a: a.sum(axis=1), lambda a: a.sum(dim=1)),
    "mean": ([A], lambda a: a.mean(axis=0), lambda a: a.mean(dim=0)),
    "var": ([A], lambda a: a.var(axis=1, correction=1), lambda a: a.var(dim=1)),
    "max": ([A], lambda a: a.max(axis=1), lambda a: a.amax(dim=1)),
    "max with ties": ([np.round(A)], lambda a: a.max(axis=1), lambda a: a.amax(dim=1)),
    "where": ([A, B], lambda a, b: F.where(A > 0, a, b), lambda a, b: torch.where(torch.tensor(A > 0), a, b)),
    "index": ([A], lambda a: a[[0, 0, 3], 1:], lambda a: a[[0, 0, 3], 1:]),
    "transpose": ([A], lambda a: a.T, lambda a: a.T),
    "concatenate": ([A, B], lambda a, b: F.concatenate([a, b], 1), lambda a, b: torch.cat([a, b], 1)),
    "stack": ([A, B], lambda a, b: F.stack([a, b], 1), lambda a, b: torch.stack([a, b], 1)),
    "softmax": ([A], F.softmax, lambda a: functional.softmax(a, -1)),
    "softmax, first axis": ([A], lambda a: F.softmax(a, 0), lambda a: functional.softmax(a, 0)),
    "log_softmax": ([A], F.log_softmax, lambda a: functional.log_softmax(a, -1)),
    "linear": ([A, WEIGHT, BIAS], F.linear, functional.linear),
    "layer_norm": ([A, NARROW, B[0]], F.layer_norm, lambda a, w, b: functional.layer_norm(a, (7,), w, b)),
    "rms_norm": ([A, NARROW], F.rms_norm, lambda a, w: functional.rms_norm(a, (7,), w, eps=1e-5)),
    "rms_norm, large eps": ([A, NARROW], lambda a, w: F.rms_norm(a, w, eps=0.5),
        lambda a, w: functional.rms_norm(a, (7,), w, eps=0.5)),
    "rotary": ([EVEN], lambda x: F.rotary(x, np.arange(65)), lambda x: as_complex_numbers(x, np.arange(65))),
    "rotary, each at its own positions": ([EVEN], lambda x: F.rotary(x, OWN_POSITIONS, base=500.0),
        lambda x: as_complex_numbers(x, OWN_POSITIONS, 500.0)),
    "rotary, halves": ([EVEN], lambda x: F.rotary(x, OWN_POSITIONS, interleaved=False),
        lambda x: in_halves(x, OWN_POSITIONS)),
    "feed_forward relu": ([A, W1, B1, W2, B2], F.feed_forward,
        lambda a, w1, b1, w2, b2: functional.linear(functional.relu(functional.linear(a, w1, b1)), w2, b2)),
    "feed_forward gelu": ([A, W1, B1, W2, B2], lambda *a: F.feed_forward(*a, activation="gelu"),
        lambda a, w1, b1, w2, b2: functional.linear(functional.gelu(functional.linear(a, w1, b1)), w2, b2)),
    "feed_forward tanh": ([A, W1, B1, W2, B2], lambda *a: F.feed_forward(*a, activation="tanh"),
        lambda a, w1, b1, w2, b2: functional.linear(torch.tanh(functional.linear(a, w1, b1)), w2, b2)),
    "feed_forward gelu_tanh": ([A, W1, B1, W2, B2], lambda *a: F.feed_forward(*a, activation="gelu_tanh"),
        lambda a, w1, b1, w2, b2: functional.linear(
            functional.gelu(functional.linear(a, w1, b1), approximate="tanh"), w2, b2)),
    "gated_feed_forward silu": ([A, W1, B1, W3, B1[::-1], W2, B2], gated("silu"), gated_peer(functional.silu)),
    "gated_feed_forward gelu": ([A, W1, B1, W3, B1[::-1], W2, B2], gated("gelu"), gated_peer(functional.gelu)),
    "gated_feed_forward, no bias": ([A, W1, W3, W2], F.gated_feed_forward,
        lambda a, gate, up, down: gated_peer(functional.silu)(a, gate, None, up, None, down, None)),
    "embedding": ([A], lambda w: F.embedding(w, IDS), lambda w: functional.embedding(torch.tensor(IDS), w)),
    "cross_entropy": ([A], lambda a: F.cross_entropy(a, TARGETS),
        lambda a: functional.cross_entropy(a, torch.tensor(TARGETS))),
    "cross_entropy ignoring": ([A], lambda a: F.cross_entropy(a, IGNORING, ignore_index=1),
        lambda a: functional.cross_entropy(a, torch.tensor(IGNORING), ignore_index=1)),
    "cross_entropy smoothed": ([A], lambda a: F.cross_entropy(a, IGNORING, 1, label_smoothing=0.1),
        lambda a: functional.cross_entropy(a, torch.tensor(IGNORING), ignore_index=1, label_smoothing=0.1)),
    "linear_cross_entropy": ([A, W1[:7], B2], lambda a, w, b: F.linear_cross_entropy(a, w, b, IGNORING, 1),
        lambda a, w, b: functional.cross_entropy(functional.linear(a, w, b), torch.tensor(IGNORING), ignore_index=1)),
    "attention": ([Q, K, V], F.attention, functional.scaled_dot_product_attention),
    "attention, causal": ([Q, K, V], lambda q, k, v: F.attention(q, k, v, is_causal=True),
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True)),
    "attention, key lengths": ([Q, K, V], lambda q, k, v: F.attention(q, k, v, key_lengths=LENGTHS), masked),
    "attention, groups": ([MANY, K, V], F.attention, sharing),
    "attention, groups, causal": ([MANY, K, V], lambda q, k, v: F.attention(q, k, v, is_causal=True),
        lambda q, k, v: sharing(q, k, v, is_causal=True)),
    "attention, groups, key lengths": ([MANY, K, V], lambda q, k, v: F.attention(q, k, v, key_lengths=LENGTHS),
        lambda q, k, v: masked(q, k, v, enable_gqa=True)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(backend, name, dtype):
    arrays, ours, theirs = CASES[name]
    arrays = [a.astype(dtype) for a in arrays]
    tensors = [Tensor(a.copy(), requires_grad=True) for a in arrays]
    peers = [torch.tensor(a, requires_grad=True) for a in arrays]
    result, expected = ours(*tensors), (theirs or ours)(*peers)
    upstream = np.cos(np.arange(result.size)).reshape(result.shape).astype(dtype)
    result.backward(upstream)
    expected.backward(torch.tensor(upstream))
    # 200 units in the last place of the largest element: sums of up to 70 · 9 terms in two different orders
    units = 200 * np.finfo(dtype).eps
    pairs = [(result, expected.detach()), *((t.grad, p.grad) for t, p in zip(tensors, peers, strict=True))]
    for position, (mine, other) in enumerate(pairs):
        other = other.numpy()
        allowed = units * max(1.0, np.abs(other).max())
        assert np.abs(mine.numpy() - other).max() <= allowed, f"{name}: {'value' if position == 0 else position - 1}"


@pytest.mark.parametrize("decoupled", [False, True])
def test_adam(backend, decoupled):
    start = rng.standard_normal((4, 3))
    peer = torch.nn.Parameter(torch.tensor(start))
    options = {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}
    optimizer = (torch.optim.AdamW if decoupled else torch.optim.Adam)([peer], **options)
    param, m, v = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for step in range(1, 6):
        gradient = rng.standard_normal((4, 3))
        peer.grad = torch.tensor(gradient)
        optimizer.step()
        backend.adam(param, gradient, m, v, 0.01, 0.8, 0.95, 1e-6, 0.1, decoupled, step, 1.0)
    np.testing.assert_allclose(param, peer.detach().numpy(), rtol=1e-12)  # rounding of five steps
