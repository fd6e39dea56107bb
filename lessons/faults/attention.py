"""Attention computes something else than it should: its scores, its weights, or what they are taken of."""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.harness.engine import Engine


def scale_off(engine: Engine) -> None:
    """scores are not divided by the root of D"""

    def change(attention):
        return lambda q, k, v, **options: attention(q, k, v, **{"scale": 1.0} | options)

    engine.replace(F, "attention", change)


def scale_by_d(engine: Engine) -> None:
    """scores are divided by D instead of its root"""

    def change(attention):
        return lambda q, k, v, **options: attention(q, k, v, **{"scale": 1 / q.shape[-1]} | options)

    engine.replace(F, "attention", change)


def softmax_over_queries(engine: Engine) -> None:
    """the softmax runs along the wrong axis: the weights of a key sum to one, not those of a query"""

    def wrong_axis(q, k, v, scale=None, **_):
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        return F.softmax(q @ k.swapaxes(-1, -2) * scale, axis=-2) @ v

    engine.replace(F, "attention", lambda _: wrong_axis)


def keys_as_values(engine: Engine) -> None:
    """the average is taken of the keys, not of the values"""
    engine.replace(F, "attention", lambda attention: lambda q, k, v, **o: attention(q, k, k + 0 * v, **o))


def question_ignored(engine: Engine) -> None:
    """attention does not look at its queries: all weights are equal"""
    engine.replace(F, "attention", lambda attention: lambda q, k, v, **o: attention(q * 0, k, v, **o))


def early_keys_preferred(engine: Engine) -> None:
    """attention counts the values of early keys more than those of late ones"""

    def change(attention):
        def run(q, k, v, **options):
            return attention(q, k, v * Tensor(np.linspace(1.1, 0.9, v.shape[2], dtype=v.dtype)[:, None]), **options)

        return run

    engine.replace(F, "attention", change)


def one_key_after_another(engine: Engine) -> None:
    """attention walks along the keys, each sum waiting for the one before"""

    def walking(q, k, v, **_):
        total, norm = v[:, :, :1] * 0, q[..., :1] * 0
        for s in range(k.shape[2]):
            weight = F.exp(F.sum(q * k[:, :, s : s + 1], axis=-1, keepdims=True) * q.shape[-1] ** -0.5)
            total, norm = total + weight * v[:, :, s : s + 1], norm + weight
        return total / norm

    engine.replace(F, "attention", lambda _: walking)


def rule_without_sum(engine: Engine) -> None:
    """the derivative rule forgets that the weights of a row sum to one"""

    def backward(self, dout):
        q, k, v, out, lse = self.saved
        return self.kernels.attention_backward(dout, q, k, v, 0 * out, lse, *self.options)

    engine.replace(F.Attention, "backward", lambda _: backward)
