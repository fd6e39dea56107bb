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
from lessons.exercises.exercise import Case, code, edit

TRACK, LESSON, LEVEL, MINUTES = "numba", "08", 2, 20
KIND = "numba"
RESULTS = ("y",)

HINTS = (
    "One prange over the rows, and inside it three plain loops over the columns.",
    "First loop: the sum. Second: the squares of x - mean. Third: the results.",
    "rstd = 1 / np.sqrt(squares / C + 1e-5); y[n, c] = (x[n, c] - mean) * rstd * weight[c] + bias[c].",
)

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

WRONG = {
    "mean of squares": edit(
        "(x[n, c] - mean) ** 2",
        "x[n, c] ** 2",
        "squares / C + 1e-5",
        "squares / C - mean * mean + 1e-5",
        says="expected",
    ),
    "C - 1": edit(
        "squares / C + 1e-5",
        "squares / max(C - 1, 1) + 1e-5",
        tell="The variance is divided by C - 1; layer norm divides by C.",
    ),
    "no epsilon": edit("squares / C + 1e-5", "squares / C", says="expected"),
    "epsilon outside": edit(
        "1.0 / np.sqrt(squares / C + 1e-5)",
        "1.0 / (np.sqrt(squares / C) + 1e-5)",
        tell="1e-5 is added to the root; it belongs to the variance, under the root.",
    ),
    "no root": edit(
        "np.sqrt(squares / C + 1e-5)",
        "(squares / C + 1e-5)",
        tell="It is divided by the variance; the root of it is missing.",
    ),
    "not centred": edit(
        "= (x[n, c] - mean) * rstd", "= x[n, c] * rstd", tell="The mean is not subtracted from the result."
    ),
    "weight of the row": edit("weight[c] + bias[c]", "weight[n] + bias[c]", says="expected"),
    "bias forgotten": edit(" + bias[c]", "", tell="The bias is missing."),
    "total never reset": edit(
        "        total = 0.0\n",
        "",
        "    y = np.empty((N, C))\n",
        "    y = np.empty((N, C))\n    total = 0.0\n",
        tell="The total is not set back to 0 for each row.",
    ),
    "shared sums": edit(
        "    y = np.empty((N, C))\n",
        "    y = np.empty((N, C))\n    sums = np.zeros(1)\n",
        "        total = 0.0\n",
        "        sums[0] = 0.0\n",
        "            total += x[n, c]\n",
        "            sums[0] += x[n, c]\n",
        "        mean = total / C",
        "        mean = sums[0] / C",
        says="same element",
    ),
    "one column too few": edit(
        "        for c in range(C):\n            total",
        "        for c in range(C - 1):\n            total",
        tell="The mean leaves out the last column.",
    ),
    "batch norm": code(
        """
import numpy as np
from numba import njit


@njit
def layer_norm(x, weight, bias):
    y = np.empty(x.shape)
    for c in range(x.shape[1]):
        mean = x[:, c].mean()
        squares = ((x[:, c] - mean) ** 2).mean()
        y[:, c] = (x[:, c] - mean) / np.sqrt(squares + 1e-5) * weight[c] + bias[c]
    return y
""",
        tell="Every column is normalized over the rows: that is batch norm. Layer norm works along each row.",
    ),
    "the engine's own": code(
        """
import kernels


def layer_norm(x, weight, bias):
    return kernels.backend("numba").layer_norm(x, weight, bias, 1e-5)[0]
""",
        says="not to call",
    ),
}


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
