"""One new word for each row through a language model.

It is what `model.base(words[:, None], cache=cache)` computes, up to rounding. But one word is little work, a few
microseconds for most kernels, and the Tensors that stand around them in the layers, ready for a gradient that nobody
will ask for, would take longer than the work. So here arrays are handed on directly, and turning, keeping and attending
are one kernel.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer.config import GATED
from minitransformer.decoding.cache import Cache, LayerCache
from minitransformer.layers import EncoderLayer, LayerNorm, RMSNorm
from minitransformer.models import LanguageModel
from minitransformer.quantised import QuantisedWeight


def read_word(model: LanguageModel, words: np.ndarray, cache: Cache) -> Any:
    """Reads the next word of each row; its keys and values join the cache.   words (B) → array (B, C)"""
    kernels = model.backend
    x = model.base.embedding(words[:, None], cache.lengths).array.reshape(len(words), -1)
    lengths = kernels.asarray(cache.lengths)
    for layer, kept in zip(model.base.encoder.layers, cache.layers, strict=True):
        assert isinstance(layer, EncoderLayer)

        def attend(x: Any, attention: Any = layer.self_attn, kept: Any = kept) -> Any:
            return _attention(kernels, x, attention, kept, lengths)

        def feed(x: Any, layer: Any = layer) -> Any:
            return _feed_forward(kernels, x, layer)

        x = _residual(kernels, x, layer.norm1, layer.norm_first, attend)
        x = _residual(kernels, x, layer.norm2, layer.norm_first, feed)
    last = model.base.encoder.norm
    return x if last is None else _normed(kernels, x, last)


def _residual(kernels: Any, x: Any, norm: Any, norm_first: bool, sublayer: Callable[[Any], Any]) -> Any:
    if norm_first:
        return x + sublayer(_normed(kernels, x, norm))
    return _normed(kernels, x + sublayer(x), norm)


def _normed(kernels: Any, x: Any, norm: LayerNorm | RMSNorm) -> Any:
    if isinstance(norm, RMSNorm):
        return kernels.rms_norm(x, norm.weight.array, norm.eps)[0]
    return kernels.layer_norm(x, norm.weight.array, norm.bias.array, norm.eps)[0]


def _product(kernels: Any, x: Any, weight: Any, bias: Any) -> Any:
    """x weightᵀ + bias.   x (B, C) → (B, F)"""
    if not isinstance(weight, QuantisedWeight):
        return kernels.linear(x, weight.array, _numbers(bias))
    y = kernels.quantised_linear(x, weight.array, weight.kind)
    return y if bias is None else y + bias.array


def _numbers(bias: Any) -> Any:
    return None if bias is None else bias.array


def _attention(kernels: Any, x: Any, layer: Any, kept: LayerCache, lengths: Any) -> Any:
    """x (B, C) → (B, C)"""
    (B, C), D = x.shape, x.shape[1] // layer.num_heads
    heads = _product(kernels, x, layer.in_proj_weight, layer.in_proj_bias).reshape(B, layer.ends[-1], D)
    assert kept.own is not None
    keys, values = (tensor.writable() for tensor in kept.own)
    seen = kernels.attend_word(heads, keys, values, lengths, layer.rotary_base, D**-0.5)
    return _product(kernels, seen.reshape(B, C), layer.out_proj.weight, layer.out_proj.bias)


def _feed_forward(kernels: Any, x: Any, layer: EncoderLayer) -> Any:
    """x (B, C) → (B, C)"""
    gate, first, second = layer.gate, layer.linear1, layer.linear2
    parts = [part for part in (gate, first, second) if part is not None]
    quantised = any(isinstance(part.weight, QuantisedWeight) for part in parts)
    name = GATED.get(layer.activation, layer.activation)
    kind = layer.quantised_as()
    if kind is not None:
        weights = [part.weight.array for part in parts]
        return kernels.quantised_gated_feed_forward(x, *weights, kind, name)
    if not quantised and (gate is not None or first.bias is not None):
        arrays = [array for part in parts for array in (part.weight.array, _numbers(part.bias))]
        return (kernels.feed_forward if gate is None else kernels.gated_feed_forward)(x, *arrays, name)[0]
    opened = _product(kernels, x, first.weight, first.bias)
    if gate is None:
        opened = getattr(kernels, name)(opened)
    else:
        gates = getattr(kernels, name)(_product(kernels, x, gate.weight, gate.bias))
        opened = kernels.multiply(gates, opened)
    return _product(kernels, opened, second.weight, second.bias)
