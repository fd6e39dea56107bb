"""Batches for masked language modelling: a text with some of its words hidden, all of which must be found again.

Words are chosen and hidden by BERT's rule, but there are no pairs of sentences: each row is one document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from minitransformer.app.data.batches.bert import CHOSEN, hide, ordinary_words
from minitransformer.app.data.batches.padded import (
    MASKS,
    PAD,
    Batches,
    Batching,
    Ids,
    check_max_len,
    right_pad,
    with_start,
)
from minitransformer.app.data.batches.rows import Rows, wanted
from minitransformer.app.data.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class MaskedBatch(Rows):
    ids: np.ndarray  # (B, T)  <sos> and pieces, some of them hidden
    targets: np.ndarray  # (B, T)  the hidden id where one was chosen, `ignore` elsewhere
    lengths: np.ndarray  # (B,)
    index: np.ndarray  # (B,)
    ignore: int

    def counts(self) -> tuple[int, ...]:
        return (wanted(self.targets, self.ignore),)


class MaskedBatches(Batches[MaskedBatch]):
    """`<sos>` and at most `max_len - 1` pieces, a part `rate` of them hidden anew each epoch.

    A document without a single ordinary word there has nothing to hide, and is left out; `dropped` counts them."""

    specials: tuple[str, ...] = ("[MASK]",)  # that the tokenizer must have

    def __init__(
        self,
        documents: Sequence[Ids],
        tokenizer: Tokenizer,
        *,
        rate: float = CHOSEN,
        max_len: int = 512,
        ignore: int = PAD,
        **batching: Unpack[Batching],
    ):
        super().__init__(**batching)
        check_max_len(max_len, 2)
        if not 0 < rate <= 1:
            raise ValueError(f"rate={rate}: give a part of the words, above 0 and at most 1")
        for name in self.specials:
            tokenizer.special(name)  # a tokenizer without it is refused here, not at the first batch
        self.documents, self.tokenizer, self.rate = documents, tokenizer, rate
        self.max_len, self.ignore = max_len, ignore
        starts = (with_start(document, max_len) for document in documents)
        kept = [(number, len(row)) for number, row in enumerate(starts) if len(ordinary_words(row, tokenizer))]
        if len(documents) and not kept:
            raise ValueError("no document has a word to hide: all are empty or unknown to the tokenizer")
        self._kept, self._lengths = np.array(kept, dtype=np.int64).reshape(-1, 2).T
        self.dropped = len(documents) - len(kept)

    def lengths(self, epoch: int = 0) -> np.ndarray:
        return self._lengths

    def build(self, index: np.ndarray, epoch: int = 0) -> MaskedBatch:
        numbers = self._kept[index]
        hidden = [self._row(int(number), epoch) for number in numbers]
        return MaskedBatch(
            ids=right_pad([ids for ids, _ in hidden], PAD),
            targets=right_pad([targets for _, targets in hidden], self.ignore),
            lengths=self._lengths[index],
            index=numbers,
            ignore=self.ignore,
        )

    def _row(self, number: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """ids and targets (T,) of one document; its own generator makes them independent of its company."""
        generator = np.random.default_rng([self.seed, epoch, MASKS, number])
        return hide(with_start(self.documents[number], self.max_len), self.tokenizer, self.rate, self.ignore, generator)
