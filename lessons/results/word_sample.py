"""A sample of the vocabulary to score, instead of all of it, while a language model is trained.

The loss of a word is -log(exp(s_t) / Z) with Z = Σ exp(s_j) over all V words: with 50,001 of them, nine tenths of the
labs' model's work. Z can be estimated. Let each word j be in the sample with a probability q_j that is known; then

    Σ exp(s_j) / q_j  over the sample          has the mean  Z,

so s_j - log q_j takes the place of s_j, and what is learnt are still the scores of the full vocabulary (although the
words to be predicted are always in the sample: Jean and others, 2015; Ma and Collins, 2018). The words to be
predicted in a batch are taken to come independently of each other, which those of one text do not quite. Whoever
measures the model uses all words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Drawn:
    words: np.ndarray  # (K,) rising ids
    log_q: np.ndarray  # (K,) logarithm of the probability with which each is in a sample
    places: np.ndarray  # (V,) where a word stands in `words`, for those that do


class WordSample:
    """Words drawn by √frequency: the frequent ones nearly always, the rare ones seldom, and about `size` of them.

    counts (V)  how often each word is to be predicted in the training text"""

    def __init__(self, counts: np.ndarray, size: int):
        if not 1 <= size < len(counts):
            raise ValueError(f"a sample of {size:,} words: give at least 1, and fewer than all {len(counts):,}")
        seen = np.asarray(counts, dtype=np.float64) + 1  # a word that never comes must learn that
        self.frequency = seen / seen.sum()
        self.drawn = _scaled(np.sqrt(self.frequency), size)

    def draw(self, targets: np.ndarray, seed: int) -> Drawn:
        """targets (N): the words to be predicted, which are in the sample too."""
        chosen = np.random.default_rng(seed).random(len(self.drawn)) < self.drawn
        chosen[targets] = True
        words = np.flatnonzero(chosen)
        missed = (1 - self.drawn[words]) * (1 - self.frequency[words]) ** len(targets)  # neither drawn nor a target
        return Drawn(words, np.log1p(-missed), np.cumsum(chosen) - 1)


def _scaled(weights: np.ndarray, size: int) -> np.ndarray:
    """min(1, a · weights) with a such that their sum is size."""
    low, high = 0.0, size / weights.min()
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(1, middle * weights).sum() < size else (low, middle)
    return np.minimum(1, high * weights)
