"""Which words may come next, and with what probability: everything between the scores and the choice.

Scores are float64 rows (V); a word that must not come has the score -inf.
"""

from collections.abc import Collection, Sequence

import numpy as np


def repeated(history: Sequence[int], n: int) -> set[int]:
    """The words that would complete an n-gram which the history holds already; n = 1: every word of the history."""
    if n < 1 or len(history) < n:
        return set()
    if n == 1:
        return set(history)
    last = tuple(history[-(n - 1) :])
    return {history[i + n - 1] for i in range(len(history) - n + 1) if tuple(history[i : i + n - 1]) == last}


def forbid(
    scores: np.ndarray, history: Sequence[int], no_repeat: int, eos: int | None, suppress: Collection[int]
) -> None:
    """Sets the scores of forbidden words to -inf, in place. The end of the text is never a repetition.   scores (V)"""
    banned = repeated(history, no_repeat) - {eos}
    banned.update(suppress)
    scores[[word for word in banned if word < len(scores)]] = -np.inf


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Scores as logarithms of probabilities; a row of -inf stays one."""
    top = scores.max()
    if top == -np.inf:
        return scores.copy()
    shifted = scores - top
    return shifted - np.log(np.exp(shifted).sum())


def probabilities(
    scores: np.ndarray, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> np.ndarray:
    """The distribution to draw from: sharpened (temperature < 1) or flattened (> 1), then cut to the top_k most likely
    words, then to the fewest words that reach probability top_p together. Equal scores: the smaller id comes first.

    scores (V) → (V)"""
    p = np.exp(log_softmax(scores / temperature))
    order = np.argsort(-p, kind="stable")
    if top_k is not None:
        p[order[top_k:]] = 0
        p /= p.sum()
    if top_p is not None:
        before = np.cumsum(p[order]) - p[order]  # the probability of all words ahead of this one
        p[order[1:][before[1:] >= top_p]] = 0
        p /= p.sum()
    return p


def draw(p: np.ndarray, u: float) -> int:
    """The word in whose share of the line from 0 to Σp the point u · Σp lies; u in [0, 1)."""
    possible = np.flatnonzero(p)
    ends = np.cumsum(p[possible])
    return int(possible[min(np.searchsorted(ends, u * ends[-1], side="right"), len(possible) - 1)])
