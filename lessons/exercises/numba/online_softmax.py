"""# Softmax in one pass

Softmax goes over its scores three times: for the largest, for the sum, for the results. The sum can be had on the
way, before the largest is known: when a larger score comes, everything that was added so far shrinks by a factor.

    top, total = -∞, 0
    for each score s:
        higher = max(top, s)
        total  = total · exp(top - higher) + exp(s - higher)
        top    = higher

At the end total is Σ exp(s - top), and log Σ exp(s) = top + log(total). Return that number for every row:
cross-entropy and fast attention are made of it. Each score may be read once only.

Example: the row 0, 0 gives log 2 = 0.6931. A row of -∞ alone gives -∞ (not NaN: -∞ minus -∞ must never be computed).
"""

import numpy as np

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "numba", "09", 2, 20
KIND = "numba"
RESULTS = ("lse",)

SOLUTION = '''
import numpy as np
from numba import njit, prange


@njit(parallel=True)
def log_sum_exp(x):
    """x (N, C), entries may be -inf  →  lse (N), reading each entry once"""
    N, C = x.shape
    lse = np.empty(N)
    for n in prange(N):
        top, total = -np.inf, 0.0
        for c in range(C):
            s = x[n, c]
            if s > top:
                total = total * np.exp(top - s) + 1.0  # what was added so far shrinks; exp(-inf) is 0 at the first
                top = s
            elif s > -np.inf:  # adds nothing, and -inf - -inf would be NaN
                total += np.exp(s - top)
        lse[n] = top + np.log(total) if total > 0 else -np.inf
    return lse
'''

ANOTHER = """
import numpy as np
from numba import njit


@njit
def log_sum_exp(x):
    lse = np.full(x.shape[0], -np.inf)
    for n in range(x.shape[0]):
        for c in range(x.shape[1] - 1, -1, -1):  # log(e^a + e^b) = larger + log(1 + e^(smaller - larger))
            s, so_far = x[n, c], lse[n]
            high, low = max(s, so_far), min(s, so_far)
            if low > -np.inf:
                high += np.log1p(np.exp(low - high))
            lse[n] = high
    return lse
"""


def expected(x):
    """With twice the digits, in the plain order."""
    out = np.full(len(x), -np.inf)
    for n, row in enumerate(x.astype(np.longdouble)):
        if np.isfinite(row).any():
            out[n] = row.max() + np.log(np.exp(row - row.max()).sum())
    return out


def cases():
    rng = np.random.default_rng(0)
    yield Case("the example", (np.zeros((1, 2)),))
    yield Case("one score", (np.array([[3.0]]),))
    yield Case("rising, then falling", (np.array([[1.0, 2.0, 0.5]]),))
    yield Case("two rows", (rng.normal(size=(2, 4)),))
    yield Case("all below zero", (rng.normal(size=(1, 3)) - 900,))
    yield Case("scores around 1000", (rng.normal(size=(2, 3)) + 1000,))
    yield Case("masked at the beginning and the end", (np.array([[-np.inf, 0.0, 1.0, -np.inf]]),))
    yield Case("everything masked", (np.full((1, 2), -np.inf),))
    yield Case("many rows", (rng.normal(size=(300, 41)) * 5,), large=True)
