"""Batches for guessing a bag of words: a part of a text is taken away, and must be told from what is left of it.

Where a word stood is not asked. To know which other words a text has, one must know what it is about and how it speaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minitransformer.app.data.batches.bert import ordinary_words
from minitransformer.app.data.batches.ordering import BUCKET_BATCHES
from minitransformer.app.data.batches.padded import MASKS, PAD, Batches, Ids, check_max_len, right_pad, with_start
from minitransformer.app.data.tokenizers.tokenizer import Tokenizer

TAKEN = 0.5
COMMON = 1e-3


@dataclass(frozen=True)
class BagBatch:
    ids: np.ndarray  # (B, T)  <sos> and the pieces that are left, in their order
    targets: np.ndarray  # (B, K)  pieces that were taken away, in any order; `ignore` behind them
    lengths: np.ndarray  # (B,)
    index: np.ndarray  # (B,)
    ignore: int


class BagBatches(Batches[BagBatch]):
    """A part `rate` of the ordinary words in `<sos>` and at most `max_len - 1` pieces is taken away, anew each epoch.

    Not all that is taken is asked for, or "the" and "of" would be most of it: a word that makes up a part f of the
    documents is asked for with probability √(common / f), if that is less than 1. A document without a single ordinary
    word is left out; `dropped` counts them."""

    def __init__(
        self,
        documents: Sequence[Ids],
        tokenizer: Tokenizer,
        *,
        rate: float = TAKEN,
        common: float = COMMON,
        max_len: int = 512,
        rows: int | None = None,
        tokens: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        ignore: int = PAD,
        bucket_batches: int = BUCKET_BATCHES,
    ):
        super().__init__(rows=rows, tokens=tokens, seed=seed, shuffle=shuffle, bucket_batches=bucket_batches)
        check_max_len(max_len, 2)
        if not 0 < rate <= 1:
            raise ValueError(f"rate={rate}: give a part of the words, above 0 and at most 1")
        if not common > 0:
            raise ValueError(f"common={common}: give a part of the text, above 0")
        self.documents, self.tokenizer, self.rate = documents, tokenizer, rate
        self.max_len, self.ignore = max_len, ignore
        seen = np.zeros(tokenizer.vocab_size, dtype=np.int64)
        kept, lengths = [], []
        for number, document in enumerate(documents):
            row = with_start(document, max_len)
            words = ordinary_words(row, tokenizer)
            if len(words):
                np.add.at(seen, row[words], 1)
                kept.append(number)
                lengths.append(len(row) - self._taken(len(words)))
        if len(documents) and not kept:
            raise ValueError("no document has a word to take away: all are empty or unknown to the tokenizer")
        self._kept, self._lengths = np.array(kept, dtype=np.int64), np.array(lengths, dtype=np.int64)
        self._asked = np.sqrt(common * seen.sum() / np.maximum(seen, 1))  # (V,) how probably, where less than 1
        self.dropped = len(documents) - len(kept)

    def _taken(self, words: int) -> int:
        return max(1, int(self.rate * words + 0.5))

    def lengths(self, epoch: int = 0) -> np.ndarray:
        return self._lengths

    def build(self, index: np.ndarray, epoch: int = 0) -> BagBatch:
        numbers = self._kept[index]
        rows = [self._row(int(number), epoch) for number in numbers]
        return BagBatch(
            ids=right_pad([ids for ids, _ in rows], PAD),
            targets=right_pad([targets for _, targets in rows], self.ignore),
            lengths=self._lengths[index],
            index=numbers,
            ignore=self.ignore,
        )

    def _row(self, number: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """ids (T,) and targets (K,) of one document; its own generator makes them independent of its company."""
        generator = np.random.default_rng([self.seed, epoch, MASKS, number])
        row = with_start(self.documents[number], self.max_len)
        words = ordinary_words(row, self.tokenizer)
        taken = generator.permutation(words)[: self._taken(len(words))]
        asked = taken[generator.random(len(taken)) < self._asked[row[taken]]]
        return np.delete(row, taken), row[asked if len(asked) else taken]
