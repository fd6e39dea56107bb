"""How good a model is: loss per word, accuracy with its interval, translations against references."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import autograd.functional as F
from autograd import no_grad
from minitransformer.app.ranks import shared


def language_model_loss(model: Any, batches: Iterable[Any]) -> dict[str, float]:
    """Nats per word to be predicted, every one of all batches counted alike."""

    def numbers(batch: Any) -> tuple[float, ...]:
        count = int((batch.targets != batch.ignore).sum())
        return count * float(word_loss(model, batch)), count

    total, words = _summed(numbers, batches)
    return {"loss": total / words}


def _summed(numbers: Callable[[Any], tuple[float, ...]], batches: Iterable[Any]) -> list[float]:
    """Of all batches, in their order; the work is shared by the ranks of a training."""
    with no_grad():
        rows = shared(numbers, batches)
    totals = [0.0] * len(rows[0])
    for row in rows:  # one after the other: the built-in sum rounds differently from version to version of Python
        totals = [total + number for total, number in zip(totals, row, strict=True)]
    return totals


def word_loss(model: Any, batch: Any) -> Any:
    """A language model's loss, of the next words or of the hidden ones."""
    return model.loss(batch.ids, batch.targets, ignore_index=batch.ignore, lengths=batch.lengths)


def translator_loss(model: Any, batches: Iterable[Any]) -> dict[str, float]:
    """Nats per word of the target, end of sentence included."""

    def numbers(batch: Any) -> tuple[float, ...]:
        count = int(batch.target_lengths.sum())
        return count * float(translation_loss(model, batch)), count

    total, words = _summed(numbers, batches)
    return {"loss": total / words}


def translation_loss(model: Any, batch: Any, label_smoothing: float = 0.0) -> Any:
    return model.loss(
        batch.source, batch.target_in, batch.target_out, source_lengths=batch.source_lengths,
        ignore_index=batch.ignore, label_smoothing=label_smoothing,
    )  # fmt: skip


def class_probabilities(model: Any, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """(B, classes)"""
    with no_grad():
        return F.softmax(model(ids, lengths)).numpy()


def classifier_scores(model: Any, batches: Iterable[Any]) -> dict[str, float]:
    """Mean loss and the part of the texts whose likeliest class is the right one."""

    def numbers(batch: Any) -> tuple[float, ...]:
        logits, count = model(batch.ids, batch.lengths), len(batch.labels)
        right = int((logits.numpy().argmax(axis=1) == batch.labels).sum())
        return count * float(F.cross_entropy(logits, batch.labels)), right, count

    loss, right, count = _summed(numbers, batches)
    return {"loss": loss / count, "accuracy": right / count}


def wilson(right: int, count: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's 95 % interval for a proportion: honest also near 0 and 1, where right ± 2 standard errors is not."""
    p, spread = right / count, z * z / count
    centre = (p + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(p * (1 - p) / count + spread / (4 * count))
    return max(0.0, centre - half), min(1.0, centre + half)


def bleu(translations: Sequence[str], references: Sequence[str], lowercase: bool = False) -> float:
    """sacrebleu's corpus BLEU with its own tokenization; lowercase: capitals do not count."""
    import sacrebleu

    return float(sacrebleu.corpus_bleu(list(translations), [list(references)], lowercase=lowercase).score)


def exact_matches(translations: Sequence[str], accepted: Sequence[Iterable[str]]) -> int:
    """How many translations are, word for word, among those accepted."""
    return sum(text in set(right) for text, right in zip(translations, accepted, strict=True))
