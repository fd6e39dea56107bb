"""# The gradient of softmax

Softmax turns a row of scores into probabilities. Every score moves every probability of its row, because they share
one sum:

    p[i] = exp(x[i]) / Σ_j exp(x[j])
    dx[i] = p[i] (dp[i] - Σ_j p[j] dp[j])

The bracket compares what arrives at entry i with the average of what arrives, weighted by the probabilities. So the
gradients of a row add up to zero: adding the same number to all scores changes nothing.

`exp` of a large score overflows. Subtract the largest score of the row first: the result is the same.

Example: x = [[0, 0]] and dp = [[1, 0]] give p = [[0.5, 0.5]] and dx = [[0.25, -0.25]].
"""

import numpy as np

import autograd.functional as F
from lessons.exercises.exercise import Case, code, edit

TRACK, LESSON, LEVEL, MINUTES = "derivatives", "01", 2, 15
RESULTS = ("dx",)

HINTS = (
    "You are given the scores, not the probabilities: compute p first, row by row (axis=-1, keepdims=True).",
    "The sum in the bracket is one number for each row: (p * dp).sum(axis=-1, keepdims=True).",
    "dx = p * (dp - that sum). And p from exp(x - largest of the row), so that nothing overflows.",
)

SOLUTION = '''
import numpy as np


def softmax_gradient(dp, x):
    """dp, x (N, C)  →  dx (N, C); the softmax runs along each row"""
    e = np.exp(x - x.max(axis=-1, keepdims=True))  # the largest becomes exp(0): nothing overflows
    p = e / e.sum(axis=-1, keepdims=True)
    average = (p * dp).sum(axis=-1, keepdims=True)  # of what arrives, weighted by p
    return p * (dp - average)
'''

ANOTHER = """
import numpy as np


def softmax_gradient(dp, x):
    dx = np.empty(x.shape)
    for n in range(len(x)):  # through the whole matrix of derivatives: diag(p) - p pᵀ
        e = np.exp(x[n] - np.max(x[n]))
        p = e / sum(e)
        dx[n] = (np.diag(p) - np.outer(p, p)) @ dp[n]
    return dx
"""

WRONG = {
    "overflow": edit("x - x.max(axis=-1, keepdims=True)", "x", says="overflows"),
    "average forgotten": edit(
        "p * (dp - average)",
        "p * dp",
        tell="The average is missing: it would be right if each probability depended on its own score alone.",
    ),
    "p forgotten": edit(
        "return p * (dp - average)", "return dp - average", tell="The factor p before the bracket is missing."
    ),
    "plain mean": edit(
        "(p * dp).sum(", "dp.mean(", tell="The average in the bracket is a plain mean; it must be weighted by p."
    ),
    "plain sum": edit("(p * dp).sum(", "dp.sum(", tell="The sum in the bracket lacks the weights p."),
    "sign": edit("p * (dp - average)", "p * (average - dp)", says="sign"),
    "plus": edit("dp - average", "dp + average", tell="In the bracket the average is subtracted, not added."),
    "sigmoid's rule": edit(
        "p * (dp - average)",
        "dp * p * (1 - p)",
        tell="p (1 - p) is the diagonal alone: the other scores of the row matter as well.",
    ),
    "over all rows": edit(
        "average = (p * dp).sum(axis=-1, keepdims=True)",
        "average = (p * dp).sum()",
        tell="The sum in the bracket runs over all rows; every row has its own.",
    ),
    "wrong axis": edit(
        "e.sum(axis=-1, keepdims=True)",
        "e.sum(axis=0, keepdims=True)",
        tell="p is normalized along the columns; the softmax runs along each row.",
    ),
    "x taken for p": edit(
        "p * (dp - average)",
        "x * (dp - (x * dp).sum(axis=-1, keepdims=True))",
        tell="The scores x are used as if they were the probabilities.",
    ),
    "only the example": code(
        """
import numpy as np


def softmax_gradient(dp, x):
    return np.array([[0.25, -0.25]])
""",
        tell="These are the numbers of the example, whatever the input is.",
    ),
    "the engine's own": code(
        """
import autograd.functional as F
from autograd import Tensor


def softmax_gradient(dp, x):
    x = Tensor(x, requires_grad=True)
    F.softmax(x).backward(dp)
    return x.grad.numpy()
""",
        says="not to call",
    ),
}


def forward(x):
    return F.softmax(x)


def cases():
    yield Case("the example", (np.array([[1.0, 0.0]]), np.array([[0.0, 0.0]])))
    rng = np.random.default_rng(0)
    yield Case("two scores that differ", (np.array([[1.0, -2.0]]), np.array([[0.0, 1.0]])))
    for label, N, C in (("one score", 1, 1), ("two rows", 2, 3), ("larger", 6, 11)):
        yield Case(label, (rng.normal(size=(N, C)), rng.normal(size=(N, C))))
    yield Case("scores around 1000", (rng.normal(size=(2, 3)), rng.normal(size=(2, 3)) + 1000))
