"""# The key-value cache

A model that writes asks attention for one new word at a time. Keys and values of the earlier words do not change:
they are kept, and only those of the new word are computed. What comes out must be exactly what the whole text at once
would give.

    for each new word x[t]:
        append x[t] wkᵀ to the keys, x[t] wvᵀ to the values
        out[t] = softmax(q · keys / √D) values,   q = x[t] wqᵀ

The new word sees itself and all earlier ones: no mask is needed, because later words are not there yet.

`cached_step` gets the new word, the cache (keys and values so far) and the weights, and returns the result *and the
new cache*. The given cache must stay as it is: other texts may still use it (beam search does).

Example: with an empty cache (0 rows) the word sees only itself, and out is its own value x wvᵀ.
"""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "decoding", "11", 2, 15
RESULTS = ("out", "keys", "values")

SOLUTION = '''
import numpy as np


def cached_step(x, keys, values, wq, wk, wv):
    """x (C); keys, values (S, D); wq, wk, wv (D, C)  →  out (D), keys (S+1, D), values (S+1, D)"""
    keys = np.concatenate([keys, (wk @ x)[None]])  # new arrays: whoever holds the old cache keeps it
    values = np.concatenate([values, (wv @ x)[None]])
    scores = keys @ (wq @ x) / np.sqrt(len(wq))  # the new word among them
    e = np.exp(scores - scores.max())
    return e / e.sum() @ values, keys, values
'''

ANOTHER = """
import numpy as np


def cached_step(x, keys, values, wq, wk, wv):
    S, D = keys.shape
    k, v = np.empty((S + 1, D)), np.empty((S + 1, D))
    k[:S], v[:S] = keys, values
    k[S], v[S] = x @ wk.T, x @ wv.T
    q = x @ wq.T / D**0.5
    top, total, out = -np.inf, 0.0, np.zeros(D)
    for s in range(S, -1, -1):  # online, from the newest word back
        score = q @ k[s]
        higher = max(top, score)
        out = out * np.exp(top - higher) + np.exp(score - higher) * v[s]
        total = total * np.exp(top - higher) + np.exp(score - higher)
        top = higher
    return out / total, k, v
"""


def expected(x, keys, values, wq, wk, wv):
    keys, values = np.vstack([keys, x @ wk.T]), np.vstack([values, x @ wv.T])
    query = (x @ wq.T)[None]
    out = F.attention(*(Tensor(one[None, None]) for one in (query, keys, values))).numpy()[0, 0, 0]
    return out, keys, values


def cases():
    rng = np.random.default_rng(0)
    for label, S, C, D in (
        ("an empty cache: the example", 0, 2, 2),
        ("one word in the cache", 1, 2, 2),
        ("three words", 3, 3, 2),
        ("larger", 9, 4, 5),
    ):
        yield Case(label, tuple(rng.normal(size=shape) for shape in ((C,), (S, D), (S, D), (D, C), (D, C), (D, C))))
    yield Case(
        "scores in the thousands",
        (*(60 * rng.normal(size=s) for s in ((2,), (2, 2), (2, 2))), *rng.normal(size=(3, 2, 2))),
    )
