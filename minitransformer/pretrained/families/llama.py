"""Llama and its heirs (SmolLM2, ...): rotary positions, RMS norm before each sublayer, a gated feed-forward layer, keys
and values shared by groups of heads, no biases. From Hugging Face's folders and from GGUF files."""

from __future__ import annotations

from functools import partial
from typing import Any

from minitransformer.errors import excerpt
from minitransformer.models import LanguageModel
from minitransformer.positions import half_split_rows, interleaved_rows
from minitransformer.pretrained.families.description import Description, described
from minitransformer.pretrained.renaming import Piece, Table

KIND = LanguageModel
SIZES = {  # the same in both kinds of files, but for their names
    "vocab_size": "vocab_size", "d_model": "hidden_size", "n_heads": "num_attention_heads",
    "n_layers": "num_hidden_layers", "d_ff": "intermediate_size", "max_len": "max_position_embeddings",
}  # fmt: skip
GGUF_SIZES = {
    "vocab_size": "llama.vocab_size", "d_model": "llama.embedding_length", "n_heads": "llama.attention.head_count",
    "n_layers": "llama.block_count", "d_ff": "llama.feed_forward_length", "max_len": "llama.context_length",
}  # fmt: skip
IGNORED = r".*rotary_emb\.inv_freq|rope_freqs\.weight"


def settings(said: Description) -> dict[str, Any]:
    """Of config.json."""
    said.expect("hidden_act", "silu", None)
    said.expect("attention_bias", False, None)
    said.expect("mlp_bias", False, None)
    rope = said.part("rope_parameters") or said.part("rope_scaling")
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise said.unknown(f"rope_type {excerpt(kind)}")
    sizes = said.sizes(SIZES)
    said.expect("head_dim", sizes["d_model"] // sizes["n_heads"], None)
    return {
        **sizes,
        "n_kv_heads": said.size("num_key_value_heads", sizes["n_heads"]),
        "norm_eps": said.number("rms_norm_eps", 1e-6),
        "rotary_base": rope.number("rope_theta", said.number("rope_theta", 10000.0)),
        "tie_weights": bool(said.get("tie_word_embeddings", False)),
        **BLOCK,
    }


BLOCK = {  # what all of them have
    "norm": "rms", "norm_first": True, "activation": "swiglu", "positions": "rotary", "bias": False,
    "head_bias": False, "scale_embedding": False,
}  # fmt: skip


def gguf_settings(said: Description, tied: bool) -> dict[str, Any]:
    """Of the entries of a GGUF file. `tied`: it has no head of its own."""
    sizes = said.sizes(GGUF_SIZES)
    said.expect("llama.rope.dimension_count", sizes["d_model"] // sizes["n_heads"], None)
    said.expect("llama.rope.scaling.type", "none", None)
    return {
        **sizes,
        "n_kv_heads": said.size("llama.attention.head_count_kv", sizes["n_heads"]),
        "norm_eps": said.number("llama.attention.layer_norm_rms_epsilon"),
        "rotary_base": said.number("llama.rope.freq_base", 10000.0),
        "tie_weights": tied,
        **BLOCK,
    }


LAYER = {  # ours → Hugging Face's, GGUF's
    "self_attn.out_proj.weight": ("self_attn.o_proj.weight", "attn_output.weight"),
    "linear1.weight": ("mlp.up_proj.weight", "ffn_up.weight"),
    "gate.weight": ("mlp.gate_proj.weight", "ffn_gate.weight"),
    "linear2.weight": ("mlp.down_proj.weight", "ffn_down.weight"),
    "norm1.weight": ("input_layernorm.weight", "attn_norm.weight"),
    "norm2.weight": ("post_attention_layernorm.weight", "ffn_norm.weight"),
}


def table(config: Any, gguf: bool = False) -> Table:
    """Hugging Face pairs column i of a head with column i + D/2; GGUF and we pair neighbours."""
    width, heads, groups = config.d_model, config.n_heads, config.n_kv_heads or config.n_heads

    def turned(name: str, count: int) -> Piece:
        rows = count * (width // heads)
        if gguf:
            return Piece(name, rows=rows)
        return Piece(name, partial(interleaved_rows, n_heads=count), partial(half_split_rows, n_heads=count), rows)

    names: dict[str, list] = {
        "base.embedding.weight": [Piece("token_embd.weight" if gguf else "model.embed_tokens.weight")],
        "base.encoder.norm.weight": [Piece("output_norm.weight" if gguf else "model.norm.weight")],
    }
    for i in range(config.n_layers):
        ours, theirs = f"base.encoder.layers.{i}.", f"blk.{i}." if gguf else f"model.layers.{i}."
        q, k, v = (theirs + (f"attn_{one}.weight" if gguf else f"self_attn.{one}_proj.weight") for one in "qkv")
        names[ours + "self_attn.in_proj_weight"] = [turned(q, heads), turned(k, groups), Piece(v)]
        names |= {ours + our: [Piece(theirs + their[gguf])] for our, their in LAYER.items()}
    if not config.tie_weights:
        names["head.weight"] = [Piece("output.weight" if gguf else "lm_head.weight")]
    return names


def description(model: Any) -> dict[str, Any]:
    """config.json of a model of ours."""
    config = model.config
    return described(
        config, "LlamaForCausalLM", "llama", SIZES,
        num_key_value_heads=config.n_kv_heads or config.n_heads,
        head_dim=config.d_model // config.n_heads,
        hidden_act="silu",
        rms_norm_eps=config.norm_eps,
        rope_theta=config.rotary_base,
        rope_parameters={"rope_type": "default", "rope_theta": config.rotary_base},
        attention_bias=False,
        mlp_bias=False,
        tie_word_embeddings=config.tie_weights,
    )  # fmt: skip
