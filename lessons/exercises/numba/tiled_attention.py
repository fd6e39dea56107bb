"""# Attention without the matrix of scores

For T queries and S keys the scores are T · S numbers: for long texts far more than everything else. They need never
exist. Go over the keys in tiles, and keep for each query three things only: the largest score so far, the sum of
exponentials, and the weighted sum of the values.

    for each tile of keys:
        scores of this query with the keys of the tile
        higher = max(top, largest of the tile)
        shrink = exp(top - higher)
        w      = exp(scores - higher)
        total  = total · shrink + Σ w
        acc    = acc · shrink + Σ w v          D numbers
        top    = higher
    out = acc / total                           scores are q · k / √D

`tile` is given; the last tile is shorter if S is no multiple of it. The queries are parallel. No array may have T · S
entries.

Example: with a single key, out is v[0] for every query, whatever the scores are.
"""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "numba", "09", 3, 35
KIND = "numba"
RESULTS = ("out",)

SOLUTION = '''
import numpy as np
from numba import njit, prange


@njit(parallel=True)
def tiled_attention(q, k, v, tile):
    """q (T, D); k, v (S, D); tile ≥ 1  →  out (T, D)"""
    T, D = q.shape
    S = k.shape[0]
    scale = 1.0 / np.sqrt(D)
    out = np.zeros((T, D))
    for t in prange(T):
        scores = np.empty(tile)  # of this query with the keys of one tile
        top, total = -np.inf, 0.0
        for first in range(0, S, tile):
            last = min(first + tile, S)
            higher = top
            for s in range(first, last):
                score = 0.0
                for d in range(D):
                    score += q[t, d] * k[s, d]
                scores[s - first] = score * scale
                higher = max(higher, scores[s - first])
            shrink = np.exp(top - higher)  # 0 for the first tile
            total *= shrink
            for d in range(D):
                out[t, d] *= shrink
            for s in range(first, last):
                w = np.exp(scores[s - first] - higher)
                total += w
                for d in range(D):
                    out[t, d] += w * v[s, d]
            top = higher
        for d in range(D):
            out[t, d] /= total
    return out
'''

ANOTHER = """
import numpy as np
from numba import njit


@njit
def tiled_attention(q, k, v, tile):
    T, D = q.shape
    out = np.empty((T, D))
    for t in range(T - 1, -1, -1):
        top, total, acc = -np.inf, 0.0, np.zeros(D)
        for s in range(k.shape[0] - 1, -1, -1):  # tiles of one key, from the last
            score = 0.0
            for d in range(D):
                score += q[t, d] * k[s, d] / D**0.5
            higher = max(top, score)
            shrink, w = np.exp(top - higher), np.exp(score - higher)
            total = total * shrink + w
            for d in range(D):
                acc[d] = acc[d] * shrink + w * v[s, d]
            top = higher
        out[t] = acc / total
    return out
"""


def expected(q, k, v, tile):
    return F.attention(*(Tensor(one[None, None]) for one in (q, k, v))).numpy()[0, 0]


def demands(case, counters):
    q, k, *_ = case.arguments
    most = 2 * max(q.size, k.size)
    if len(q) * len(k) > most and counters["largest_array"] > most:
        return (
            f"The numbers are right, but an array with {counters['largest_array']} entries is made for {len(q)} "
            f"queries and {len(k)} keys: the scores are not to be stored, only those of one tile."
        )
    return None


def cases():
    rng = np.random.default_rng(0)
    for label, T, S, D, tile in (
        ("the example: one key", 2, 1, 2, 4),
        ("one tile", 1, 2, 2, 2),
        ("tile of one key", 1, 3, 2, 1),
        ("two tiles, the last one short", 2, 5, 3, 3),
        ("three whole tiles", 3, 6, 2, 2),
        ("twelve words", 12, 12, 2, 5),
    ):
        yield Case(label, (rng.normal(size=(T, D)), rng.normal(size=(S, D)), rng.normal(size=(S, D)), tile))
    yield Case("scores in the thousands", (*(60 * rng.normal(size=(2, 2)) for _ in range(3)), 1))
    yield Case("longer", (*(rng.normal(size=(70, 8)) for _ in range(3)), 16), large=True)
