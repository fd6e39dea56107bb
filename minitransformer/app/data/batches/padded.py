"""Right-padded batches for language modelling, classification and translation.

Shapes: B batch, T positions, S source positions. All arrays are int64. `index (B,)` says which document
each row is. Each class of batches is a pure function of (seed, epoch): `epoch(3, start=120)` goes on where a
run stopped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypedDict, TypeVar, Unpack

import numpy as np

from minitransformer.app.data.batches.ordering import BUCKET_BATCHES, batch_order, padding_fraction
from minitransformer.app.data.batches.rows import Rows, wanted
from minitransformer.app.data.tokenizers.tokenizer import Tokenizer

SOS, PAD, EOS = Tokenizer.sos, Tokenizer.pad, Tokenizer.eos
# Which numbers a generator of [seed, epoch, kind] is for; 0 would repeat those that order the batches, [seed, epoch].
PAIRS, MASKS = 1, 2
Ids = Sequence[int] | np.ndarray
AnyBatch = TypeVar("AnyBatch")


@dataclass(frozen=True)
class LanguageModelBatch(Rows):
    ids: np.ndarray  # (B, T)  <sos> and pieces
    targets: np.ndarray  # (B, T)  the id that follows; `ignore` at padding
    lengths: np.ndarray  # (B,)
    index: np.ndarray  # (B,)
    ignore: int

    def counts(self) -> tuple[int, ...]:
        return (wanted(self.targets, self.ignore),)


@dataclass(frozen=True)
class ClassifierBatch(Rows):
    ids: np.ndarray  # (B, T)  <sos> and pieces
    lengths: np.ndarray  # (B,)
    labels: np.ndarray  # (B,)
    index: np.ndarray  # (B,)

    def counts(self) -> tuple[int, ...]:
        return (len(self.labels),)


@dataclass(frozen=True)
class TranslationBatch(Rows):
    source: np.ndarray  # (B, S)  pieces and <eos>
    source_lengths: np.ndarray  # (B,)
    target_in: np.ndarray  # (B, T)  <sos> and pieces
    target_out: np.ndarray  # (B, T)  pieces and <eos>; `ignore` at padding
    target_lengths: np.ndarray  # (B,)
    index: np.ndarray  # (B,)
    ignore: int

    def counts(self) -> tuple[int, ...]:
        return (wanted(self.target_out, self.ignore),)


class Batching(TypedDict, total=False):
    """The options that all kinds of batches take; `Batches` has their defaults."""

    rows: int | None
    tokens: int | None
    seed: int
    shuffle: bool
    bucket_batches: int


class Batches(ABC, Generic[AnyBatch]):
    """What all kinds share. `rows`, `tokens`, `shuffle` and `bucket_batches` are those of `batch_order`."""

    def __init__(
        self,
        *,
        rows: int | None = None,
        tokens: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        bucket_batches: int = BUCKET_BATCHES,
    ):
        if rows is None and tokens is None:
            rows = 16
        self.rows, self.tokens, self.seed = rows, tokens, seed
        self.shuffle, self.bucket_batches = shuffle, bucket_batches

    @abstractmethod
    def lengths(self, epoch: int) -> np.ndarray:
        """(n,) or (n, 2): positions of each document as the batches will hold it."""

    @abstractmethod
    def build(self, index: np.ndarray, epoch: int) -> AnyBatch:
        """The batch of the documents `index (B,)`."""

    def order(self, epoch: int = 0) -> list[np.ndarray]:
        """The documents of each batch of an epoch."""
        return batch_order(
            self.lengths(epoch),
            rows=self.rows,
            tokens=self.tokens,
            seed=self.seed,
            epoch=epoch,
            shuffle=self.shuffle,
            bucket_batches=self.bucket_batches,
        )

    def count(self, epoch: int = 0) -> int:
        """Batches in an epoch. The same for every epoch, unless `tokens` limits them."""
        return len(self.order(epoch))

    def padding_fraction(self, epoch: int = 0) -> float:
        """The part of an epoch's positions that is padding."""
        return padding_fraction(self.lengths(epoch), self.order(epoch))

    def epoch(self, epoch: int = 0, start: int = 0) -> Iterator[AnyBatch]:
        """The batches of an epoch in order, from batch `start` on."""
        order = self.order(epoch)
        if not 0 <= start <= len(order):
            raise ValueError(f"start={start}: epoch {epoch} has {len(order)} batches")
        return (self.build(index, epoch) for index in order[start:])


class LanguageModelBatches(Batches[LanguageModelBatch]):
    """`<sos>` and at most `max_len - 1` pieces; the targets are the pieces that follow, and `<eos>` where the document
    really ends: a longer one is left in the middle (the labs' batches say `<eos>` there, too).

    With `windows=True` a longer document is not left but cut: `<sos> pieces <eos>` is walked in steps of `max_len`, and
    each target is predicted exactly once."""

    def __init__(
        self,
        documents: Sequence[Ids],
        *,
        max_len: int = 512,
        windows: bool = False,
        ignore: int = PAD,
        **batching: Unpack[Batching],
    ):
        super().__init__(**batching)
        check_max_len(max_len, 2)
        self.documents, self.max_len, self.ignore = documents, max_len, ignore
        starts: list[tuple[int, int, int]] = []  # document, first position, positions
        for number, document in enumerate(documents):
            positions = len(document) + 1
            if not windows:
                starts.append((number, 0, min(positions, max_len)))
            else:
                for first in range(0, positions, max_len):
                    starts.append((number, first, min(max_len, positions - first)))
        self._windows = np.array(starts, dtype=np.int64).reshape(-1, 3)

    def lengths(self, epoch: int = 0) -> np.ndarray:
        return self._windows[:, 2]

    def build(self, index: np.ndarray, epoch: int = 0) -> LanguageModelBatch:
        inputs, targets = [], []
        for number, first, length in self._windows[index]:
            stream = np.concatenate(([SOS], np.asarray(self.documents[number], dtype=np.int64), [EOS]))
            inputs.append(stream[first : first + length])
            targets.append(stream[first + 1 : first + 1 + length])
        return LanguageModelBatch(
            ids=right_pad(inputs, PAD),
            targets=right_pad(targets, self.ignore),
            lengths=self._windows[index, 2],
            index=self._windows[index, 0],
            ignore=self.ignore,
        )


class ClassifierBatches(Batches[ClassifierBatch]):
    """`<sos>` and at most `max_len - 1` pieces, with the class of each document."""

    def __init__(
        self,
        documents: Sequence[Ids],
        labels: Sequence[int] | np.ndarray,
        *,
        max_len: int = 512,
        **batching: Unpack[Batching],
    ):
        super().__init__(**batching)
        check_max_len(max_len, 1)
        if len(documents) != len(labels):
            raise ValueError(f"{len(documents)} documents with {len(labels)} labels: give one label each")
        self.documents, self.max_len = documents, max_len
        self.labels = np.asarray(labels, dtype=np.int64)
        self._lengths = np.array([min(len(document) + 1, max_len) for document in documents], dtype=np.int64)

    def lengths(self, epoch: int = 0) -> np.ndarray:
        return self._lengths

    def build(self, index: np.ndarray, epoch: int = 0) -> ClassifierBatch:
        rows = [with_start(self.documents[number], self.max_len) for number in index]
        return ClassifierBatch(right_pad(rows, PAD), self._lengths[index], self.labels[index], index)


class TranslationBatches(Batches[TranslationBatch]):
    """Source `pieces <eos>`, decoder input `<sos> pieces`, decoder target `pieces <eos>`, each at most
    `max_len` long. A pair with a longer side is truncated, or left out with `drop_long=True`: a truncated
    translation teaches the model to stop in mid-sentence. `dropped` counts those left out."""

    def __init__(
        self,
        sources: Sequence[Ids],
        targets: Sequence[Ids],
        *,
        max_len: int = 64,
        drop_long: bool = False,
        ignore: int = PAD,
        **batching: Unpack[Batching],
    ):
        super().__init__(**batching)
        check_max_len(max_len, 2)
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources with {len(targets)} targets: give pairs")
        self.sources, self.targets, self.max_len, self.ignore = sources, targets, max_len, ignore
        sizes = np.array([(len(s) + 1, len(t) + 1) for s, t in zip(sources, targets, strict=True)])
        sizes = sizes.astype(np.int64).reshape(-1, 2)
        keep = (sizes <= max_len).all(axis=1) if drop_long else np.ones(len(sizes), dtype=bool)
        if len(sizes) and not keep.any():
            raise ValueError(f"every pair is longer than max_len={max_len}: raise it, or truncate")
        self._kept = np.flatnonzero(keep)
        self._lengths = np.minimum(sizes[self._kept], max_len)
        self.dropped = len(sizes) - len(self._kept)

    def lengths(self, epoch: int = 0) -> np.ndarray:
        return self._lengths

    def build(self, index: np.ndarray, epoch: int = 0) -> TranslationBatch:
        numbers = self._kept[index]
        return TranslationBatch(
            source=right_pad([_with_end(self.sources[n], self.max_len) for n in numbers], PAD),
            source_lengths=self._lengths[index, 0],
            target_in=right_pad([with_start(self.targets[n], self.max_len) for n in numbers], PAD),
            target_out=right_pad([_with_end(self.targets[n], self.max_len) for n in numbers], self.ignore),
            target_lengths=self._lengths[index, 1],
            index=numbers,
            ignore=self.ignore,
        )


def right_pad(rows: Sequence[Ids], value: int) -> np.ndarray:
    """(B, T) int64 from B sequences of at most T ids, `value` where a row has ended."""
    padded = np.full((len(rows), max(map(len, rows), default=0)), value, dtype=np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded


def check_max_len(max_len: int, least: int) -> None:
    if max_len < least:
        raise ValueError(f"max_len={max_len}: give at least {least}")


def with_start(document: Ids, max_len: int) -> np.ndarray:
    return np.concatenate(([SOS], np.asarray(document[: max_len - 1], dtype=np.int64)))


def _with_end(document: Ids, max_len: int) -> np.ndarray:
    return np.concatenate((np.asarray(document[: max_len - 1], dtype=np.int64), [EOS]))
