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
from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "attention", "02", 2, 15
RESULTS = ("out",)

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
