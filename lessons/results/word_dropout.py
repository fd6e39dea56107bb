"""Batches of labelled texts that lose some of their words, so that no class hangs on a single one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from minitransformer.app.data import ClassifierBatch, ClassifierBatches

WORD_DROPOUT = 3  # what a generator of [seed, epoch, kind, row] is for, beside PAIRS and MASKS of batches.padded


class WordDropout:
    """Each word of the batches is replaced by `hidden` with probability `rate`, drawn anew each epoch."""

    def __init__(self, batches: ClassifierBatches, rate: float, hidden: int):
        if not 0 <= rate < 1:
            raise ValueError(f"rate={rate}: give a part of the words, from 0 to below 1")
        self.batches, self.rate, self.hidden = batches, rate, hidden

    def count(self, epoch: int = 0) -> int:
        return self.batches.count(epoch)

    def epoch(self, epoch: int = 0, start: int = 0) -> Iterator[ClassifierBatch]:
        return (self._thinned(batch, epoch) for batch in self.batches.epoch(epoch, start))

    def _thinned(self, batch: ClassifierBatch, epoch: int) -> ClassifierBatch:
        """A generator of its own for each row: what it loses does not depend on its company."""
        ids = batch.ids.copy()
        for row, number, length in zip(ids, batch.index, batch.lengths, strict=True):
            drawn = np.random.default_rng([self.batches.seed, epoch, WORD_DROPOUT, int(number)]).random(length - 1)
            row[1:length][drawn < self.rate] = self.hidden
        return replace(batch, ids=ids)
