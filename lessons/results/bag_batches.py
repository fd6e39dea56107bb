"""Batches for guessing a bag of words: a part of a text is taken away, and must be told from what is left of it.

Where a word stood is not asked. To know which other words a text has, one must know what it is about and how it speaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitransformer.app.data import MaskedBatches, Tokenizer
from minitransformer.app.data.batches.bert import ordinary_words
from minitransformer.app.data.batches.padded import MASKS, Ids, with_start

TAKEN = 0.5
COMMON = 1e-3


class BagBatches(MaskedBatches):
    """A part `rate` of the ordinary words in `<sos>` and at most `max_len - 1` pieces is taken away, anew each epoch.

    ids (B, T) are `<sos>` and the pieces that are left, in their order; targets (B, K) those that were taken away, in
    any order. Not all that is taken is asked for, or "the" and "of" would be most of it: a word that makes up a part f
    of the documents is asked for with probability √(common / f), if that is less than 1. Other options are those of
    MaskedBatches."""

    specials = ()

    def __init__(
        self,
        documents: Sequence[Ids],
        tokenizer: Tokenizer,
        *,
        rate: float = TAKEN,
        common: float = COMMON,
        **options: Any,
    ):
        super().__init__(documents, tokenizer, rate=rate, **options)
        if not common > 0:
            raise ValueError(f"common={common}: give a part of the text, above 0")
        seen = np.zeros(tokenizer.vocab_size, dtype=np.int64)
        for place, number in enumerate(self._kept):
            row = with_start(documents[number], self.max_len)
            words = ordinary_words(row, tokenizer)
            np.add.at(seen, row[words], 1)
            self._lengths[place] -= self._taken(len(words))
        self._asked = np.sqrt(common * seen.sum() / np.maximum(seen, 1))  # (V,) how probably, where less than 1

    def _taken(self, words: int) -> int:
        return max(1, int(self.rate * words + 0.5))

    def _row(self, number: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """ids (T,) and targets (K,) of one document."""
        generator = np.random.default_rng([self.seed, epoch, MASKS, number])
        row = with_start(self.documents[number], self.max_len)
        words = ordinary_words(row, self.tokenizer)
        taken = generator.permutation(words)[: self._taken(len(words))]
        asked = taken[generator.random(len(taken)) < self._asked[row[taken]]]
        return np.delete(row, taken), row[asked if len(asked) else taken]
