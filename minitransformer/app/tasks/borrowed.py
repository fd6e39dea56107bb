"""Models of others: to use as they are, or to start from."""

from __future__ import annotations

import os
import sys
from typing import Any

from minitransformer.app.tasks.text_codec import TextCodec
from minitransformer.app.tasks.trained import Trained, open_model
from minitransformer.app.training.checkpoints import Checkpoint
from minitransformer.errors import UserError, excerpt
from minitransformer.models import Bert, LanguageModel
from minitransformer.pretrained.fetch import fetch
from minitransformer.pretrained.known import KNOWN

SOURCES = "a name that `minitransformer models` lists, a folder of Hugging Face's files, or a GGUF file"


def is_borrowed(source: str) -> bool:
    """Whether this names a model of others, rather than a run of ours."""
    if os.path.exists(source):
        return source.endswith(".gguf") or os.path.isfile(os.path.join(source, "config.json"))
    return source.partition("/")[0] in KNOWN


def borrow(source: str, able: str, advice: str) -> tuple[Any, Any]:
    """A model and its tokenizer; `able` is the method that a fitting model has, and `advice` names one."""
    from minitransformer.pretrained import load

    first = source.partition("/")[0]
    if not os.path.exists(source) and first in KNOWN:
        fetch(first)  # with its progress, before anything else is said
    print(f"loading {source} ...", file=sys.stderr, flush=True)
    model, tokenizer = load(source)
    if not hasattr(model, able):
        raise UserError(f"{excerpt(source)} is a {type(model).__name__}, which cannot do this; {advice}")
    if tokenizer is None:
        raise UserError(f"{excerpt(source)} comes without a tokenizer, so it cannot read text; {advice}")
    return model, tokenizer


def base_at(path: str | None, extra: str = "") -> Trained:
    """The language model to start from: a run of ours, or what others trained. extra: what else one can do"""
    if path is not None and is_borrowed(path):
        return base_from(path)
    return open_model(path, "LanguageModel", extra)


def base_from(source: str) -> Trained:
    """A BERT as a language model to start from: one that reads both sides, and whose words have our numbers."""
    from minitransformer.app.data.tokenizers.wordpiece import WordPieceTokenizer
    from minitransformer.pretrained.wordpiece import WordPiece

    bert, cutter = borrow(source, "segments", "minilm can")
    if not isinstance(cutter, WordPiece):
        raise UserError(f"{excerpt(source)}: its tokenizer is not BERT's WordPiece; start from minilm")
    tokenizer = WordPieceTokenizer.of(cutter)
    if tokenizer.vocab_size != bert.config.vocab_size:
        raise UserError(
            f"{excerpt(source)}: its tokenizer has {tokenizer.vocab_size:,} words and its model "
            f"{bert.config.vocab_size:,}; choose the files of one model"
        )
    model = as_language_model(bert, tokenizer.rows)
    described = {"kind": "LanguageModel", "config": model.settings()}
    return Trained(model, Checkpoint(0, 0, 0, path=source, model=described), {"text": TextCodec(tokenizer)})


def as_language_model(bert: Bert, rows: Any) -> LanguageModel:
    """The same network under the names of a LanguageModel that reads both sides. All words are of the first segment,
    whose vector is added to the positions.   rows (V,): which word of BERT's each of ours is"""
    shared = ("vocab_size", "d_model", "n_heads", "n_layers", "d_ff", "max_len", "norm", "norm_first", "norm_eps",
              "activation", "positions", "n_kv_heads", "bias", "scale_embedding", "dtype")  # fmt: skip
    settings = {name: getattr(bert.config, name) for name in shared}
    model = LanguageModel(**settings, causal=False, norm_embedding=True, tie_weights=True, head_bias=False)
    state = bert.state_dict()
    taken = {f"base.{name}": array for name, array in state.items() if name.startswith("encoder.")}
    for part in ("weight", "bias"):
        taken[f"base.embedding.norm.{part}"] = state[f"norm.{part}"]
    taken["base.embedding.weight"] = state["embedding.weight"][rows]
    taken["base.embedding.positions.weight"] = state["embedding.positions.weight"] + state["segments.weight"][0]
    model.load_state_dict(taken)
    return model
