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
from lessons.exercises.exercise import Case, code, edit

TRACK, LESSON, LEVEL, MINUTES = "derivatives", "01", 3, 25
RESULTS = ("dq", "dk", "dv")

HINTS = (
    "First compute P (T, S) again, as in the forward pass: subtract the largest score of each row before exp.",
    "out = P v is a matrix product: dv = Pᵀ dout and dP = dout vᵀ. Then comes the rule of softmax, row by row.",
    "dS = P * (dP - (P * dP).sum(axis=-1, keepdims=True)); dq = dS @ k / √D; dk = dS.T @ q / √D.",
)

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

WRONG = {
    "scale missing in dq": edit("dS @ k * scale", "dS @ k", tell="dq lacks the scale 1/√D."),
    "scale missing in dk": edit("dS.T @ q * scale", "dS.T @ q", tell="dk lacks the scale 1/√D."),
    "scale missing in the scores": edit(
        "scores = q @ k.T * scale", "scores = q @ k.T", tell="P is computed from scores without 1/√D."
    ),
    "softmax's sum missing": edit(
        "(dP - (P * dP).sum(axis=-1, keepdims=True))",
        "dP",
        tell="In dS the sum over the row is missing: every score moves all probabilities of its row.",
    ),
    "sum without P": edit("(P * dP).sum(", "dP.sum(", tell="The sum in dS lacks the weights P."),
    "wrong axis": edit(
        "(P * dP).sum(axis=-1",
        "(P * dP).sum(axis=0",
        tell="The sum in dS runs over the queries; it belongs along each row, over the keys.",
    ),
    "dk not transposed": edit("dS.T @ q", "dS @ q", says="mismatch"),
    "dv without P": edit(
        "P.T @ dout",
        "np.ones_like(P.T) @ dout",
        tell="dv lacks the probabilities: every value counts as much as it was looked at.",
    ),
    "dq and dk swapped": edit("return dq, dk, dv", "return dk, dq, dv", says="swapped"),
    "sign": edit("dq = dS", "dq = -dS", says="sign"),
    "scale 1/D": edit("1 / np.sqrt(q.shape[-1])", "1 / q.shape[-1]", tell="The scale is 1/D here; it is 1/√D."),
    "only one key": code(
        """
import numpy as np


def attention_gradient(dout, q, k, v):
    return np.zeros(q.shape), np.zeros(k.shape), np.repeat(dout.sum(axis=0, keepdims=True), len(k), axis=0)
""",
        says="zero",
    ),
    "the engine's own": code(
        """
import autograd.functional as F
from autograd import Tensor


def attention_gradient(dout, q, k, v):
    given = [Tensor(one[None, None], requires_grad=True) for one in (q, k, v)]
    F.attention(*given).backward(dout[None, None])
    return tuple(one.grad.numpy()[0, 0] for one in given)
""",
        says="not to call",
    ),
}


def forward(q, k, v):
    """By softmax and products of the engine, for any number of queries and keys."""
    return F.softmax(q @ k.T * (1 / q.shape[-1] ** 0.5)) @ v


def cases():
    rng = np.random.default_rng(0)
    for label, T, S, D in (
        ("one key: the example", 2, 1, 2),
        ("two keys", 1, 2, 2),
        ("three queries, two keys", 3, 2, 4),
        ("three and three", 3, 3, 3),
        ("larger", 7, 11, 5),
    ):
        yield Case(label, tuple(rng.normal(size=shape) for shape in ((T, D), (T, D), (S, D), (S, D))))
    big = [rng.normal(size=(2, 2)) for _ in range(4)]
    yield Case("scores in the thousands", (big[0], big[1] * 60, big[2] * 60, big[3]))
