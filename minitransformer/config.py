"""What makes a model: every size and every choice, with its default, in one list.

    Config(vocab_size=50001, d_model=200)             checked when it is made
    LanguageModel(Config(vocab_size=50001))           a model of it; LanguageModel(vocab_size=50001) is the same
    dataclasses.replace(model.config, dropout=0.1)    the same but for one choice

Constructors, the flags of the command line, presets and checkpoints are made from the fields of Config. A new choice is
one field here, and one place in `layers.py` or `positions.py` where it acts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from kernels.contract import ACTIVATIONS

DTYPES = ("float32", "float64")
NORMS = ("layer", "rms")
POSITIONS = ("sinusoidal", "learned", "rotary", "none")
GATED = {"swiglu": "silu", "geglu": "gelu"}  # gated feed-forward layer → what its gate goes through
HEADS = ("plain", "deep", "none")
POOLINGS = ("last", "mean", "last_column")

ONE_STACK = ("LanguageModel", "Classifier", "Bert")
ALL = (*ONE_STACK, "Translator")


def _choice(default: Any, help: str, *models: str, among: tuple[str, ...] = (), flags: str = "") -> Any:
    """A field of Config.

    models  the kinds of models that have it; all, if none is named
    among   the values that there are, where they are names
    flags   how it is given on the command line, then its former names; empty: it follows from data or other options"""
    about = {"help": help, "models": models or ALL, "among": among, "flags": tuple(flags.split()), "size": False}
    return field(default=default, metadata=about)


def _size(default: int | None, help: str, *models: str, flags: str = "") -> Any:
    """A field that is a whole number from 1 on. One without a default comes from the data: no model without it."""
    about = {"help": help, "models": models or ALL, "among": (), "flags": tuple(flags.split()), "size": True}
    return field(default=default, metadata=about)


@dataclass(frozen=True)
class Config:
    """Sizes and choices of a model. What a kind of model does not have stays at its default."""

    vocab_size: int = _size(None, "V: words or pieces", *ONE_STACK)
    source_vocab: int = _size(None, "words or pieces of the source language", "Translator")
    target_vocab: int = _size(None, "words or pieces of the target language", "Translator")
    d_model: int = _size(200, "C: width of the network", flags="--d-model --width")
    n_heads: int = _size(2, "H: attention heads, which share the width", flags="--n-heads --heads")
    n_layers: int = _size(4, "layers", *ONE_STACK, flags="--n-layers --layers")
    n_encoder: int = _size(2, "layers of the encoder", "Translator", flags="--n-encoder")
    n_decoder: int = _size(2, "layers of the decoder", "Translator", flags="--n-decoder")
    d_ff: int = _size(200, "F: width inside the feed-forward layers", flags="--d-ff --ff")
    max_len: int = _size(512, "longest text, in words or pieces", flags="--max-len")
    dropout: float = _choice(0.0, "part of the activations dropped while training", flags="--dropout")
    seed: int | None = _choice(0, "of weights and dropout; None: no values, to count parameters")
    norm_first: bool = _choice(False, "norm before each sublayer, not after it", flags="--norm-first")
    norm: str = _choice("layer", "what brings vectors to one size", among=NORMS, flags="--norm")
    norm_eps: float = _choice(1e-5, "added to the variance before the root", flags="--norm-eps")
    norm_embedding: bool = _choice(
        False,
        "norm the sum of word and position",
        "LanguageModel",
        "Classifier",
        "Translator",
        flags="--norm-embedding",
    )
    activation: str = _choice(
        "relu", "inside the feed-forward layers; swiglu and geglu have a gate", among=(*ACTIVATIONS, *GATED),
        flags="--activation",
    )  # fmt: skip
    positions: str = _choice("sinusoidal", "how words know their place", among=POSITIONS, flags="--positions")
    rotary_base: float = _choice(10000.0, "of rotary positions: the larger, the slower", flags="--rotary-base")
    n_kv_heads: int | None = _choice(
        None, "G: heads of keys and values, each for H/G of the heads (default: as many)", flags="--n-kv-heads"
    )
    bias: bool = _choice(True, "linear layers and layer norms add a bias", flags="--bias")
    head_bias: bool = _choice(
        True, "the head over the words adds a bias", "LanguageModel", "Bert", "Translator", flags="--head-bias"
    )
    scale_embedding: bool = _choice(True, "words times √C", flags="--scale-embedding")
    tie_weights: bool = _choice(
        False, "the head uses the words' embedding as its weight",
        "LanguageModel", "Bert", "Translator", flags="--tie-weights",
    )  # fmt: skip
    share_embedding: bool = _choice(
        False, "one embedding for both languages, of one vocabulary", "Translator", flags="--share-embedding"
    )
    heads: str = _choice(
        "plain", "of BERT: one layer each; two, as published (deep); or none", "Bert", among=HEADS, flags="--bert-heads"
    )
    causal: bool = _choice(True, "a word sees those before it only, not all", "LanguageModel", "Classifier")
    n_classes: int = _size(2, "classes to tell apart", "Classifier")
    pooling: str = _choice("last", "which words the classifier's head reads", "Classifier", among=POOLINGS)
    dtype: str = _choice("float32", "of weights and activations", among=DTYPES)

    def __post_init__(self) -> None:
        for one in fields(self):
            value, about = _plain(getattr(self, one.name)), one.metadata
            object.__setattr__(self, one.name, value)  # the one moment in which a frozen dataclass may still change
            if about["size"] and value is not one.default:
                whole_number(one.name, value)
            if isinstance(one.default, bool) and not isinstance(value, bool):
                raise ValueError(f"{one.name} must be True or False, not {value!r}")
            if about["among"] and value not in about["among"]:
                raise ValueError(f"{one.name} must be one of {', '.join(about['among'])}, not {value!r}")
        if not isinstance(self.dropout, int | float) or not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, not {self.dropout!r}")
        if self.seed is not None and (type(self.seed) is not int or self.seed < 0):
            raise ValueError(f"seed must be a whole number, at least 0, or None, not {self.seed!r}")
        if self.d_model % self.n_heads:
            raise ValueError(f"a width of {self.d_model} cannot be divided among {self.n_heads} heads")
        if self.n_kv_heads is not None:
            whole_number("n_kv_heads", self.n_kv_heads)
            if self.n_heads % self.n_kv_heads:
                raise ValueError(f"n_heads = {self.n_heads} is no multiple of n_kv_heads = {self.n_kv_heads}")
        if self.positions == "rotary" and self.d_model // self.n_heads % 2:
            width = self.d_model // self.n_heads
            raise ValueError(f"rotary positions turn pairs of columns, and a head has {width}, which is odd")
        for name in ("norm_eps", "rotary_base"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
                raise ValueError(f"{name} must be a number above 0, not {value!r}")
        if self.share_embedding and self.source_vocab != self.target_vocab:
            sizes = f"{self.source_vocab} and {self.target_vocab}"
            raise ValueError(f"share_embedding needs one vocabulary, not {sizes} words")

    @classmethod
    def of(cls, kind: str, *sizes: Any, **settings: Any) -> Config:
        """From the arguments of a model's constructor: a Config and what differs from it, or settings by place and by
        name on top of what is usual for that kind of model."""
        names = names_of(kind)
        if sizes and isinstance(sizes[0], Config):
            given, sizes = sizes[0].settings(kind), sizes[1:]
        else:
            given = dict(USUAL[kind])
        if len(sizes) > len(names):
            raise TypeError(f"{kind} takes at most {len(names)} settings, not {len(sizes)}")
        placed = dict(zip(names, sizes, strict=False))
        for name in settings:
            if name not in names:
                raise TypeError(f"{kind} has no setting {name!r}; there are: {', '.join(names)}")
            if name in placed:
                raise TypeError(f"{kind} got {name} twice, by place and by name")
        given |= placed | settings
        for name in names:
            if needs_a_value(name) and given.get(name) is None:
                raise TypeError(f"{kind} needs {name}: {field_named(name).metadata['help']}")
        return cls(**given)

    def settings(self, kind: str) -> dict[str, Any]:
        """Name → value of all that this kind of model has: numbers, strings and booleans, ready for JSON."""
        return {name: getattr(self, name) for name in names_of(kind)}


def field_named(name: str) -> Any:
    return Config.__dataclass_fields__[name]


def needs_a_value(name: str) -> bool:
    """Whether there is no model without it: the sizes that come from the data."""
    return field_named(name).metadata["size"] and field_named(name).default is None


def names_of(kind: str) -> list[str]:
    """The settings that this kind of model has, in the order of its arguments."""
    return [one.name for one in fields(Config) if kind in one.metadata["models"]]


def whole_number(name: str, size: Any) -> None:
    """A size of a model: a whole number, at least 1."""
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
        raise ValueError(f"{name} must be a whole number, at least 1, not {size!r}")


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, and a dtype as its name."""
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return np.dtype(value).name
    return value.item() if isinstance(value, np.generic) else value


# where a kind of model differs from the defaults above, which are the first lab's
USUAL: dict[str, dict[str, Any]] = {
    "LanguageModel": {},
    "Classifier": {},
    "Translator": {"d_model": 256, "n_heads": 4, "d_ff": 512, "max_len": 64},
    "Bert": {
        "d_model": 128, "n_layers": 2, "d_ff": 512, "max_len": 128,
        "activation": "gelu", "positions": "learned", "scale_embedding": False,
    },
}  # fmt: skip

LAB = Config(vocab_size=50001)  # the first lab's language model
LAB_TRANSLATOR = Config.of("Translator", 5282, 7460, max_len=24, scale_embedding=False)  # the second lab's
BASE = Config(  # the base model of "Attention is all you need"
    source_vocab=37000, target_vocab=37000, d_model=512, n_heads=8, n_encoder=6, n_decoder=6, d_ff=2048,
    dropout=0.1, max_len=1024, share_embedding=True, tie_weights=True,
)  # fmt: skip

LLAMA = Config(  # SmolLM2-135M: what a language model of today is made of, in its smallest size
    vocab_size=49152, d_model=576, n_heads=9, n_layers=30, d_ff=1536, max_len=2048, norm_first=True, norm="rms",
    activation="swiglu", positions="rotary", rotary_base=1e5, n_kv_heads=3, bias=False, head_bias=False,
    scale_embedding=False, tie_weights=True,
)  # fmt: skip
GPT2 = Config(  # the smallest of GPT-2's sizes
    vocab_size=50257, d_model=768, n_heads=12, n_layers=12, d_ff=3072, max_len=1024, norm_first=True,
    activation="gelu_tanh", positions="learned", head_bias=False, scale_embedding=False, tie_weights=True,
)  # fmt: skip

# preset → head → kind of model and its Config; the first head is the default
PRESETS: dict[str, dict[str, tuple[str, Config]]] = {
    "lab": {"lm": ("LanguageModel", LAB), "classifier": ("Classifier", LAB)},
    "base": {"lm": ("Translator", BASE)},
    "lab-translator": {"lm": ("Translator", LAB_TRANSLATOR)},
    "gpt2": {"lm": ("LanguageModel", GPT2)},
    "llama": {"lm": ("LanguageModel", LLAMA), "classifier": ("Classifier", LLAMA)},
}
