"""Which documents share a batch, and in which order the batches come: a pure function of lengths and seed.

Documents are shuffled, cut into buckets of some dozens of batches, sorted by length inside each bucket and
cut into batches; then the batches are shuffled. A batch thus holds documents of nearly one length (little
padding), yet neither its company nor its place repeats from epoch to epoch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

BUCKET_BATCHES = 50


def batch_order(
    lengths: np.ndarray,
    *,
    rows: int | None = None,
    tokens: int | None = None,
    seed: int = 0,
    epoch: int = 0,
    shuffle: bool = True,
    bucket_batches: int = BUCKET_BATCHES,
) -> list[np.ndarray]:
    """The indices of each batch's documents. Every document is in exactly one batch.

    lengths  (n,) or (n, k)   k sequences that are padded apart, such as source and target: k = 2
    rows     at most so many documents a batch; with rows alone there are ceil(n / rows) batches
    tokens   at most so many positions a batch, padding included: B * sum over k of the longest
    shuffle  False: all documents sorted by length, for evaluation

    The same arguments give the same order, so training resumes at batch k with `batch_order(...)[k:]`.
    """
    lengths = _columns(lengths)
    n = len(lengths)
    if rows is None and tokens is None:
        raise ValueError("rows and tokens are both None: give rows per batch, tokens per batch, or both")
    for name, value in (("rows", rows), ("tokens", tokens), ("bucket_batches", bucket_batches)):
        if value is not None and value < 1:
            raise ValueError(f"{name}={value}: give at least 1")
    if seed < 0 or epoch < 0:
        raise ValueError(f"seed={seed}, epoch={epoch}: give whole numbers from 0")
    longest = int(lengths.sum(axis=1).max())
    if tokens is not None and longest > tokens:
        raise ValueError(f"a document has {longest} positions: raise tokens={tokens} or lower max_len")

    generator = np.random.default_rng([seed, epoch])
    documents = generator.permutation(n) if shuffle else np.arange(n)
    per_batch = n if rows is None else rows
    if tokens is not None:
        per_batch = min(per_batch, max(1, int(tokens / max(1.0, lengths.sum(axis=1).mean()))))
    # A whole number of batches to a bucket: only the last bucket ends in a short batch.
    size = bucket_batches * per_batch if shuffle else n
    batches: list[np.ndarray] = []
    for start in range(0, n, size):
        bucket = documents[start : start + size]
        # lexsort is stable, so that equal lengths keep their shuffled order.
        bucket = bucket[np.lexsort(lengths[bucket].T)]
        batches += [bucket[a:b] for a, b in _cuts(lengths[bucket], rows, tokens)]
    if shuffle:
        batches = [batches[i] for i in generator.permutation(len(batches))]
    return batches


def padding_fraction(lengths: np.ndarray, batches: list[np.ndarray]) -> float:
    """The part of all positions of all batches that is padding."""
    lengths = _columns(lengths)
    held = sum(int(lengths[batch].sum()) for batch in batches)
    positions = sum(len(batch) * int(lengths[batch].max(axis=0).sum()) for batch in batches)
    return 1.0 - held / positions


def _columns(lengths: np.ndarray) -> np.ndarray:
    """(n, k), also from (n,)"""
    lengths = np.asarray(lengths)
    if len(lengths) == 0:
        raise ValueError("no documents: give at least one")
    return lengths.reshape(len(lengths), -1)


def _cuts(lengths: np.ndarray, rows: int | None, tokens: int | None) -> Iterator[tuple[int, int]]:
    """Ranges of consecutive documents, each as long as the limits allow. lengths (n, k)"""
    n = len(lengths)
    if tokens is None:
        assert rows is not None
        yield from ((start, min(start + rows, n)) for start in range(0, n, rows))
        return
    start = 0
    widest = lengths[0]
    for i in range(n):
        wider = np.maximum(widest, lengths[i])
        if i > start and ((i + 1 - start) * wider.sum() > tokens or i - start == rows):
            yield start, i
            start, wider = i, lengths[i]
        widest = wider
    yield start, n
