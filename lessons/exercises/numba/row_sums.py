"""# Sums of rows on all cores

A loop in Python handles some ten million numbers a second; the same loop compiled by Numba a hundred times as many.
With `prange` in place of `range` the iterations are shared out among the cores. Numba does not ask whether that is
right: iterations run at the same time, so each must own what it writes.

Write the sum of every row as plain loops, the outer one parallel:

    out[n] = Σ_c x[n, c]

Example: x = [[1, 2, 3], [4, 5, 6]] gives [6, 15]. A row without columns has the sum 0.

The judge first runs your function as plain Python, where indices are checked and two iterations that touch the same
element are found, then compiled.
"""

import numpy as np

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "numba", "08", 1, 10
KIND = "numba"

SOLUTION = '''
import numpy as np
from numba import njit, prange


@njit(parallel=True)
def row_sums(x):
    """x (N, C)  →  (N), by loops"""
    N, C = x.shape
    out = np.empty(N)
    for n in prange(N):  # every iteration owns out[n], and nothing else
        total = 0.0  # made inside the loop: each iteration has its own
        for c in range(C):
            total += x[n, c]
        out[n] = total
    return out
'''

ANOTHER = """
import numpy as np
from numba import njit


@njit
def row_sums(x):
    out = np.zeros(x.shape[0])
    for c in range(x.shape[1] - 1, -1, -1):  # column by column, from the right, on one core
        for n in range(x.shape[0]):
            out[n] += x[n, c]
    return out
"""


def expected(x):
    return x.sum(axis=1)


def cases():
    yield Case("the example", (np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),))
    rng = np.random.default_rng(0)
    for N, C in ((2, 2), (1, 1), (3, 5), (7, 4)):
        yield Case(f"{N} rows, {C} columns", (rng.normal(size=(N, C)),))
    yield Case("no columns", (np.empty((2, 0)),))
    yield Case("every second column of a larger array", (rng.normal(size=(3, 8))[:, ::2],))
    yield Case("many rows", (rng.normal(size=(1000, 37)),), large=True)
