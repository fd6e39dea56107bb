"""BERT: words, positions and segments are added and normed, and every word sees all others. With its two heads, which
guess hidden words and the next sentence, or without them (MiniLM turns sentences into vectors)."""

from __future__ import annotations

from typing import Any

from minitransformer.models import Bert
from minitransformer.pretrained.families.description import Description, described, their_word
from minitransformer.pretrained.renaming import Piece, Table

KIND = Bert
PREFIX = "bert."
# numbers of places; the dense layer under the next-sentence head, where that head is missing; the head's second names
IGNORED = r"(bert\.)?embeddings\.position_ids|cls\.predictions\.decoder\.(weight|bias)"
POOLER = r"|(bert\.)?pooler\.dense\.(weight|bias)"
SIZES = {
    "vocab_size": "vocab_size", "d_model": "hidden_size", "n_heads": "num_attention_heads",
    "n_layers": "num_hidden_layers", "d_ff": "intermediate_size", "max_len": "max_position_embeddings",
}  # fmt: skip
ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu"}


def settings(said: Description, heads: str) -> dict[str, Any]:
    """heads: "deep" where the file has them, else "none"."""
    said.expect("position_embedding_type", "absolute", None)
    said.expect("type_vocab_size", 2, None)
    return {
        **said.sizes(SIZES),
        "norm_eps": said.number("layer_norm_eps", 1e-12),
        "activation": said.choice("hidden_act", ACTIVATIONS, "gelu"),
        "heads": heads,
        **BLOCK,
    }


BLOCK = {
    "norm": "layer", "norm_first": False, "positions": "learned", "n_kv_heads": None, "bias": True,
    "head_bias": True, "scale_embedding": False, "tie_weights": True,
}  # fmt: skip


LAYER = {
    "self_attn.out_proj": "attention.output.dense", "norm1": "attention.output.LayerNorm",
    "linear1": "intermediate.dense", "linear2": "output.dense", "norm2": "output.LayerNorm",
}  # fmt: skip
HEADS = {
    "word_dense": "cls.predictions.transform.dense", "word_norm": "cls.predictions.transform.LayerNorm",
    "next_dense": "bert.pooler.dense", "next_head": "cls.seq_relationship",
}  # fmt: skip


def table(config: Any) -> Table:
    names: dict[str, list] = {
        "embedding.weight": [Piece("bert.embeddings.word_embeddings.weight")],
        "embedding.positions.weight": [Piece("bert.embeddings.position_embeddings.weight")],
        "segments.weight": [Piece("bert.embeddings.token_type_embeddings.weight")],
        "norm.weight": [Piece("bert.embeddings.LayerNorm.weight")],
        "norm.bias": [Piece("bert.embeddings.LayerNorm.bias")],
    }
    for kind in ("weight", "bias"):
        for i in range(config.n_layers):
            ours, theirs = f"encoder.layers.{i}.", f"bert.encoder.layer.{i}."
            projections = [f"{theirs}attention.self.{one}.{kind}" for one in ("query", "key", "value")]
            names[f"{ours}self_attn.in_proj_{kind}"] = [Piece(name, rows=config.d_model) for name in projections]
            names |= {f"{ours}{our}.{kind}": [Piece(f"{theirs}{their}.{kind}")] for our, their in LAYER.items()}
        if config.heads == "deep":
            names |= {f"{our}.{kind}": [Piece(f"{their}.{kind}")] for our, their in HEADS.items()}
    if config.heads == "deep":
        names["word_head.bias"] = [Piece("cls.predictions.bias")]
    return names


def description(model: Any) -> dict[str, Any]:
    """config.json of a model of ours."""
    config = model.config
    return described(
        config, "BertForPreTraining" if config.heads == "deep" else "BertModel", "bert", SIZES,
        type_vocab_size=2,
        layer_norm_eps=config.norm_eps,
        hidden_act=their_word(ACTIVATIONS, config.activation),
        tie_word_embeddings=True,
    )  # fmt: skip
