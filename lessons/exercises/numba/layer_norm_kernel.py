"""# Layer norm as one kernel

In NumPy, layer norm makes five arrays on its way, and each of them travels through memory. A kernel goes over a row
while it is still in the cache, and writes nothing but the result.

    mean = Σ x / C,   var = Σ (x - mean)² / C
    y = (x - mean) / sqrt(var + 1e-5) · weight + bias

Write it with loops, one parallel iteration for each row. Subtract the mean before squaring: the mean of squares minus
the square of the mean subtracts two large, nearly equal numbers, and loses what matters.

Example: the row -1, 1 with weight 1, 1 and bias 0, 0 gives -1, 1 (nearly, because of 1e-5).

The judge first runs your function as plain Python, where indices are checked and two iterations that touch the same
element are found, then compiled.
"""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "numba", "08", 2, 20
KIND = "numba"
RESULTS = ("y",)

SOLUTION = '''
import numpy as np
from numba import njit, prange


@njit(parallel=True)
def layer_norm(x, weight, bias):
    """x (N, C); weight, bias (C)  →  y (N, C), by loops"""
    N, C = x.shape
    y = np.empty((N, C))
    for n in prange(N):
        total = 0.0
        for c in range(C):
            total += x[n, c]
        mean = total / C
        squares = 0.0
        for c in range(C):
            squares += (x[n, c] - mean) ** 2  # first the mean, then the squares
        rstd = 1.0 / np.sqrt(squares / C + 1e-5)
        for c in range(C):
            y[n, c] = (x[n, c] - mean) * rstd * weight[c] + bias[c]
    return y
'''

ANOTHER = """
import numpy as np
from numba import njit


@njit
def layer_norm(x, weight, bias):
    y = np.empty(x.shape)
    for n in range(x.shape[0]):
        mean, squares = 0.0, 0.0
        for c in range(x.shape[1]):  # Welford: mean and squares in one pass
            away = x[n, c] - mean
            mean += away / (c + 1)
            squares += away * (x[n, c] - mean)
        for c in range(x.shape[1] - 1, -1, -1):
            y[n, c] = bias[c] + weight[c] * (x[n, c] - mean) / (squares / x.shape[1] + 1e-5) ** 0.5
    return y
"""


def expected(x, weight, bias):
    return F.layer_norm(*(Tensor(one) for one in (x, weight, bias))).numpy()


def cases():
    rng = np.random.default_rng(0)
    yield Case("the example", (np.array([[-1.0, 1.0]]), np.ones(2), np.zeros(2)))
    for N, C in ((1, 3), (2, 3), (3, 5)):
        yield Case(f"{N} rows, {C} columns", (rng.normal(size=(N, C)), rng.normal(size=C), rng.normal(size=C)))
    yield Case("a small variance", (rng.normal(size=(2, 4)) * 1e-3, rng.normal(size=4), rng.normal(size=4)))
    yield Case("numbers around 10000", (1e4 + np.round(rng.normal(size=(2, 4)) * 64) / 4096, np.ones(4), np.zeros(4)))
    yield Case("many rows", (rng.normal(size=(300, 33)), rng.normal(size=33), rng.normal(size=33)), large=True)
