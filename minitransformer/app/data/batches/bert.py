"""BERT's batches: pairs of sentences, hidden words, and whether the second sentence follows the first.

`[CLS] first [SEP] second [SEP]`; segments are 0 up to the first `[SEP]` and 1 after it. 15 % of the ordinary
tokens are chosen: 80 % of them become `[MASK]`, 10 % a random piece, 10 % stay, and all must be predicted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from minitransformer.app.data.batches.padded import MASKS, PAD, PAIRS, Batches, Batching, Ids, check_max_len, right_pad
from minitransformer.app.data.batches.rows import Rows, wanted
from minitransformer.app.data.tokenizers.tokenizer import BASE_SPECIALS, Tokenizer

CHOSEN, MASKED, REPLACED = 0.15, 0.8, 0.1
FOLLOWS, RANDOM = 0, 1
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+")


@dataclass(frozen=True)
class BertBatch(Rows):
    ids: np.ndarray  # (B, T)
    segments: np.ndarray  # (B, T)  0 or 1; 0 at padding
    lengths: np.ndarray  # (B,)
    masked_targets: np.ndarray  # (B, T)  the hidden id where one was chosen, `ignore` elsewhere
    next_labels: np.ndarray  # (B,)  0: the second sentence follows the first; 1: it was drawn at random
    index: np.ndarray  # (B,)
    ignore: int

    def counts(self) -> tuple[int, ...]:
        """Hidden words, and pairs of sentences: its loss is the sum of two means."""
        return wanted(self.masked_targets, self.ignore), len(self.next_labels)


class BertBatches(Batches[BertBatch]):
    """`documents[d][s]` holds the ids of sentence s of document d. There is one row for each two consecutive
    sentences; in half of the rows, drawn anew each epoch, the second comes from another document."""

    def __init__(
        self,
        documents: Sequence[Sequence[Ids]],
        tokenizer: Tokenizer,
        *,
        max_len: int = 128,
        ignore: int = PAD,
        **batching: Unpack[Batching],
    ):
        super().__init__(**batching)
        check_max_len(max_len, 5)  # three specials and a token of each sentence
        self.tokenizer, self.max_len, self.ignore = tokenizer, max_len, ignore
        tokenizer.special("[MASK]")  # a tokenizer without one is refused here, not at the first batch
        self._sentences: list[np.ndarray] = []
        # Of each row: its first sentence, and the range of its document.
        first: list[int] = []
        begin: list[int] = []
        end: list[int] = []
        for document in documents:
            sentences = [np.asarray(s, dtype=np.int64) for s in document if len(s)]
            start, stop = len(self._sentences), len(self._sentences) + len(sentences)
            self._sentences += sentences
            first += range(start, stop - 1)
            begin += [start] * max(0, stop - start - 1)
            end += [stop] * max(0, stop - start - 1)
        if not first or len(self._sentences) < 3:
            raise ValueError("no two consecutive sentences, or no third to draw: give longer documents")
        self._first, self._begin, self._end = (np.array(each, dtype=np.int64) for each in (first, begin, end))
        self._sizes = np.array([len(sentence) for sentence in self._sentences], dtype=np.int64)

        self._drawn: tuple[int, np.ndarray, np.ndarray] | None = None  # of the epoch asked for last

    def pairs(self, epoch: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """The second sentence of each row `(n,)` and the label `(n,)`, FOLLOWS or RANDOM."""
        if self._drawn is not None and self._drawn[0] == epoch:
            return self._drawn[1:]
        generator = np.random.default_rng([self.seed, epoch, PAIRS])
        n, total = len(self._first), len(self._sentences)
        labels = np.where(generator.random(n) < 0.5, RANDOM, FOLLOWS)
        if self._end[0] - self._begin[0] == total:  # one document only: any sentence but the two of the pair
            begin, end = self._first, self._first + 2
        else:
            begin, end = self._begin, self._end
        drawn = generator.integers(0, total - (end - begin))
        drawn += np.where(drawn >= begin, end - begin, 0)  # step over the range that is left out
        second = np.where(labels == RANDOM, drawn, self._first + 1)
        self._drawn = epoch, second, labels
        return second, labels

    def lengths(self, epoch: int = 0) -> np.ndarray:
        second, _ = self.pairs(epoch)
        return np.minimum(self._sizes[self._first] + self._sizes[second] + 3, self.max_len)

    def build(self, index: np.ndarray, epoch: int = 0) -> BertBatch:
        second, labels = self.pairs(epoch)
        ids, segments, targets = [], [], []
        for row in index:
            a, b = self._sentences[self._first[row]], self._sentences[second[row]]
            tokens, segment = bert_inputs(self.tokenizer, a, b, max_len=self.max_len)
            # Each row has its own generator: its masks do not depend on the company it is in.
            generator = np.random.default_rng([self.seed, epoch, MASKS, int(row)])
            masked, target = hide(tokens, self.tokenizer, CHOSEN, self.ignore, generator)
            ids.append(masked)
            segments.append(segment)
            targets.append(target)
        return BertBatch(
            ids=right_pad(ids, PAD),
            segments=right_pad(segments, 0),
            lengths=np.array([len(row) for row in ids], dtype=np.int64),
            masked_targets=right_pad(targets, self.ignore),
            next_labels=labels[index],
            index=index,
            ignore=self.ignore,
        )


def ordinary_words(tokens: np.ndarray, tokenizer: Tokenizer) -> np.ndarray:
    """Where the words are that may be hidden: neither special nor unknown.   tokens (T,)"""
    return np.flatnonzero((tokens >= len(BASE_SPECIALS)) & (tokens < tokenizer.first_extra))


def hide(
    tokens: np.ndarray, tokenizer: Tokenizer, rate: float, ignore: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """ids and targets (T,). At least one token is chosen, unless all are special or unknown."""
    ordinary = ordinary_words(tokens, tokenizer)
    count = min(len(ordinary), max(1, int(rate * len(ordinary) + 0.5)))
    chosen = generator.permutation(ordinary)[:count]
    fate = generator.random(count)
    random_pieces = generator.integers(len(BASE_SPECIALS), tokenizer.first_extra, count)
    targets = np.full(len(tokens), ignore, dtype=np.int64)
    targets[chosen] = tokens[chosen]
    masked = tokens.copy()
    replaced = np.where(fate < MASKED + REPLACED, random_pieces, tokens[chosen])
    masked[chosen] = np.where(fate < MASKED, tokenizer.special("[MASK]"), replaced)
    return masked, targets


def bert_inputs(
    tokenizer: Tokenizer, first: Ids, second: Ids | None = None, *, max_len: int = 128
) -> tuple[np.ndarray, np.ndarray]:
    """ids and segments (T,) of `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`. Where that is longer
    than `max_len`, the longer sentence loses its end first."""
    cls, sep = tokenizer.special("[CLS]"), tokenizer.special("[SEP]")
    check_max_len(max_len, 3 if second is None else 5)
    if second is None:
        parts = [[cls], first[: max_len - 2], [sep]]
        segments = [0, 0, 0]
    else:
        room = max_len - 3
        keep_first, keep_second = len(first), len(second)
        if keep_first + keep_second > room:
            keep_first = min(keep_first, max(room - keep_second, room - room // 2))
            keep_second = room - keep_first
        parts = [[cls], first[:keep_first], [sep], second[:keep_second], [sep]]
        segments = [0, 0, 0, 1, 1]
    ids = np.concatenate([np.asarray(part, dtype=np.int64) for part in parts])
    return ids, np.repeat(np.array(segments, dtype=np.int64), [len(part) for part in parts])


def split_sentences(text: str) -> list[str]:
    """Cut after `.`, `!`, `?` and `…` before white space: rough, but right for text in pieces too."""
    return [sentence for sentence in _SENTENCE_END.split(text.strip()) if sentence]
