"""# Cross-attention

In a translator the words of the sentence being written ask, and the words of the source sentence answer: queries come
from the target x, keys and values from the source. Three matrices make them:

    q = x wqᵀ          (T, D)    from the target
    k = source wkᵀ     (S, D)    from the source
    v = source wvᵀ     (S, D)    from the source
    out = softmax(q kᵀ / √D) v

As always, subtract the largest score of a row before exp. There is no causal mask: the whole source sentence may be
read, whatever has been written so far.

Example: if all words of the source are equal, every query gets the same value, source[0] wvᵀ, whatever x is.
"""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.exercises.exercise import Case, code, edit

TRACK, LESSON, LEVEL, MINUTES = "attention", "02", 2, 15
RESULTS = ("out",)

HINTS = (
    "Which of the three products use x, and which use source? Say aloud who asks and who answers.",
    "A weight (D, C) multiplies rows from the right as its transpose: x @ wq.T is (T, D).",
    "With q, k and v at hand it is the attention that you know: scores (T, S), softmax along each row, times v.",
)

SOLUTION = '''
import numpy as np


def cross_attention(x, source, wq, wk, wv):
    """x (T, C); source (S, C); wq, wk, wv (D, C)  →  out (T, D)"""
    q = x @ wq.T  # the target asks
    k = source @ wk.T  # the source answers
    v = source @ wv.T
    scores = q @ k.T / np.sqrt(len(wq))  # (T, S)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v
'''

ANOTHER = """
import numpy as np


def cross_attention(x, source, wq, wk, wv):
    both = wq.T @ wk / len(wq) ** 0.5  # (C, C): queries and keys in one matrix
    out = np.zeros((len(x), len(wv)))
    for t in range(len(x)):
        scores = source @ (both.T @ x[t])
        w = np.exp(scores - np.max(scores))
        out[t] = wv @ ((w @ source) / np.sum(w))  # first the mean of the words, then the matrix
    return out
"""

WRONG = {
    "self-attention of the target": edit(
        "source @ wk.T",
        "x @ wk.T",
        "source @ wv.T",
        "x @ wv.T",
        tell="Keys and values come from the target: that is self-attention. They come from the source.",
    ),
    "self-attention of the source": edit("x @ wq.T", "source @ wq.T", says="expected"),
    "roles exchanged": edit(
        "x @ wq.T",
        "source @ wq.T",
        "source @ wk.T",
        "x @ wk.T",
        "source @ wv.T",
        "x @ wv.T",
        tell="Source and target have exchanged their roles: the target asks.",
    ),
    "values from the target": edit("source @ wv.T", "x @ wv.T", says="mismatch"),
    "no scale": edit(" / np.sqrt(len(wq))", "", tell="The scores are not divided by √D."),
    "scale by C": edit(
        "np.sqrt(len(wq))",
        "np.sqrt(x.shape[-1])",
        tell="The scale uses the width C of the words; D is the width of queries and keys.",
    ),
    "keys for values": edit(
        "keepdims=True) @ v",
        "keepdims=True) @ k",
        tell="The mean of the keys is returned; the values are what is averaged.",
    ),
    "wk for wq": edit(
        "x @ wq.T", "x @ wk.T", tell="The queries are made with wk; they have a matrix of their own, wq."
    ),
    "causal mask": edit(
        "    e = np.exp",
        "    scores = np.where(np.tri(len(x), len(source)) > 0, scores, -np.inf)\n    e = np.exp",
        tell="A causal mask is there: the target may read the whole source sentence.",
    ),
    "wrong axis": edit(
        "e.sum(axis=-1, keepdims=True)",
        "e.sum(axis=0, keepdims=True)",
        tell="The weights are normalized over the queries; each row must sum to 1.",
    ),
    "no softmax": edit(
        "return e / e.sum(axis=-1, keepdims=True) @ v",
        "return scores @ v",
        tell="The scores themselves weigh the values: the softmax is missing.",
    ),
    "the mean of the source": code(
        """
import numpy as np


def cross_attention(x, source, wq, wk, wv):
    return np.repeat(source.mean(axis=0, keepdims=True) @ wv.T, len(x), axis=0)
""",
        tell="All words of the source count the same: the queries are not used.",
    ),
    "the engine's own": code(
        """
import autograd.functional as F
from autograd import Tensor


def cross_attention(x, source, wq, wk, wv):
    return F.attention(*(Tensor(one[None, None]) for one in (x @ wq.T, source @ wk.T, source @ wv.T))).numpy()[0, 0]
""",
        says="not to call",
    ),
}


def expected(x, source, wq, wk, wv):
    made = (F.linear(Tensor(words), Tensor(w)).numpy() for words, w in ((x, wq), (source, wk), (source, wv)))
    return F.attention(*(Tensor(one[None, None]) for one in made)).numpy()[0, 0]


def cases():
    rng = np.random.default_rng(0)
    same = np.ones((2, 2)) * [1.0, 2.0]
    yield Case("equal words in the source: the example", (rng.normal(size=(3, 2)), same, *rng.normal(size=(3, 2, 2))))
    for label, T, S, C, D in (
        ("two words each", 2, 2, 2, 2),
        ("two and three", 2, 3, 3, 2),
        ("longer target", 4, 2, 2, 3),
        ("larger", 7, 9, 5, 4),
    ):
        yield Case(label, tuple(rng.normal(size=shape) for shape in ((T, C), (S, C), (D, C), (D, C), (D, C))))
    big = (60 * rng.normal(size=(2, 2)) for _ in range(2))
    yield Case("scores in the thousands", (*big, *rng.normal(size=(3, 2, 2))))
