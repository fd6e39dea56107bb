"""# The gradient of attention

One head of attention: scores, probabilities, and a weighted mean of the values.

    S = q kᵀ / √D,    P = softmax(S) along each row,    out = P v

Going back, each step undoes one of these:

    dv = Pᵀ dout
    dP = dout vᵀ
    dS = P (dP - Σ P dP along the row)          the softmax
    dq = dS k / √D
    dk = dSᵀ q / √D

Each is a matrix product or the rule of softmax: nothing new. The work is to keep the axes in order.

Example: with a single key, P is 1 whatever the scores are. So dv = Σ over queries of dout, while dq and dk are zero.
"""

import numpy as np

import autograd.functional as F
from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "derivatives", "01", 3, 25
RESULTS = ("dq", "dk", "dv")

SOLUTION = '''
import numpy as np


def attention_gradient(dout, q, k, v):
    """dout, q (T, D); k, v (S, D)  →  dq (T, D), dk (S, D), dv (S, D)"""
    scale = 1 / np.sqrt(q.shape[-1])
    scores = q @ k.T * scale  # (T, S)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    P = e / e.sum(axis=-1, keepdims=True)
    dv = P.T @ dout
    dP = dout @ v.T
    dS = P * (dP - (P * dP).sum(axis=-1, keepdims=True))  # back through the softmax
    dq = dS @ k * scale  # the scale went in on the way up, so it comes out on the way down
    dk = dS.T @ q * scale
    return dq, dk, dv
'''

ANOTHER = """
import numpy as np


def attention_gradient(dout, q, k, v):
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    root = q.shape[1] ** 0.5
    for t in reversed(range(len(q))):  # one query after another; the sum Σ P dP is dout · out
        scores = k @ (q[t] / root)
        p = np.exp(scores - np.max(scores))
        p = p / np.sum(p)
        out = p @ v
        for s in range(len(k)):
            ds = p[s] * (dout[t] @ v[s] - dout[t] @ out) / root
            dq[t] += ds * k[s]
            dk[s] += ds * q[t]
            dv[s] += p[s] * dout[t]
    return dq, dk, dv
"""


def forward(q, k, v):
    """By softmax and products of the engine, for any number of queries and keys."""
    return F.softmax(q @ k.T * (1 / q.shape[-1] ** 0.5)) @ v


def cases():
    rng = np.random.default_rng(0)
    for T, S, D in ((2, 1, 2), (1, 2, 2), (3, 2, 4), (3, 3, 3), (7, 11, 5)):
        given = tuple(rng.normal(size=shape) for shape in ((T, D), (T, D), (S, D), (S, D)))
        yield Case(f"T = {T}, S = {S}, D = {D}", given)
    big = [rng.normal(size=(2, 2)) for _ in range(4)]
    yield Case("scores in the thousands", (big[0], big[1] * 60, big[2] * 60, big[3]))
