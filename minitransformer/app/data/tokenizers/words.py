"""Plain words as tokens: the vocabulary is the most frequent words of a text."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from minitransformer.app.data.tokenizers.json_files import FilesInFolder, entry
from minitransformer.app.data.tokenizers.tokenizer import BASE_SPECIALS, Tokenizer
from minitransformer.errors import DataError

# A word keeps the apostrophe that elides it ("l'" + "amour"), so that decoding puts no space there. Only
# these two rules exist: a pattern read from a file could be made to run for ever.
_WORD = re.compile(r"\w+(?:['’](?=\w))?|[^\w\s]")
_NO_SPACE_BEFORE = re.compile(r" ([.,;:!?…)\]}»])")
_HYPHEN = re.compile(r"(?<=\w) - (?=\w)")  # "cache-cache"; a dash between spaces is rare, and its spaces are lost
_NO_SPACE_AFTER = re.compile(r"([(\[{«]|\w['’]) ")


class WordTokenizer(Tokenizer):
    """`split="words"`: words and punctuation marks. `split="spaces"`: whatever stands between white space."""

    kind = "words"

    def __init__(
        self,
        words: Sequence[str],
        *,
        lower: bool = False,
        split: str = "words",
        extra_specials: Sequence[str] = (),
        name: str | None = None,
    ):
        if split not in ("words", "spaces"):
            raise ValueError(f"split={split!r}: choose 'words' or 'spaces'")
        if not words:
            raise ValueError("an empty vocabulary: give at least one word")
        super().__init__(words, extra_specials, name)
        self.lower = lower
        self.split = split

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        min_count: int = 1,
        max_size: int | None = None,
        lower: bool = False,
        split: str = "words",
        extra_specials: Sequence[str] = (),
        name: str | None = None,
    ) -> WordTokenizer:
        """Count the words of `texts` and keep those seen `min_count` times, the most frequent first and equal
        counts in the order of their characters, so that the same text always gives the same ids.
        `max_size` bounds `vocab_size`, specials included."""
        cutter = cls(["-"], lower=lower, split=split)
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(cutter.cut(text))
        kept = sorted((word for word in counts if counts[word] >= min_count), key=lambda w: (-counts[w], w))
        if max_size is not None:
            room = max_size - len(BASE_SPECIALS) - len(extra_specials)
            if room < 1:
                raise ValueError(f"max_size={max_size} leaves no room for words beside the special tokens")
            kept = kept[:room]
        if not kept:
            raise ValueError(f"no word occurs {min_count} time(s): give more text or a smaller min_count")
        return cls(kept, lower=lower, split=split, extra_specials=extra_specials, name=name)

    def cut(self, text: str) -> list[str]:
        """The words of a text, in composed characters (NFC), so that both spellings of "é" are one word."""
        # Some letters have one composed form in lower case only (ǰ), so composing comes last.
        text = unicodedata.normalize("NFC", text.lower() if self.lower else text)
        return text.split() if self.split == "spaces" else _WORD.findall(text)

    def encode(self, text: str) -> list[int]:
        return [self._id_of.get(word, self.oov) for word in self.cut(text)]

    def _join(self, ids: list[int]) -> str:
        text = " ".join(self.piece(token) for token in ids)
        if self.split == "words":
            text = _NO_SPACE_AFTER.sub(r"\1", _NO_SPACE_BEFORE.sub(r"\1", _HYPHEN.sub("-", text)))
        return text

    def _pack(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        return {"lower": self.lower, "split": self.split, "words": list(self.pieces)}, {}

    @classmethod
    def _read(
        cls, files: FilesInFolder, path: str, description: dict[str, Any], extra: list[str], name: str
    ) -> WordTokenizer:
        words = entry(path, description, "words", list)
        if not all(isinstance(word, str) and word for word in words):
            raise DataError(path, 1, "a word that is no string", "non-empty strings", "repair the list of words")
        return cls(
            words,
            lower=entry(path, description, "lower", bool),
            split=entry(path, description, "split", str),
            extra_specials=extra,
            name=name,
        )
