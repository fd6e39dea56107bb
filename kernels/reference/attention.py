"""Scaled dot-product attention: out = softmax(scale · q kᵀ) v, with masks as absent keys rather than large negatives.

Key s is visible to query t when s < key_lengths[b] and, if causal, s ≤ t + query_offset. A query that sees no key
gives a row of zeros, passes no gradient, and has lse = -inf: the softmax over an empty set is taken as nothing.
Dropout acts on the probabilities (after the softmax), with the mask of dropout.attention_keep. What stands behind
key_lengths is never read. A hidden later key is read with weight 0, so that finite numbers there change nothing; NaN
or infinity there may reach earlier queries, since 0 · NaN is NaN.

G key-value heads serve H query heads, G dividing H: head h reads keys and values of group h // (H/G). To its keys, a
group of heads is nothing but H/G times as many queries (`by_group`), so that no key is ever repeated, and a product
that sums over queries, as those of dk and dv do, sums over the heads of the group as well.
"""

import numpy as np

from kernels.reference.dropout import attention_keep


def visible(shape, mask):
    """True where query t may look at key s; shape (B, H, T, S)."""
    B, _, T, S = shape
    t, s = np.arange(T)[:, None], np.arange(S)
    seen = np.ones(shape, dtype=bool)
    if mask.key_lengths is not None:
        seen &= s < np.asarray(mask.key_lengths).reshape(B, 1, 1, 1)
    if mask.is_causal:
        seen &= s <= t + min(mask.query_offset, S)
    return seen


def without_padding(x, key_lengths):
    """Zeros in place of keys or values that do not exist: whatever stands there, 0 · NaN included, must not matter."""
    if key_lengths is None:
        return x
    exists = np.arange(x.shape[2]) < np.asarray(key_lengths)[:, None]
    return np.where(exists[:, None, :, None], x, x.dtype.type(0))


def by_group(x, G):
    """The heads of a group one below the other.   x (B, H, T, n) → (B, G, H/G · T, n)"""
    return x.reshape(len(x), G, -1, x.shape[-1])


def times(x, y):
    """x yᵀ for each head and the keys or values of its group.   x (B, H, T, D); y (B, G, S, D) → (B, H, T, S)"""
    return (by_group(x, y.shape[1]) @ y.swapaxes(-1, -2)).reshape(*x.shape[:3], y.shape[2])


def scores(q, k, mask, scale):
    """scale · q kᵀ with -inf at what cannot be seen; (B, H, T, S)."""
    s = times(q, k) * q.dtype.type(scale)
    return np.where(visible(s.shape, mask), s, -np.inf).astype(q.dtype)


def exp_shifted(s, shift):
    """exp(s - shift), 0 where s = -inf, also in rows that are -inf throughout (there -inf - -inf would be NaN)."""
    return np.exp(s - np.where(np.isneginf(shift), 0, shift)[..., None])


def attention(q, k, v, mask, scale, dropout):
    """q (B, H, T, D); k, v (B, G, S, D) → out (B, H, T, D), lse (B, H, T) = log Σ_s exp(score)"""
    k, v = without_padding(k, mask.key_lengths), without_padding(v, mask.key_lengths)
    s = scores(q, k, mask, scale)
    top = s.max(axis=-1)
    total = exp_shifted(s, top).sum(axis=-1)
    with np.errstate(divide="ignore"):  # log 0 = -inf is what an empty row means
        lse = np.where(total > 0, top, 0).astype(q.dtype) + np.log(total)
    p = exp_shifted(s, lse)
    p = p * attention_keep(p.shape, dropout.p, dropout.seed, p.dtype)
    return (by_group(p, v.shape[1]) @ v).reshape(q.shape), lse


def attention_backward(dout, q, k, v, out, lse, mask, scale, dropout):
    """With p the probabilities and z the dropout factors (0 or 1/(1-p)):
    dv = (p z)ᵀ dout;  dp = z · dout vᵀ;  ds = p (dp - Σ_s p dp);  dq = scale · ds k;  dk = scale · dsᵀ q.
    Σ_s p dp equals Σ_d dout out, which is why forward's out is among the arguments."""
    scale, G = q.dtype.type(scale), k.shape[1]
    k, v = without_padding(k, mask.key_lengths), without_padding(v, mask.key_lengths)
    p = exp_shifted(scores(q, k, mask, scale), lse)
    z = attention_keep(p.shape, dropout.p, dropout.seed, p.dtype)
    dv = by_group(p * z, G).swapaxes(-1, -2) @ by_group(dout, G)
    dp = z * times(dout, v)
    ds = p * (dp - (dout * out).sum(axis=-1, keepdims=True))
    dq = scale * (by_group(ds, G) @ k).reshape(q.shape)
    dk = scale * (by_group(ds, G).swapaxes(-1, -2) @ by_group(q, G))
    return dq, dk, dv
