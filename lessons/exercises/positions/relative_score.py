"""# A score that knows distances only

Two rows of the position table, multiplied, give a number that depends on their distance alone:

    table[p] · table[p + k] = Σ_i cos(k / 10000^(2i / C))      for every p

since sin a sin b + cos a cos b = cos(a - b), pair by pair. It is largest at distance 0, where it is C / 2, and does
not care about direction.

Compute, without a table, the scores of all T positions with all T positions, only from the differences:

    score[p, q] = Σ_i cos((p - q) / 10000^(2i / C))            C even, i from 0 to C/2 - 1

Example: for C = 2 and T = 2 it is [[1, 0.5403], [0.5403, 1]].
"""

from lessons.exercises.exercise import Case
from minitransformer import positional_encoding

TRACK, LESSON, LEVEL, MINUTES = "positions", "04", 2, 10
RESULTS = ("score",)

SOLUTION = '''
import numpy as np


def relative_score(n_positions, d_model):
    """→ score (T, T), from differences of positions"""
    p = np.arange(n_positions)
    difference = p[:, None] - p[None, :]  # (T, T)
    wavelength = 10000.0 ** (np.arange(0, d_model, 2) / d_model)  # (C/2)
    return np.cos(difference[:, :, None] / wavelength).sum(axis=-1)
'''

ANOTHER = """
import math

import numpy as np


def relative_score(n_positions, d_model):
    score = np.empty((n_positions, n_positions))
    for k in range(n_positions):  # one number for each distance, the slow waves first
        value = math.fsum(math.cos(k * 10000.0 ** (-a / d_model)) for a in reversed(range(0, d_model, 2)))
        for p in range(n_positions - k):
            score[p, p + k] = score[p + k, p] = value
    return score
"""


def expected(n_positions, d_model):
    """What the scores are about: the products of the table's rows."""
    table = positional_encoding(n_positions, d_model)
    return table @ table.T


def cases():
    yield Case("the example", (2, 2))
    for T, C in ((1, 2), (2, 4), (3, 6), (20, 16)):
        yield Case(f"T = {T}, C = {C}", (T, C))
