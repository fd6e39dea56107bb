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
from lessons.exercises.exercise import Case, code, edit

TRACK, LESSON, LEVEL, MINUTES = "decoding", "11", 2, 15
RESULTS = ("out", "keys", "values")

HINTS = (
    "First extend the cache: np.concatenate makes a new array, and leaves the old one alone.",
    "Then ordinary attention of one query with all S + 1 keys.",
    "scores = keys @ q / √D is (S+1); softmax of it; weights @ values is (D).",
)

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

WRONG = {
    "does not see itself": edit(
        "scores = keys @",
        "scores = keys[:-1] @",
        "return e / e.sum() @ values,",
        "return e / e.sum() @ values[:-1],",
        says="rror",
    ),
    "cache not extended": edit("@ values, keys, values", "@ values, keys[:-1], values[:-1]", says="shape"),
    "new word in front": edit(
        "[keys, (wk @ x)[None]]",
        "[(wk @ x)[None], keys]",
        "[values, (wv @ x)[None]]",
        "[(wv @ x)[None], values]",
        tell="The new word is put before the others; it comes last.",
    ),
    "keys and values exchanged": edit("@ values, keys, values", "@ values, values, keys", says="swapped"),
    "wk for values": edit("wv @ x", "wk @ x", says="expected"),
    "no scale": edit(" / np.sqrt(len(wq))", "", tell="The scores are not divided by √D."),
    "scale by the number of words": edit(
        "np.sqrt(len(wq))",
        "np.sqrt(len(keys))",
        tell="The scores are divided by the root of the number of words; it is the root of the width D.",
    ),
    "x for the query": edit(
        "keys @ (wq @ x)", "keys @ (wk @ x)", tell="The query is made with wk; it has its own matrix, wq."
    ),
    "oldest word thrown away": edit("@ values, keys, values", "@ values, keys[1:], values[1:]", says="shape"),
    "not normalized": edit("e / e.sum() @ values", "e @ values", tell="The weights are not divided by their sum."),
    "old values": edit("return e / e.sum() @ values,", "return e[:-1] / e[:-1].sum() @ values[:-1],", says="expected"),
    "cache overwritten": code(
        """
import numpy as np


def cached_step(x, keys, values, wq, wk, wv):
    new_keys = np.concatenate([keys, (wk @ x)[None]])
    new_values = np.concatenate([values, (wv @ x)[None]])
    scores = new_keys @ (wq @ x) / np.sqrt(len(wq))
    e = np.exp(scores - scores.max())
    keys *= 0
    return e / e.sum() @ new_values, new_keys, new_values
""",
        says="writes to its inputs",
    ),
    "everything again": code(
        """
import numpy as np


def cached_step(x, keys, values, wq, wk, wv):
    return wv @ x, (wk @ x)[None], (wv @ x)[None]
""",
        says="expected",
    ),
}


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
