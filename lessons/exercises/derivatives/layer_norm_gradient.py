"""# The gradient of layer norm

Layer norm gives every row mean 0 and variance 1, then scales and shifts its columns:

    mean = Σ x / C,   var = Σ (x - mean)² / C,   r = 1 / sqrt(var + 1e-5)
    n = (x - mean) r
    y = n weight + bias

Every entry of a row moves its mean and its variance, and so all results of the row. What arrives at n is g = dy
weight; then

    dx      = r (g - mean(g) - n mean(g n))          means along the row
    dweight = Σ over rows of dy n
    dbias   = Σ over rows of dy

The two terms that are subtracted say: moving all entries by the same amount, or stretching them all, changes nothing.

Example: for x = [[-1, 1]], weight = [1, 1], bias = [0, 0] and dy = [[1, 0]], n is [[-1, 1]] (nearly), g - mean(g) is
[[0.5, -0.5]], mean(g n) is -0.5, and dx is nearly zero: with two entries, mean and stretch are all there is.
"""

import numpy as np

import autograd.functional as F
from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "derivatives", "01", 3, 25
RESULTS = ("dx", "dweight", "dbias")

SOLUTION = '''
import numpy as np


def layer_norm_gradient(dy, x, weight, bias):
    """dy, x (N, C); weight, bias (C)  →  dx (N, C), dweight (C), dbias (C)"""
    centred = x - x.mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    n = centred * r
    g = dy * weight  # what arrives at n
    shift = g.mean(axis=-1, keepdims=True)  # the part that the mean takes away
    stretch = (g * n).mean(axis=-1, keepdims=True)  # the part that the variance takes away
    dx = r * (g - shift - n * stretch)
    return dx, (dy * n).sum(axis=0), dy.sum(axis=0)
'''

ANOTHER = """
import numpy as np


def layer_norm_gradient(dy, x, weight, bias):
    N, C = x.shape
    dx, dweight, dbias = np.zeros((N, C)), np.zeros(C), np.zeros(C)
    for row in reversed(range(N)):  # the chain rule step by step, back through the variance and then the mean
        centred = x[row] - sum(x[row]) / C
        s = np.sqrt(sum(centred**2) / C + 1e-5)
        dn = dy[row] * weight
        ds = -(dn @ centred) / s**2
        dcentred = dn / s + ds * centred / (C * s)
        dx[row] = dcentred - sum(dcentred) / C
        dweight += dy[row] * centred / s
        dbias += dy[row]
    return dx, dweight, dbias
"""


def forward(x, weight, bias):
    return F.layer_norm(x, weight, bias)


def cases():
    rng = np.random.default_rng(0)
    yield Case(
        "three entries",
        (np.array([[1.0, 0.0, 2.0]]), np.array([[0.0, 1.0, 3.0]]), np.array([1.0, 2.0, 1.0]), np.zeros(3)),
    )
    yield Case("the example", (np.array([[1.0, 0.0]]), np.array([[-1.0, 1.0]]), np.ones(2), np.zeros(2)))
    yield Case(
        "a row that is nearly constant",
        (np.array([[1.0, 0.0, 2.0]]), np.array([[1.0, 1.001, 1.002]]), np.ones(3), np.ones(3)),
    )
    for label, N, C in (("one column", 2, 1), ("two rows", 2, 3), ("larger", 6, 11)):
        yield Case(label, tuple(rng.normal(size=shape) for shape in ((N, C), (N, C), (C,), (C,))))
