"""What a user can ask of a training: the command line fills these in, the tasks read them. None: nothing was said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from minitransformer.errors import UserError


@dataclass(frozen=True)
class DataOptions:
    """Where texts come from."""

    path: str | None = None  # None: the built-in language
    valid: str | None = None  # a file to validate on; None: a part of `path` is held back
    text_column: str | None = None  # of a table: a name, or a number where it has no header
    label_column: str | None = None


@dataclass(frozen=True)
class TokenizerOptions:
    """How text of the user's own becomes ids."""

    tokenizer: str | None = None  # words or pieces
    vocabulary: int | None = None  # at most so many of them
    dict: str | None = None  # the labs' dict.txt
    sentencepiece: str | None = None  # a sentencepiece model to use instead of a new one


@dataclass(frozen=True)
class TrainingOptions:
    """What all trainings have in common. What is None is as the preset says."""

    out: str  # folder of the run
    resume: bool = False
    preset: str = "default"
    seed: int = 0
    steps: int | None = None
    epochs: int | None = None
    minutes: float | None = None
    batch: int | None = None
    lr: float | None = None
    warmup: int | None = None
    clip: float | None = None
    slices: int | None = None  # of a batch, as ranks share them; None: whole, or the usual number under MPI
    recompute: bool = False  # less memory for more time
    texts: int | None = None  # built-in ones in an epoch
    sizes: Mapping[str, Any] = field(default_factory=dict)  # fields of Config that were given
    data: DataOptions = DataOptions()
    words: TokenizerOptions = TokenizerOptions()

    def check(self, based: str = "") -> None:
        """Refuses what would do nothing. based: on a language model, whose words and sizes it has: what to do instead
        of giving others; dropout may differ, for it has no weights, and max_len, as the first places are enough"""
        own = _given(self.data, "valid", "text_column", "label_column") + _given(self.words, *_WORDS)
        if own and self.data.path is None:
            raise UserError(f"{own[0]} is about data of your own: give DATA, or omit it")
        if self.texts is not None and self.data.path is not None:
            raise UserError("--texts counts built-in texts: omit it, or do without DATA")
        if based and self.sizes.keys() - {"dropout", "max_len"}:
            raise UserError(f"the sizes are those of the language model: {based}")
        if based and (words := _given(self.words, *_WORDS)):
            raise UserError(f"{words[0]}: the words are those of the language model; omit it")


_WORDS = ("tokenizer", "vocabulary", "dict", "sentencepiece")


def _given(options: DataOptions | TokenizerOptions, *names: str) -> list[str]:
    """Those that the user gave, as they are typed."""
    return [flag(name) for name in names if getattr(options, name) is not None]


def flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
