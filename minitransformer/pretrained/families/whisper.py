"""Whisper: a translator whose source is sound. Two convolutions stand where words have their embedding; all the rest,
the decoder's attention to the source too, is the same as in translation.

OpenAI's files (.pt) name their parts otherwise than Hugging Face's folders; both are read."""

from __future__ import annotations

from typing import Any

import numpy as np

import autograd.functional as F
from autograd import Tensor
from minitransformer.errors import WeightsError
from minitransformer.layers import Dropout, Head, decoder, encoder
from minitransformer.models import Translator
from minitransformer.models.base import Model, TokenEmbedding
from minitransformer.module import Init, Module
from minitransformer.pretrained.families.description import SECOND_SIDE, TWO_SIDES, Description, described
from minitransformer.pretrained.renaming import Piece, Table, Zeros
from minitransformer.pretrained.weight_file import WeightFile

IGNORED = r"proj_out\.weight|model_state_dict\.decoder\.mask|.*\.mask"
OPENAI = "model_state_dict."


class Convolution(Module):
    """Each place sees itself and its two neighbours; of every `stride` places one is kept.

    (B, T, C) → (B, T/stride, F)"""

    def __init__(self, width: int, outputs: int, stride: int, *, init: Init):
        self.weight = init.uniform((3 * width) ** -0.5, outputs, 3 * width)
        self.bias, self.stride = init.constant(0, outputs), stride

    def forward(self, x: Tensor) -> Tensor:
        B, _, C = x.shape
        edge = Tensor(x.backend.xp.zeros((B, 1, C), dtype=x.dtype), backend=x.backend)
        padded = F.concatenate([edge, x, edge], axis=1)
        windows = F.concatenate([padded[:, :-2], padded[:, 1:-1], padded[:, 2:]], axis=2)
        return F.gelu(F.linear(windows[:, :: self.stride], self.weight, self.bias))


class Whisper(Translator):
    """source (B, 3000, mels) → text: `encode` takes the spectrogram of 30 seconds; `decode` is the Translator's."""

    def __init__(self, *sizes: Any, mels: int = 80, places: int = 1500, **settings: Any):
        Model.__init__(self, *sizes, **settings)
        config, init = self.config, self.init
        self.mels = mels
        self.conv1 = Convolution(mels, config.d_model, 1, init=init)
        self.conv2 = Convolution(config.d_model, config.d_model, 2, init=init)
        self.places = init.uniform(0.1, places, config.d_model)
        self.target_embedding = TokenEmbedding(config.target_vocab, config, init=init)
        self.dropout = Dropout(config.dropout, init=init)
        self.encoder = encoder(config.n_encoder, config, init=init)
        self.decoder = decoder(config.n_decoder, config, init=init)
        tied = self.target_embedding.weight
        self.head = Head(config.d_model, config.target_vocab, config.head_bias, tied=tied, init=init)

    def encode(self, source: Any, source_lengths: Any = None) -> Tensor:
        if source_lengths is not None:
            raise ValueError("sound has no lengths: silence fills each window of 30 seconds")
        if not isinstance(source, Tensor):
            source = Tensor(np.asarray(source, dtype=self.config.dtype), backend=self.backend)
        expected = 2 * len(self.places), self.mels
        if source.ndim != 3 or source.shape[1:] != expected:
            raise ValueError(f"a spectrogram of shape (B, {expected[0]}, {expected[1]}) is needed, not {source.shape}")
        return self.encoder(self.dropout(self.conv2(self.conv1(source)) + self.places))


KIND = Whisper


def settings(said: Description) -> dict[str, Any]:
    """Of config.json."""
    said.expect("scale_embedding", False, None)
    said.expect("activation_function", "gelu", None)
    return {
        **said.two_sides(),
        "max_len": said.size("max_target_positions"),
        "mels": said.size("num_mel_bins"),
        "places": said.size("max_source_positions"),
        **BLOCK,
    }


BLOCK = {
    "source_vocab": 1, "norm": "layer", "norm_first": True, "norm_embedding": False, "activation": "gelu",
    "positions": "learned", "n_kv_heads": None, "bias": True, "head_bias": False, "scale_embedding": False,
    "tie_weights": True, "share_embedding": False,
}  # fmt: skip
HEAD_WIDTH = 64  # of all of OpenAI's sizes


def openai_settings(file: WeightFile) -> dict[str, Any]:
    """OpenAI's files hold no description that is read here: the shapes of the arrays say it."""
    shapes = {name.removeprefix(OPENAI): shape for name, shape in file.shapes.items()}
    blocks = [name.split(".")[:3] for name in shapes]
    layers = {side: len({tuple(one) for one in blocks if one[:2] == [side, "blocks"]}) for side in SIDES}

    def axis(name: str, number: int, axes: int) -> int:
        shape = shapes.get(name, ())
        if len(shape) != axes:
            found = f"an array {name} of {axes} axes is missing, so the model's sizes are not known"
            raise WeightsError(file.path, found, "choose a file of Whisper's weights as it was published")
        return shape[number]

    width = axis("encoder.conv1.weight", 0, 3)
    return {
        "target_vocab": axis("decoder.token_embedding.weight", 0, 2),
        "d_model": width,
        "n_heads": width // HEAD_WIDTH,
        "n_encoder": layers["encoder"],
        "n_decoder": layers["decoder"],
        "d_ff": axis("encoder.blocks.0.mlp.0.weight", 0, 2),
        "max_len": axis("decoder.positional_embedding", 0, 2),
        "mels": axis("encoder.conv1.weight", 1, 3),
        "places": axis("encoder.positional_embedding", 0, 2),
        **BLOCK,
    }


SIDES = ("encoder", "decoder")
# ours → OpenAI's, Hugging Face's
WHOLE = {
    "conv1.bias": ("encoder.conv1.bias", "model.encoder.conv1.bias"),
    "conv2.bias": ("encoder.conv2.bias", "model.encoder.conv2.bias"),
    "places": ("encoder.positional_embedding", "model.encoder.embed_positions.weight"),
    "target_embedding.weight": ("decoder.token_embedding.weight", "model.decoder.embed_tokens.weight"),
    "target_embedding.positions.weight": ("decoder.positional_embedding", "model.decoder.embed_positions.weight"),
    "encoder.norm.weight": ("encoder.ln_post.weight", "model.encoder.layer_norm.weight"),
    "encoder.norm.bias": ("encoder.ln_post.bias", "model.encoder.layer_norm.bias"),
    "decoder.norm.weight": ("decoder.ln.weight", "model.decoder.layer_norm.weight"),
    "decoder.norm.bias": ("decoder.ln.bias", "model.decoder.layer_norm.bias"),
}
LAYER = {"linear1": ("mlp.0", "fc1"), "linear2": ("mlp.2", "fc2"), "norm1": ("attn_ln", "self_attn_layer_norm")}
NORMS = {
    "encoder": {"norm2": ("mlp_ln", "final_layer_norm")},
    "decoder": {"norm2": ("cross_attn_ln", "encoder_attn_layer_norm"), "norm3": ("mlp_ln", "final_layer_norm")},
}
ATTENTION = {"self_attn": ("attn", "self_attn"), "multihead_attn": ("cross_attn", "encoder_attn")}
PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "out_proj"}


def table(config: Any, openai: bool = False) -> Table:
    C, which = config.d_model, 0 if openai else 1
    names: dict[str, list] = {ours: [Piece(theirs[which])] for ours, theirs in WHOLE.items()}
    for conv in ("conv1", "conv2"):
        name = f"{'' if openai else 'model.'}encoder.{conv}.weight"
        names[f"{conv}.weight"] = [Piece(name, _as_matrix, _as_filters)]
    for side, layers in (("encoder", config.n_encoder), ("decoder", config.n_decoder)):
        for i in range(layers):
            ours = f"{side}.layers.{i}."
            theirs = f"{side}.blocks.{i}." if openai else f"model.{side}.layers.{i}."
            for part, names_of_part in (LAYER | NORMS[side]).items():
                for kind in ("weight", "bias"):
                    names[f"{ours}{part}.{kind}"] = [Piece(f"{theirs}{names_of_part[which]}.{kind}")]
            for part, names_of_part in list(ATTENTION.items())[: 1 if side == "encoder" else 2]:
                q, k, v, out = (
                    f"{theirs}{names_of_part[which]}.{one if openai else PROJECTIONS[one]}" for one in PROJECTIONS
                )
                names[f"{ours}{part}.in_proj_weight"] = [Piece(f"{one}.weight", rows=C) for one in (q, k, v)]
                # a bias of the keys would add the same to all scores of a query, which the softmax ignores
                names[f"{ours}{part}.in_proj_bias"] = [Piece(f"{q}.bias", rows=C), Zeros(C), Piece(f"{v}.bias", rows=C)]
                names[f"{ours}{part}.out_proj.weight"] = [Piece(f"{out}.weight")]
                names[f"{ours}{part}.out_proj.bias"] = [Piece(f"{out}.bias")]
    return names


def _as_matrix(filters: np.ndarray) -> np.ndarray:
    """(F, C, 3) → (F, 3 · C)"""
    return filters.transpose(0, 2, 1).reshape(len(filters), -1)


def _as_filters(matrix: np.ndarray) -> np.ndarray:
    return matrix.reshape(len(matrix), 3, -1).transpose(0, 2, 1)


def description(model: Any) -> dict[str, Any]:
    """config.json of a model of ours."""
    config = model.config
    return described(
        config, "WhisperForConditionalGeneration", "whisper", TWO_SIDES, SECOND_SIDE,
        max_target_positions=config.max_len,
        num_mel_bins=model.mels,
        max_source_positions=len(model.places),
        activation_function="gelu",
        scale_embedding=False,
        pad_token_id=None,  # silence fills windows, so no word is padding
        tie_word_embeddings=True,
    )  # fmt: skip
