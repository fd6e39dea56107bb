"""One new word for each row through a model of today's parts (rotary positions, RMS norm, a gate, no biases).

It is what `model.base(words[:, None], cache=cache)` computes, up to rounding. But one word is little work, a few
microseconds for most kernels, and the Tensors that stand around them in the layers, ready for a gradient that nobody
will ask for, would take longer than the work. So here arrays are handed on directly, and turning, keeping and attending
are one kernel.
"""

from typing import Any

import numpy as np

from minitransformer.config import GATED
from minitransformer.decoding.cache import Cache, LayerCache
from minitransformer.layers import EncoderLayer, MultiheadAttention, RMSNorm
from minitransformer.models import LanguageModel
from minitransformer.quantised import QuantisedWeight


def is_of_todays_parts(model: Any) -> bool:
    config = model.config
    return (
        isinstance(model, LanguageModel)
        and (config.norm, config.norm_first, config.positions, config.bias) == ("rms", True, "rotary", False)
        and config.activation in GATED
        and not config.norm_embedding
        and not config.scale_embedding
    )


def read_word(model: LanguageModel, words: np.ndarray, cache: Cache) -> Any:
    """Reads the next word of each row; its keys and values join the cache.   words (B) → array (B, C)"""
    kernels = model.backend
    x = model.base.embedding(words).array
    lengths = kernels.asarray(cache.lengths)
    for layer, kept in zip(model.base.encoder.layers, cache.layers, strict=True):
        assert isinstance(layer, EncoderLayer)
        x = x + _attention(kernels, _normed(kernels, x, layer.norm1), layer.self_attn, kept, lengths)
        x = x + _feed_forward(kernels, _normed(kernels, x, layer.norm2), layer)
    return _normed(kernels, x, model.base.encoder.norm)


def _normed(kernels: Any, x: Any, norm: Any) -> Any:
    assert isinstance(norm, RMSNorm)
    return kernels.rms_norm(x, norm.weight.array, norm.eps)[0]


def _product(kernels: Any, x: Any, weight: Any) -> Any:
    """x weightᵀ.   x (B, C) → (B, F)"""
    if isinstance(weight, QuantisedWeight):
        return kernels.quantised_linear(x, weight.array, weight.kind)
    return kernels.linear(x, weight.array, None)


def _attention(kernels: Any, x: Any, layer: MultiheadAttention, kept: LayerCache, lengths: Any) -> Any:
    """x (B, C) → (B, C)"""
    (B, C), D = x.shape, x.shape[1] // layer.num_heads
    heads = _product(kernels, x, layer.in_proj_weight).reshape(B, layer.ends[-1], D)
    assert kept.own is not None
    keys, values = (tensor.writable() for tensor in kept.own)
    seen = kernels.attend_word(heads, keys, values, lengths, layer.rotary_base, D**-0.5)
    return _product(kernels, seen.reshape(B, C), layer.out_proj.weight)


def _feed_forward(kernels: Any, x: Any, layer: EncoderLayer) -> Any:
    """x (B, C) → (B, C)"""
    assert layer.gate is not None
    gate, up, down = layer.gate.weight, layer.linear1.weight, layer.linear2.weight
    name = GATED[layer.activation]
    kind = layer.quantised_as()
    if kind is not None:
        return kernels.quantised_gated_feed_forward(x, gate.array, up.array, down.array, kind, name)
    if not any(isinstance(weight, QuantisedWeight) for weight in (gate, up, down)):
        return kernels.gated_feed_forward(x, gate.array, None, up.array, None, down.array, None, name)[0]
    opened = getattr(kernels, name)(_product(kernels, x, gate))
    return _product(kernels, kernels.multiply(opened, _product(kernels, x, up)), down)
