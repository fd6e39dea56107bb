"""# The padding mask

Sentences of different lengths are put into one batch by filling the short ones up. The filler is no word: no query
may look at it. Sentence b has `lengths[b]` words; the keys from there on get the score -∞ before the softmax.

    weights[b, t, s] = softmax over s of (scores[b, t, s] if s < lengths[b] else -∞)

A sentence of length 0 has nothing to look at: its weights are all 0 (not NaN, which 0/0 would give).

Example: scores [[[1, 1, 1]]] with lengths [2] give the weights [[[0.5, 0.5, 0]]].
"""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "attention", "03", 2, 15
RESULTS = ("weights",)

SOLUTION = '''
import numpy as np


def padded_weights(scores, lengths):
    """scores (B, T, S); lengths (B) integers from 0 to S  →  weights (B, T, S)"""
    real = np.arange(scores.shape[-1])[None, None, :] < lengths[:, None, None]  # (B, 1, S): the same for every query
    masked = np.where(real, scores, -np.inf)
    top = masked.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)  # of an empty sentence: -inf - -inf would be NaN
    e = np.exp(masked - top)
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)
'''

ANOTHER = """
import numpy as np


def padded_weights(scores, lengths):
    weights = np.zeros(scores.shape)
    for b in range(scores.shape[0]):
        n = int(lengths[b])
        if n == 0:
            continue
        for t in range(scores.shape[1]):  # the softmax of the real words alone
            e = np.exp(scores[b, t, :n] - np.max(scores[b, t, :n]))
            weights[b, t, :n] = e / np.sum(e)
    return weights
"""


def expected(scores, lengths):
    """Through the engine's attention: queries and keys whose products are the scores, and the identity for values."""
    B, T, S = scores.shape
    k = np.broadcast_to(np.eye(S), (B, 1, S, S)).copy()
    return F.attention(*map(Tensor, (scores[:, None], k, k)), key_lengths=lengths, scale=1.0).numpy()[:, 0]


def cases():
    yield Case("the example", (np.ones((1, 1, 3)), np.array([2])))
    rng = np.random.default_rng(0)
    for label, B, T, lengths in (
        ("one word and one filler", 1, 1, [1]),
        ("two queries", 1, 2, [2]),
        ("two sentences", 2, 1, [3, 1]),
        ("longer sentence last", 3, 2, [1, 2, 4]),
        ("nothing to mask", 2, 3, [5, 5]),
        ("an empty sentence", 2, 2, [2, 0]),
    ):
        S = max(lengths) + (label.startswith("one") or label == "two queries")
        yield Case(label, (rng.normal(size=(B, T, S)), np.array(lengths)))
    yield Case("scores around 1000", (rng.normal(size=(1, 2, 3)) + 1000, np.array([2])))
