"""# The causal mask

A language model predicts the next word, so word t must not see the words after it. The scores of later words are set
to minus infinity *before* the softmax: exp(-∞) is exactly 0, and the remaining weights still sum to 1.

    weights[t, s] = softmax over s of (scores[t, s] if s ≤ t else -∞)

Example: scores [[0, 9], [0, 0]] give the weights [[1, 0], [0.5, 0.5]]: the first word sees only itself, however large
the other score is.

There may be fewer queries than keys. While a model writes, it keeps the keys of all words so far (a "cache"), because
they do not change any more, and only the newest words ask. So the T queries are the *last* T of S words: query t stands
at position t + S - T and sees the keys up to that one. With T = S, that is the formula above.

Example: one query and three keys, scores [[0, 0, 0]]: the query is the third word and sees all three, so that each has
the weight 1/3.
"""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "attention", "03", 1, 15
RESULTS = ("weights",)

SOLUTION = '''
import numpy as np


def causal_weights(scores):
    """scores (T, S) with S ≥ T; the queries are the last T of the S words  →  weights (T, S)"""
    T, S = scores.shape
    position = np.arange(T)[:, None] + S - T  # of each query among the S words
    allowed = np.arange(S)[None, :] <= position
    masked = np.where(allowed, scores, -np.inf)  # before the softmax, so that the rest still sums to 1
    e = np.exp(masked - masked.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
'''

ANOTHER = """
import numpy as np


def causal_weights(scores):
    T, S = scores.shape
    weights = np.zeros((T, S))
    for t in range(T):  # the softmax of the visible part alone
        seen = scores[t, : t + 1 + S - T]
        e = np.exp(seen - np.max(seen))
        weights[t, : len(seen)] = e / np.sum(e)
    return weights
"""


def expected(scores):
    """Through the engine's attention: queries and keys whose products are the scores, and the identity for values."""
    T, S = scores.shape
    q, k = scores[None, None], np.eye(S)[None, None]
    return F.attention(*map(Tensor, (q, k, k)), is_causal=True, scale=1.0, query_offset=S - T).numpy()[0, 0]


def cases():
    yield Case("the example", (np.array([[0.0, 9.0], [0.0, 0.0]]),))
    rng = np.random.default_rng(0)
    for T, S in ((1, 1), (3, 3), (1, 3), (2, 5), (9, 9)):
        yield Case(f"T = {T}, S = {S}", (rng.normal(size=(T, S)),))
    yield Case("scores around 1000", (rng.normal(size=(3, 4)) + 1000,))
