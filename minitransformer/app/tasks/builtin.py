"""Text of the built-in language for training, validation and test: three parts that never share a seed.

Training draws new text every epoch, so that there is nothing to learn by heart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from minitransformer.app.data import WordTokenizer
from minitransformer.app.data.batches.padded import Batches
from minitransformer.app.language import Review, pairs, reviews
from minitransformer.app.tasks.text_codec import TextCodec

TRAINING, VALIDATION, TEST, LABELLED = range(4)
NAME = "the built-in language"
LABELS = ("negative", "positive")
VALIDATION_TEXTS, TEST_TEXTS = 400, 1000


def seed_of(part: int, seed: int, epoch: int = 0) -> int:
    """A seed of its own for each part, seed and epoch: the three numbers side by side in 63 bits."""
    return (part << 60) | ((seed % 2**32) << 28) | (epoch % 2**28)


class FreshBatches:
    """A source of batches whose every epoch is drawn anew, as a pure function of the epoch's number."""

    def __init__(self, make: Callable[[int], Batches[Any]]):
        self._make = make
        self._kept: tuple[int, Batches[Any]] | None = None

    def _at(self, epoch: int) -> Batches[Any]:
        if self._kept is None or self._kept[0] != epoch:
            self._kept = epoch, self._make(epoch)
        return self._kept[1]

    def count(self, epoch: int = 0) -> int:
        return self._at(epoch).count(epoch)

    def epoch(self, epoch: int = 0, start: int = 0) -> Iterator[Any]:
        return self._at(epoch).epoch(epoch, start)


def review_codec(extra_specials: Sequence[str] = ()) -> TextCodec:
    words = reviews().vocabulary()
    return TextCodec(WordTokenizer(words, split="spaces", extra_specials=extra_specials, name="built-in reviews"), "en")


def pair_codecs(shared: bool = False) -> tuple[TextCodec, TextCodec]:
    """shared: one vocabulary of both languages"""
    english, french = pairs().vocabulary()
    if shared:
        english = french = list(dict.fromkeys(english + french))
    return (
        TextCodec(WordTokenizer(english, split="spaces", name="built-in English"), "en"),
        TextCodec(WordTokenizer(french, split="spaces", name="built-in French"), "fr"),
    )


def review_ids(codec: TextCodec, n: int, part: int, seed: int = 0, epoch: int = 0) -> list[np.ndarray]:
    """Reviews without labels."""
    return [_ids(codec, words) for words in reviews().sample(n, seed_of(part, seed, epoch))]


def labelled_reviews(n: int, part: int, seed: int = 0) -> list[Review]:
    return reviews().sample_labelled(n, seed_of(part, seed))


def labelled_ids(codec: TextCodec, n: int, part: int, seed: int = 0) -> tuple[list[np.ndarray], list[int]]:
    drawn = labelled_reviews(n, part, seed)
    return [_ids(codec, review.words) for review in drawn], [review.label for review in drawn]


def pair_ids(
    codecs: tuple[TextCodec, TextCodec], n: int, part: int, seed: int = 0, epoch: int = 0
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    drawn = pairs().sample(n, seed_of(part, seed, epoch))
    sources = [_ids(codecs[0], pair.english) for pair in drawn]
    return sources, [_ids(codecs[1], pair.french) for pair in drawn]


def _ids(codec: TextCodec, words: tuple[str, ...]) -> np.ndarray:
    return np.array(codec.tokenizer.encode_pieces(words), dtype=np.int32)
