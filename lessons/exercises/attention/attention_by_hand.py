"""# Attention by hand

Every word asks a question, its *query*; every word offers a *key* and a *value*. The products of a query with all
keys are scores; softmax turns them into weights that sum to 1; the result is the mean of the values with these
weights.

    scores  = q kᵀ / √D                 (T, S)
    weights = softmax(scores)           along each row
    out     = weights v                 (T, D)

The division keeps scores from growing with the width D. Before exp, subtract the largest score of each row, or large
scores overflow.

Example: q = [[1, 0]], k = [[1, 0], [0, 1]], v = [[10, 0], [0, 10]]. The scores are [0.7071, 0], the weights [0.6698,
0.3302], the result [[6.698, 3.302]].
"""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.exercises.exercise import Case, code, edit

TRACK, LESSON, LEVEL, MINUTES = "attention", "02", 1, 15
RESULTS = ("out",)

HINTS = (
    "q @ k.T gives all scores at once: row t holds the scores of query t with every key.",
    "Softmax along the last axis: axis=-1 with keepdims=True, so that the division goes row by row.",
    "e = exp(scores - largest of the row); weights = e / sum of the row; return weights @ v.",
)

SOLUTION = '''
import numpy as np


def attention(q, k, v):
    """q (T, D); k, v (S, D)  →  out (T, D)"""
    scores = q @ k.T / np.sqrt(q.shape[-1])  # (T, S)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))  # the largest becomes 1: nothing overflows
    weights = e / e.sum(axis=-1, keepdims=True)  # every row sums to 1
    return weights @ v
'''

ANOTHER = """
import math

import numpy as np


def attention(q, k, v):
    out = np.zeros((len(q), v.shape[1]))
    for t in range(len(q)):
        scores = [math.fsum(a * b for a, b in zip(q[t], k[s])) / math.sqrt(len(q[t])) for s in range(len(k))]
        top = max(scores)
        total = 0.0
        for s in reversed(range(len(k))):  # from the last key to the first, dividing at the end
            w = math.exp(scores[s] - top)
            out[t] += w * v[s]
            total += w
        out[t] /= total
    return out
"""

WRONG = {
    "no scale": edit(" / np.sqrt(q.shape[-1])", "", tell="The scores are not divided by √D."),
    "divided by D": edit("np.sqrt(q.shape[-1])", "q.shape[-1]", tell="The scores are divided by D; it is √D."),
    "scale of the number of keys": edit(
        "q.shape[-1]",
        "len(k)",
        tell="The scores are divided by the root of the number of keys; it is the root of the width D.",
    ),
    "overflow": edit("scores - scores.max(axis=-1, keepdims=True)", "scores", says="overflows"),
    "wrong axis": edit(
        "e.sum(axis=-1, keepdims=True)",
        "e.sum(axis=0, keepdims=True)",
        tell="The weights are normalized over the queries; each row, over the keys, must sum to 1.",
    ),
    "all together": edit(
        "e.sum(axis=-1, keepdims=True)", "e.sum()", tell="All weights together sum to 1; each row must."
    ),
    "no softmax": edit(
        "return weights @ v",
        "return scores @ v",
        tell="The scores themselves weigh the values: the softmax is missing.",
    ),
    "not normalized": edit(
        "return weights @ v", "return e @ v", tell="exp without the division: the weights do not sum to 1."
    ),
    "queries and keys swapped": edit("q @ k.T", "k @ q.T", says="rror"),
    "keys for values": edit(
        "weights @ v", "weights @ k", tell="The mean of the keys is returned; the values are what is averaged."
    ),
    "hard choice": edit(
        "return weights @ v",
        "return v[weights.argmax(axis=-1)]",
        tell="Only the value with the largest weight is taken; softmax mixes them all.",
    ),
    "squared distance": edit(
        "q @ k.T",
        "-((q[:, None] - k[None]) ** 2).sum(-1)",
        tell="The scores are distances; attention takes products of queries and keys.",
    ),
    "only the example": code(
        """
import numpy as np


def attention(q, k, v):
    return np.array([[6.69761549, 3.30238451]])
""",
        says="expected",
    ),
    "the engine's own": code(
        """
import autograd.functional as F
from autograd import Tensor


def attention(q, k, v):
    return F.attention(*(Tensor(one[None, None]) for one in (q, k, v))).numpy()[0, 0]
""",
        says="not to call",
    ),
}


def expected(q, k, v):
    return F.attention(*(Tensor(one[None, None]) for one in (q, k, v))).numpy()[0, 0]


def cases():
    yield Case("the example", (np.array([[1.0, 0.0]]), np.eye(2), 10 * np.eye(2)))
    rng = np.random.default_rng(0)
    for label, T, S, D in (
        ("one word", 1, 1, 1),
        ("one query, three keys", 1, 3, 2),
        ("two queries, three keys", 2, 3, 4),
        ("three and three", 3, 3, 3),
        ("larger", 9, 7, 6),
    ):
        yield Case(label, tuple(rng.normal(size=shape) for shape in ((T, D), (S, D), (S, D))))
    yield Case("scores in the thousands", tuple(rng.normal(size=(2, 2)) * 60 for _ in range(3)))
