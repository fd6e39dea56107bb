"""# Scatter-add, the same bits every time

The gradient of an embedding adds every word's gradient to the row of that word. A word may come many times, so two
words of a batch may want to write to the same row:

    dw[ids[n]] += dy[n]        for every n;  dw (V, C) starts at zero

In parallel over n this is a race, and even with atomic additions the order, and so the last digits, would change from
run to run. Share out what belongs to nobody else instead: let every parallel iteration own some *columns* (or rows)
of dw, and let it go through all n in order.

Example: ids = [1, 0, 1] and dy = [[1], [10], [100]] give dw = [[10], [101], [0]] for three words.

The judge compares the last bit: sums must be taken in the order of n.
"""

import numpy as np

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "numba", "09", 2, 20
KIND = "numba"
RESULTS = ("dw",)

SOLUTION = '''
import numpy as np
from numba import njit, prange


@njit(parallel=True)
def scatter_add(dy, ids, n_words):
    """dy (N, C); ids (N) integers below V  →  dw (V, C)"""
    N, C = dy.shape
    dw = np.zeros((n_words, C))
    for c in prange(C):  # an iteration owns a column: two never write to the same entry
        for n in range(N):  # in order, so that the sums have the same bits every time
            dw[ids[n], c] += dy[n, c]
    return dw
'''

ANOTHER = """
import numpy as np
from numba import njit, prange


@njit(parallel=True)
def scatter_add(dy, ids, n_words):
    dw = np.zeros((n_words, dy.shape[1]))
    for w in prange(n_words):  # an iteration owns a word, and looks through the whole batch for it
        for n in range(dy.shape[0]):
            if ids[n] == w:
                for c in range(dy.shape[1]):
                    dw[w, c] += dy[n, c]
    return dw
"""


def expected(dy, ids, n_words):
    dw = np.zeros((n_words, dy.shape[1]))
    np.add.at(dw, ids, dy)  # in order
    return dw


TOLERANCE = 0.0  # to the last bit


def cases():
    rng = np.random.default_rng(0)
    yield Case("the example", (np.array([[1.0], [10.0], [100.0]]), np.array([1, 0, 1]), 3))
    yield Case("one word", (np.array([[2.0, 3.0]]), np.array([0]), 1))
    yield Case("each word once", (rng.normal(size=(3, 2)), np.array([2, 0, 1]), 3))
    yield Case("large and small", (np.array([[1e16], [1.0], [1.0], [-1e16]]), np.array([0, 0, 0, 0]), 2))
    yield Case("a word that comes often", (rng.normal(size=(9, 3)), np.array([1, 1, 0, 1, 2, 1, 1, 0, 1]), 4))
    yield Case("a batch", (rng.normal(size=(500, 8)), rng.integers(0, 30, 500), 30), large=True)
