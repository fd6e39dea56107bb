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
from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "attention", "02", 1, 15
RESULTS = ("out",)

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


def expected(q, k, v):
    return F.attention(*(Tensor(one[None, None]) for one in (q, k, v))).numpy()[0, 0]


def cases():
    yield Case("the example", (np.array([[1.0, 0.0]]), np.eye(2), 10 * np.eye(2)))
    rng = np.random.default_rng(0)
    for T, S, D in ((1, 1, 1), (1, 3, 2), (2, 3, 4), (3, 3, 3), (9, 7, 6)):
        yield Case(f"T = {T}, S = {S}, D = {D}", tuple(rng.normal(size=shape) for shape in ((T, D), (S, D), (S, D))))
    yield Case("scores in the thousands", tuple(rng.normal(size=(2, 2)) * 60 for _ in range(3)))
