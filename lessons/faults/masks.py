"""Who may look at whom: masks that are missing, misplaced, or too strict."""

import numpy as np

import autograd.functional as F
import kernels
from autograd import Tensor
from lessons.harness.engine import Engine
from minitransformer.layers import EncoderLayer, MultiheadAttention


def scores_of(q, k):
    """Scaled scores (B, H, T, S), and how far key s lies behind query t (T, S)."""
    T, S = q.shape[2], k.shape[2]
    return q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5, np.arange(T)[:, None] - np.arange(S)


def masked_softmax(scores, visible, stand_in=-np.inf):
    """The softmax of the scores (B, H, T, S) with `stand_in` in place of what must not be seen."""
    hidden = Tensor(np.full(scores.shape, stand_in, dtype=scores.dtype), backend=scores.backend)
    return F.softmax(F.where(np.broadcast_to(visible, scores.shape), scores, hidden))


def _always(engine: Engine, **options) -> None:
    """Attention is told these options, whatever was asked for."""
    engine.replace(F, "attention", lambda attention: lambda q, k, v, **o: attention(q, k, v, **o | options))


def mask_off(engine: Engine) -> None:
    """attention ignores the causal mask"""
    _always(engine, is_causal=False)


def causal_forced(engine: Engine) -> None:
    """attention is causal even where both sides should be seen"""
    _always(engine, is_causal=True)


def padding_seen(engine: Engine) -> None:
    """attention reads padding like words"""
    _always(engine, key_lengths=None)


def mask_after_softmax(engine: Engine) -> None:
    """later words get weight 0 after the softmax, whose sum they have entered already"""

    def change(attention):
        def run(q, k, v, is_causal=False, **options):
            if not is_causal:
                return attention(q, k, v, **options)
            scores, behind = scores_of(q, k)
            return (F.softmax(scores) * Tensor((behind >= 0).astype(q.dtype), backend=q.backend)) @ v

        return run

    engine.replace(F, "attention", change)


def one_too_many(engine: Engine) -> None:
    """the mask begins one column too late: each position sees the next one"""
    _always(engine, query_offset=1)


def short_sighted(engine: Engine) -> None:
    """each position sees itself and its neighbour, and nothing before"""

    def run(q, k, v, **_):
        scores, behind = scores_of(q, k)
        return masked_softmax(scores, (behind >= 0) & (behind <= 1)) @ v

    engine.replace(F, "attention", lambda _: run)


def diagonal_hidden(engine: Engine) -> None:
    """a position cannot attend to itself"""

    def run(q, k, v, **_):
        scores, behind = scores_of(q, k)
        some_key = behind == behind.min()  # for row 0, whose result is then thrown away, to keep 0/0 out
        rows = Tensor((np.arange(q.shape[2]) > 0).astype(q.dtype)[:, None])
        return masked_softmax(scores, (behind > 0) | some_key) @ v * rows

    engine.replace(F, "attention", lambda _: run)


def empty_row_answered(engine: Engine) -> None:
    """the softmax of nothing but minus infinity gives equal weights"""

    def change(softmax):
        return lambda x: np.where(np.isneginf(x).all(axis=1, keepdims=True), 1 / x.shape[1], softmax(x))

    engine.replace(kernels.current(), "softmax", change)


def encoder_masked(engine: Engine) -> None:
    """the encoder cannot look ahead in the source"""
    engine.replace(EncoderLayer, "forward", lambda f: lambda self, x, **o: f(self, x, **o | {"is_causal": True}))


def _across(engine: Engine, change) -> None:
    """Breaks attention to the encoder's output, and leaves self-attention alone."""

    def forward(original):
        def run(self, x, memory=None, **options):
            return original(self, x, **options) if memory is None else change(original, self, x, memory, options)

        return run

    engine.replace(MultiheadAttention, "forward", forward)


def cross_masked(engine: Engine) -> None:
    """the decoder sees the source only as far as it has written itself"""
    _across(engine, lambda f, self, x, memory, o: f(self, x, memory, **o | {"is_causal": True}))


def cross_off(engine: Engine) -> None:
    """the decoder never looks at the source"""
    _across(engine, lambda f, self, x, memory, o: f(self, x, memory, **o) * 0.0)
