"""What people type who know PyTorch: the same values, a gradient that is checked, and a word where it stays out."""

import numpy as np
import pytest

import autograd
import autograd.functional as F
from autograd import Tensor, gradcheck


def leaf(*shape, seed=0):
    return Tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=True)


METHODS = {
    "view": (lambda x: x.view(6, -1), lambda a: a.reshape(6, 4)),
    "permute": (lambda x: x.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "transpose of two axes": (lambda x: x.transpose(1, 2), lambda a: a.swapaxes(1, 2)),
    "transpose of all axes": (lambda x: x.transpose(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "unsqueeze": (lambda x: x.unsqueeze(-1).unsqueeze(1), lambda a: a[:, None, :, :, None]),
    "squeeze": (lambda x: x[:1, :, :1].squeeze(), lambda a: a[0, :, 0]),
    "squeeze of one axis": (lambda x: x[:1, :, :1].squeeze(0), lambda a: a[0, :, :1]),
    "squeeze of a longer axis": (lambda x: x.squeeze(1), lambda a: a),
    "flatten": (lambda x: x.flatten(1), lambda a: a.reshape(2, 12)),
    "flatten of one number": (lambda x: x.sum().flatten(), lambda a: a.sum().reshape(1)),
    "clone": (lambda x: x.clone(), lambda a: a.copy()),
    "masked_fill": (lambda x: x.masked_fill(np.eye(3, 4) > 0, 7.0), lambda a: np.where(np.eye(3, 4) > 0, 7.0, a)),
    "abs": (lambda x: x.abs(), np.abs),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), lambda a: a.clip(-0.5, 0.5)),
    "clamp from above": (lambda x: x.clamp(max=0.1), lambda a: a.clip(None, 0.1)),
    "std": (lambda x: x.std(dim=-1), lambda a: a.std(axis=-1)),
    "std, corrected": (lambda x: x.std(1, correction=1), lambda a: a.std(axis=1, ddof=1)),
    "min": (lambda x: x.min(dim=0), lambda a: a.min(axis=0)),
    "softmax": (lambda x: x.softmax(dim=1), lambda a: np.exp(a) / np.exp(a).sum(axis=1, keepdims=True)),
    "log_softmax": (lambda x: x.log_softmax(-1), lambda a: a - np.log(np.exp(a).sum(axis=-1, keepdims=True))),
    "sum with keepdim": (lambda x: x.sum(dim=1, keepdim=True), lambda a: a.sum(axis=1, keepdims=True)),
    "mean with dim": (lambda x: x.mean(dim=(0, 2)), lambda a: a.mean(axis=(0, 2))),
    "max with dim": (lambda x: x.max(dim=1), lambda a: a.max(axis=1)),
    "cat": (lambda x: F.cat([x, x], dim=1), lambda a: np.concatenate([a, a], axis=1)),
    "stack": (lambda x: F.stack([x, x * x], dim=-1), lambda a: np.stack([a, a * a], axis=-1)),
    "F.softmax with dim": (lambda x: F.softmax(x, dim=0), lambda a: np.exp(a) / np.exp(a).sum(axis=0)),
    "mse_loss": (lambda x: F.mse_loss(x, np.ones((2, 3, 4))), lambda a: ((a - 1) ** 2).mean()),
}


@pytest.mark.parametrize("name", METHODS)
def test_the_values_are_numpys_and_the_gradient_is_right(backend, name):
    ours, theirs = METHODS[name]
    x = leaf(2, 3, 4)
    result = ours(x)
    expected = theirs(x.numpy().copy())
    assert result.shape == np.shape(expected)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-13, atol=1e-15)  # a few roundings of numbers near 1
    gradcheck(ours, x)


def test_two_axes_of_a_matrix_are_swapped():
    """In NumPy transpose(0, 1) of a matrix does nothing, and nobody writes that; in PyTorch it transposes."""
    x = leaf(2, 3)
    assert x.transpose(0, 1).shape == x.transpose(1, 0).shape == x.T.shape == x.transpose().shape == (3, 2)
    assert x.transpose((0, 1)).shape == (2, 3)


def test_what_needs_no_gradient():
    x = leaf(2, 3)
    assert (x.dim(), x.numel(), x.device) == (2, 6, autograd.zeros(1).backend.name)
    assert x.tolist() == x.numpy().tolist()
    assert x.argmax(dim=1).tolist() == x.numpy().argmax(axis=1).tolist()
    assert x.argmax().item() == x.numpy().argmax() and not x.argmax().requires_grad
    assert x.clamp(min=float("nan")).shape == x.shape
    assert np.isnan(Tensor([np.nan, 1.0]).clamp(0, 1).numpy()).tolist() == [True, False]


def test_a_clone_shares_nothing(backend):
    x = leaf(3)
    copy = x.detach().clone()
    copy.data[...] = 0
    assert (x.numpy() != 0).all()


def test_made_from_a_shape(backend):
    assert autograd.zeros(2, 3).numpy().tolist() == [[0] * 3] * 2
    assert autograd.ones((2,), dtype="float64", requires_grad=True).dtype == np.float64
    autograd.manual_seed(3)
    first, second = autograd.randn(2, 3, requires_grad=True), autograd.randn(2, 3)
    autograd.manual_seed(3)
    again = autograd.randn((2, 3))
    assert first.numpy().tolist() == again.numpy().tolist() != second.numpy().tolist()
    assert first.requires_grad and first.dtype == np.float32 and first.backend is backend


@pytest.mark.parametrize(
    "name, instead", [("cuda", 'x.to("cupy")'), ("t", "x.T"), ("bmm", "a @ b"), ("add_", "x.add(...)")]
)
def test_a_name_that_stays_out_is_answered_with_ours(name, instead):
    with pytest.raises(AttributeError, match=f"no '{name}'") as error:
        getattr(leaf(2), name)
    assert instead in str(error.value)
    assert not hasattr(leaf(2), "no_such_thing")


def test_words_for_one_thing_are_not_given_twice():
    with pytest.raises(TypeError, match="dim and axis mean the same"):
        leaf(2, 3).sum(axis=0, dim=1)


def test_the_wrong_order_of_an_embedding_is_said():
    with pytest.raises(TypeError, match=r"F.embedding\(weight, ids\)"):
        F.embedding(np.array([1, 2]), np.ones((3, 4), dtype=np.float32))


MASKS = {
    "booleans": np.random.default_rng(1).random((5, 6)) < 0.6,
    "a mask for each text": np.random.default_rng(2).random((2, 1, 5, 6)) < 0.5,
    "numbers": np.random.default_rng(3).standard_normal((5, 6)),
    "numbers with -inf": np.where(np.tri(5, 6, 1) > 0, 0.25, -np.inf),
}


@pytest.mark.parametrize("name", MASKS)
def test_attention_with_a_mask_of_ones_own(backend, name):
    mask = MASKS[name]
    q, k, v = leaf(2, 3, 5, 4, seed=1), leaf(2, 3, 6, 4, seed=2), leaf(2, 3, 6, 4, seed=3)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).numpy()
    scores = q.numpy() @ k.numpy().swapaxes(-1, -2) / 2
    scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    with np.errstate(invalid="ignore"):
        weights = np.nan_to_num(np.exp(scores - np.maximum(scores.max(axis=-1, keepdims=True), -1e300)))
        weights = np.nan_to_num(weights / weights.sum(axis=-1, keepdims=True))
    np.testing.assert_allclose(out, weights @ v.numpy(), rtol=1e-12, atol=1e-14)  # sums of six terms near 1
    gradcheck(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask), (q, k, v), full_jacobian=0)


def test_attention_without_a_mask_is_the_fused_one(backend):
    q, k, v = (leaf(1, 2, 5, 4, seed=n) for n in range(3))
    ours = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert ours.node.name == "Attention"
    with pytest.raises(ValueError, match="not both"):
        F.scaled_dot_product_attention(q, k, v, attn_mask=np.ones((5, 5), bool), is_causal=True)


def test_a_mask_of_ones_own_with_shared_keys(rng):
    """Four heads on two: what attention gives with the same mask; and PyTorch wants enable_gqa to be said."""
    q, (k, v) = rng.standard_normal((2, 4, 5, 3)), rng.standard_normal((2, 2, 2, 5, 3))
    mask = np.tril(np.ones((5, 5), bool))
    ours = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    # five weighted values each, the softmax taken in two ways
    np.testing.assert_allclose(ours.numpy(), F.attention(q, k, v, is_causal=True).numpy(), rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match="4 heads of queries, 2 of keys.*enable_gqa=True"):
        F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
