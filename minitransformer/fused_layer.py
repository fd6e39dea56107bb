"""An encoder layer as one kernel, for a model that only computes: see Model.fuse.

It is what `EncoderLayer.forward` computes, up to rounding. But what a few words cost is calls more than arithmetic, and
one call instead of a dozen makes a layer of MiniLM a third shorter on 16 words.
"""

from typing import Any

from autograd import Tensor, is_grad_enabled
from kernels import Mask
from minitransformer.quantised import QuantisedWeight


def fits(layer: Any) -> bool:
    """Whether this EncoderLayer is of the form that the kernel computes, that of 2017 and of BERT, and nobody wants a
    gradient, dropout or the weights of attention."""
    attention, parts = layer.self_attn, _products(layer)
    return (
        not is_grad_enabled()
        and not layer.norm_first
        and layer.gate is None
        and attention.rotary_base is None
        and attention.ends[-1] == 3 * attention.num_heads
        and attention.watched is None
        and not (layer.dropout.active or attention.dropout.active)
        and all(bias is not None and not isinstance(weight, QuantisedWeight) for weight, bias in parts)
        and all(hasattr(norm, "bias") for norm in (layer.norm1, layer.norm2))
    )


def compute(layer: Any, x: Tensor, is_causal: bool, key_lengths: Any) -> Tensor:
    """x (B, T, C) → (B, T, C)"""
    (w_in, b_in), (w_out, b_out), (w1, b1), (w2, b2) = _products(layer)
    norm1, norm2 = layer.norm1, layer.norm2
    tensors = w_in, b_in, w_out, b_out, norm1.weight, norm1.bias, w1, b1, w2, b2, norm2.weight, norm2.bias
    lengths = None if key_lengths is None else x.backend.asarray(key_lengths)
    options = Mask(lengths, is_causal), layer.self_attn.num_heads, norm1.eps, layer.activation
    y = x.backend.encoder_layer(x.array, *[tensor.array for tensor in tensors], *options)
    return Tensor.holding(y, x.backend)


def _products(layer: Any) -> tuple[tuple[Any, Any], ...]:
    """Weight and bias of each matrix product, in their order."""
    attention, mix, first, second = layer.self_attn, layer.self_attn.out_proj, layer.linear1, layer.linear2
    return (
        (attention.in_proj_weight, attention.in_proj_bias),
        (mix.weight, mix.bias),
        (first.weight, first.bias),
        (second.weight, second.bias),
    )
