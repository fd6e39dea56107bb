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
from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "derivatives", "01", 2, 15
RESULTS = ("dx",)

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


def forward(x):
    return F.softmax(x)


def cases():
    yield Case("the example", (np.array([[1.0, 0.0]]), np.array([[0.0, 0.0]])))
    rng = np.random.default_rng(0)
    yield Case("two scores that differ", (np.array([[1.0, -2.0]]), np.array([[0.0, 1.0]])))
    for label, N, C in (("one score", 1, 1), ("two rows", 2, 3), ("larger", 6, 11)):
        yield Case(label, (rng.normal(size=(N, C)), rng.normal(size=(N, C))))
    yield Case("scores around 1000", (rng.normal(size=(2, 3)), rng.normal(size=(2, 3)) + 1000))
