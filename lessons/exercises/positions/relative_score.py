"""# A score that knows distances only

Two rows of the position table, multiplied, give a number that depends on their distance alone:

    table[p] · table[p + k] = Σ_i cos(k / 10000^(2i / C))      for every p

since sin a sin b + cos a cos b = cos(a - b), pair by pair. It is largest at distance 0, where it is C / 2, and does
not care about direction.

Compute, without a table, the scores of all T positions with all T positions, only from the differences:

    score[p, q] = Σ_i cos((p - q) / 10000^(2i / C))            C even, i from 0 to C/2 - 1

Example: for C = 2 and T = 2 it is [[1, 0.5403], [0.5403, 1]].
"""

from lessons.exercises.exercise import Case, code, edit
from minitransformer import positional_encoding

TRACK, LESSON, LEVEL, MINUTES = "positions", "04", 2, 10
RESULTS = ("score",)

HINTS = (
    "All differences at once: p[:, None] - p[None, :] with p = np.arange(T).",
    "Divide them by 10000^(2i/C) for every pair i: a third axis with C/2 entries.",
    "np.cos(difference[:, :, None] / wavelength).sum(axis=-1)",
)

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

WRONG = {
    "sum instead of difference": edit(
        "p[:, None] - p[None, :]",
        "p[:, None] + p[None, :]",
        tell="The positions are added; the score depends on their difference.",
    ),
    "sines": edit(
        "np.cos(",
        "np.sin(",
        tell="Sines are summed: at distance 0 the score would be 0. It is the cosine of the difference.",
    ),
    "mean": edit(".sum(axis=-1)", ".mean(axis=-1)", tell="The mean over the pairs is taken; it is their sum."),
    "all columns counted": edit(
        "np.arange(0, d_model, 2)",
        "np.arange(d_model)",
        tell="Every column is counted as a pair; there are C/2 pairs, with the exponents 2i/C.",
    ),
    "exponent i": edit(
        "np.arange(0, d_model, 2) / d_model",
        "np.arange(d_model // 2) / d_model",
        tell="The exponent is i / C; it is 2i / C.",
    ),
    "multiplied": edit(
        "difference[:, :, None] / wavelength",
        "difference[:, :, None] * wavelength",
        tell="The difference is multiplied by 10000^(2i/C) instead of divided.",
    ),
    "divided by √C": edit(
        ".sum(axis=-1)",
        ".sum(axis=-1) / np.sqrt(d_model)",
        tell="The scores are divided by √C: that comes later, in attention.",
    ),
    "first pair only": edit(
        ".sum(axis=-1)", "[:, :, 0]", tell="Only the first pair is there: the sum over the pairs is missing."
    ),
    "product of cosines": edit(".sum(axis=-1)", ".prod(axis=-1)", tell="The cosines are multiplied; they are added."),
    "wrong axis": edit(".sum(axis=-1)", ".sum(axis=0)", says="shape"),
    "off by one": edit(
        "p[:, None] - p[None, :]",
        "p[:, None] - p[None, :] + 1",
        tell="Every difference is one too large: a position has distance 0 from itself.",
    ),
    "absolute positions": code(
        """
import numpy as np


def relative_score(n_positions, d_model):
    p = np.arange(n_positions)
    wavelength = 10000.0 ** (np.arange(0, d_model, 2) / d_model)
    one = np.cos(p[:, None] / wavelength)
    return one @ one.T
""",
        tell="Only the cosines of the two rows are multiplied: the products of the sines are missing.",
    ),
    "the engine's own": code(
        """
from minitransformer import positional_encoding


def relative_score(n_positions, d_model):
    table = positional_encoding(n_positions, d_model)
    return table @ table.T
""",
        says="not to call",
    ),
}


def expected(n_positions, d_model):
    """What the scores are about: the products of the table's rows."""
    table = positional_encoding(n_positions, d_model)
    return table @ table.T


def cases():
    for label, T, C in (
        ("one position", 1, 2),
        ("the example", 2, 2),
        ("two pairs", 2, 4),
        ("three positions", 3, 6),
        ("larger", 20, 16),
    ):
        yield Case(label, (T, C))
