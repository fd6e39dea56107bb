"""# One matrix for every shift

The waves of the position table have a gift: for every shift k there is *one* matrix M that moves any position by k,

    M table[p] = table[p + k]      for every p

because sin(a + b) = sin a cos b + cos a sin b and cos(a + b) = cos a cos b - sin a sin b. The matrix turns each pair
of columns by its own angle, and leaves the other pairs alone. With w = 1 / 10000^(2i / C), the block of pair i is

    [  cos(k w)   sin(k w) ]      rows and columns 2i, 2i + 1;
    [ -sin(k w)   cos(k w) ]      everything outside the blocks is 0

so a model can learn to look "three words back" by one multiplication.

Example: for C = 2 and k = 0 it is the identity; for C = 2 and k = 1 it is [[0.5403, 0.8415], [-0.8415, 0.5403]].
"""

import numpy as np

from lessons.exercises.exercise import Case
from minitransformer import positional_encoding

TRACK, LESSON, LEVEL, MINUTES = "positions", "04", 2, 15
RESULTS = ("M",)

SOLUTION = '''
import numpy as np


def shift_matrix(k, d_model):
    """→ M (C, C) with M @ table[p] = table[p + k]; C is even, k may be negative"""
    M = np.zeros((d_model, d_model))
    for a in range(0, d_model, 2):  # a = 2i: where the block of pair i begins
        angle = k / 10000.0 ** (a / d_model)
        c, s = np.cos(angle), np.sin(angle)
        M[a, a], M[a, a + 1] = c, s  # the new sine
        M[a + 1, a], M[a + 1, a + 1] = -s, c  # the new cosine
    return M
'''

ANOTHER = '''
import numpy as np


def shift_matrix(k, d_model):
    """Found, not derived: least squares from enough positions of the table itself."""
    def table(p):
        angle = p[:, None] / 10000.0 ** (np.arange(0, d_model, 2) / d_model)
        return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(len(p), d_model)

    M = np.zeros((d_model, d_model))
    for a in range(0, d_model, 2):
        w = 10000.0 ** (a / d_model)
        p = np.array([0.0, w])  # two positions that this pair tells apart well
        M[a : a + 2, a : a + 2] = np.linalg.solve(table(p)[:, a : a + 2], table(p + k)[:, a : a + 2]).T
    return M
'''


def expected(k, d_model):
    """Complex numbers: cos + i sin of a pair is turned by one multiplication."""
    M = np.zeros((d_model, d_model))
    for a in range(0, d_model, 2):
        turn = np.exp(1j * k / 10000.0 ** (a / d_model))
        for column, start in ((a, 1j), (a + 1, 1.0)):  # a sine alone, a cosine alone
            moved = start * turn
            M[a, column], M[a + 1, column] = moved.imag, moved.real
    table = positional_encoding(abs(k) + 8, d_model)
    first = max(0, -k)
    assert np.allclose(M @ table[first : first + 4].T, table[first + k : first + k + 4].T, atol=1e-10)
    return M


def cases():
    yield Case("the example: no shift", (0, 2))
    yield Case("the example: a shift by one", (1, 2))
    for k, C in ((1, 4), (2, 6), (-3, 4), (17, 16)):
        yield Case(f"a shift by {k}, {C} columns", (k, C))
