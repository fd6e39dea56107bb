"""GPT-2: learned positions, layer norm before each sublayer, GELU in its tanh form, the head tied to the words.

Its matrices are written as (in, out), transposed from ours."""

from __future__ import annotations

from typing import Any

from minitransformer.models import LanguageModel
from minitransformer.pretrained.families.description import Description, described, their_word
from minitransformer.pretrained.renaming import Piece, Table, transposed

KIND = LanguageModel
PREFIX = "transformer."
IGNORED = r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias"  # masks
SIZES = {
    "vocab_size": "vocab_size", "d_model": "n_embd", "n_heads": "n_head", "n_layers": "n_layer",
    "max_len": "n_positions",
}  # fmt: skip
ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}


def settings(said: Description) -> dict[str, Any]:
    for name in ("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"):
        said.expect(name, False, None)
    said.expect("scale_attn_weights", True, None)
    sizes = said.sizes(SIZES)
    return {
        **sizes,
        "d_ff": said.size("n_inner", 4 * sizes["d_model"]),
        "norm_eps": said.number("layer_norm_epsilon", 1e-5),
        "activation": said.choice("activation_function", ACTIVATIONS, "gelu_new"),
        "tie_weights": bool(said.get("tie_word_embeddings", True)),
        **BLOCK,
    }


BLOCK = {
    "norm": "layer", "norm_first": True, "norm_embedding": False, "positions": "learned", "n_kv_heads": None,
    "bias": True, "head_bias": False, "scale_embedding": False, "causal": True,
}  # fmt: skip


LAYER = {
    "norm1": "ln_1", "self_attn.in_proj": "attn.c_attn", "self_attn.out_proj": "attn.c_proj", "norm2": "ln_2",
    "linear1": "mlp.c_fc", "linear2": "mlp.c_proj",
}  # fmt: skip


def table(config: Any) -> Table:
    names: dict[str, list] = {
        "base.embedding.weight": [Piece("transformer.wte.weight")],
        "base.embedding.positions.weight": [Piece("transformer.wpe.weight")],
        "base.encoder.norm.weight": [Piece("transformer.ln_f.weight")],
        "base.encoder.norm.bias": [Piece("transformer.ln_f.bias")],
    }
    for i in range(config.n_layers):
        for ours, theirs in LAYER.items():
            dot = "_" if ours.endswith("in_proj") else "."  # in_proj_weight, but linear1.weight
            ours, theirs = f"base.encoder.layers.{i}.{ours}{dot}", f"transformer.h.{i}.{theirs}."
            weight = Piece if "norm" in ours else transposed
            names |= {ours + "weight": [weight(theirs + "weight")], ours + "bias": [Piece(theirs + "bias")]}
    if not config.tie_weights:
        names["head.weight"] = [Piece("lm_head.weight")]
    return names


def description(model: Any) -> dict[str, Any]:
    """config.json of a model of ours."""
    config = model.config
    return described(
        config, "GPT2LMHeadModel", "gpt2", SIZES,
        n_inner=config.d_ff,
        layer_norm_epsilon=config.norm_eps,
        activation_function=their_word(ACTIVATIONS, config.activation),
        tie_word_embeddings=config.tie_weights,
    )  # fmt: skip
