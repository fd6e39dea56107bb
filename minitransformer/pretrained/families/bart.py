"""BART: an encoder-decoder like the first transformer, with learned positions and a norm after the embedding.

Encoder, decoder and head share one table of words; each side has positions and an embedding norm of its own. The
table of positions has two rows in front that are never used."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from minitransformer.errors import WeightsError, excerpt
from minitransformer.models import Translator
from minitransformer.pretrained.characters import Characters
from minitransformer.pretrained.families.description import (
    DAMAGED,
    SECOND_SIDE,
    TWO_SIDES,
    Description,
    described,
    their_word,
)
from minitransformer.pretrained.renaming import Piece, Table
from minitransformer.pretrained.weight_file import WeightFile

UNUSED = 2
IGNORED = r"meta_json|lm_head\.weight|model\.(encoder|decoder)\.embed_tokens\.weight"
ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu"}


class Bart(Translator):
    """A Translator whose two languages share their words, and nothing else."""

    def __init__(self, *sizes: Any, **settings: Any):
        super().__init__(*sizes, **settings)
        self.target_embedding.weight = self.head.weight = self.source_embedding.weight


KIND = Bart


def settings(said: Description) -> dict[str, Any]:
    said.expect("scale_embedding", False, None)
    said.expect("normalize_before", False, None)
    said.expect("add_final_layer_norm", False, None)
    sizes = said.two_sides()
    return {
        **sizes,
        "source_vocab": sizes["target_vocab"],
        "max_len": said.size("max_position_embeddings"),
        "norm_eps": said.number("layer_norm_eps", 1e-5),
        "activation": said.choice("activation_function", ACTIVATIONS, "gelu"),
        **BLOCK,
    }


BLOCK = {
    "norm": "layer", "norm_first": False, "norm_embedding": True, "positions": "learned", "n_kv_heads": None,
    "bias": True, "head_bias": True, "scale_embedding": False, "tie_weights": True, "share_embedding": False,
}  # fmt: skip


def described_in(file: WeightFile) -> Description:
    """Of a file of arrays that carries its description and its alphabets in itself."""
    said = _carried(file)
    parts = [name.split(".") for name in file]
    layers = {side: len({part[3] for part in parts if part[:3] == ["model", side, "layers"] and len(part) > 3})
              for side in ("encoder", "decoder")}  # fmt: skip
    entries = {
        "vocab_size": file.shapes.get("model.shared.weight", (None,))[0],
        "encoder_layers": layers["encoder"],
        "decoder_layers": layers["decoder"],
        **{name: said.get(name) for name in ("d_model", "max_position_embeddings", "layer_norm_eps")},
    }
    for side in ("encoder", "decoder"):
        entries |= {f"{side}_attention_heads": said.get("num_heads"), f"{side}_ffn_dim": said.get("ffn_dim")}
    return Description(file.path, entries)


def _carried(file: WeightFile) -> Description:
    try:
        said = json.loads(str(file["meta_json"]))
    except (json.JSONDecodeError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise WeightsError(file.path, "meta_json is not a description in JSON", DAMAGED)
    return Description(file.path, said)


def alphabets(file: WeightFile) -> Characters:
    """Letters in, sounds out: the ids of the two sides mean different signs."""
    said = _carried(file)
    names = {"<pad>": "pad_token_id", "<s>": "bos_token_id", "</s>": "eos_token_id"}
    special = {sign: said.get(name) for sign, name in names.items()} | {"<unk>": 3}
    if sorted(map(str, special.values())) != ["0", "1", "2", "3"]:
        raise WeightsError(file.path, "its four marks are not the ids 0 to 3", DAMAGED)
    sides = []
    for side in ("grapheme_chars", "phoneme_chars"):
        signs = said.get(side)
        if not isinstance(signs, str | list) or not all(isinstance(sign, str) for sign in signs):
            raise WeightsError(file.path, f"{side} is {excerpt(signs)}, expected a list of signs", DAMAGED)
        sides.append({sign: i for i, sign in enumerate(signs) if i >= len(special)})
    letters, sounds = sides
    return Characters(letters, special, written=sounds, before=[special["<s>"]], after=[special["</s>"]])


LAYER = {
    "self_attn.out_proj": "self_attn.out_proj", "linear1": "fc1", "linear2": "fc2", "norm1": "self_attn_layer_norm",
}  # fmt: skip
ENCODER = LAYER | {"norm2": "final_layer_norm"}
DECODER = LAYER | {
    "multihead_attn.out_proj": "encoder_attn.out_proj", "norm2": "encoder_attn_layer_norm", "norm3": "final_layer_norm",
}  # fmt: skip


def table(config: Any) -> Table:
    C = config.d_model
    names: dict[str, list] = {
        "source_embedding.weight": [Piece("model.shared.weight")],
        "head.bias": [Piece("final_logits_bias", lambda a: a.reshape(-1), lambda a: a[None])],
    }
    sides = (
        ("encoder", "source_embedding", config.n_encoder, ENCODER, {"self_attn": "self_attn"}),
        ("decoder", "target_embedding", config.n_decoder, DECODER,
         {"self_attn": "self_attn", "multihead_attn": "encoder_attn"}),
    )  # fmt: skip
    for side, embedding, layers, parts, attentions in sides:
        names[f"{embedding}.positions.weight"] = [_positions(f"model.{side}.embed_positions.weight")]
        for kind in ("weight", "bias"):
            names[f"{embedding}.norm.{kind}"] = [Piece(f"model.{side}.layernorm_embedding.{kind}")]
            for i in range(layers):
                ours, theirs = f"{side}.layers.{i}.", f"model.{side}.layers.{i}."
                names |= {f"{ours}{our}.{kind}": [Piece(f"{theirs}{their}.{kind}")] for our, their in parts.items()}
                for our, their in attentions.items():
                    projections = [f"{theirs}{their}.{one}_proj.{kind}" for one in "qkv"]
                    names[f"{ours}{our}.in_proj_{kind}"] = [Piece(name, rows=C) for name in projections]
    return names


def _positions(name: str) -> Piece:
    return Piece(name, lambda a: a[UNUSED:], lambda a: np.concatenate([np.zeros_like(a[:UNUSED]), a]))


def description(model: Any) -> dict[str, Any]:
    """config.json of a model of ours."""
    config = model.config
    return described(
        config, "BartForConditionalGeneration", "bart", TWO_SIDES, SECOND_SIDE,
        max_position_embeddings=config.max_len,
        activation_function=their_word(ACTIVATIONS, config.activation),
        layer_norm_eps=config.norm_eps,
        scale_embedding=False,
        tie_word_embeddings=True,
    )  # fmt: skip
