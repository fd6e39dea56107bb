"""# The table of waves

Attention does not know in which order its words come. The first transformer adds a vector to every word that tells
its position: sines and cosines whose wavelengths grow from column to column.

    table[p, 2i]     = sin(p / 10000^(2i / C))
    table[p, 2i + 1] = cos(p / 10000^(2i / C))

Even columns hold sines, odd columns the cosines of the same angle. For odd C the last column is a sine without its
cosine.

Example: the first row, p = 0, is 0, 1, 0, 1, ... For C = 2 the second row is sin 1, cos 1 = 0.8415, 0.5403.
"""

from lessons.exercises.exercise import Case, code, edit
from minitransformer import positional_encoding

TRACK, LESSON, LEVEL, MINUTES = "positions", "04", 1, 15
RESULTS = ("table",)

HINTS = (
    "Columns come in pairs: the pair number i has the columns 2i and 2i + 1, and both use the exponent 2i / C.",
    "angle = positions[:, None] / 10000 ** (even / C) with even = np.arange(0, C, 2) has a column for each pair.",
    "table[:, 0::2] = sin(angle); table[:, 1::2] = cos(angle), of which an odd C needs one column less.",
)

SOLUTION = '''
import numpy as np


def position_table(n_positions, d_model):
    """→ table (n_positions, C)"""
    even = np.arange(0, d_model, 2)  # 2i of every pair
    angle = np.arange(n_positions)[:, None] / 10000.0 ** (even / d_model)
    table = np.empty((n_positions, d_model))
    table[:, 0::2] = np.sin(angle)
    table[:, 1::2] = np.cos(angle[:, : d_model // 2])  # an odd width has one cosine less
    return table
'''

ANOTHER = """
import math

import numpy as np


def position_table(n_positions, d_model):
    table = np.zeros((n_positions, d_model))
    for p in range(n_positions):
        for c in range(d_model):
            angle = p * math.exp(-math.log(10000.0) * (c - c % 2) / d_model)
            table[p, c] = math.cos(angle) if c % 2 else math.sin(angle)
    return table
"""

WRONG = {
    "sines first, cosines second": edit(
        "table[:, 0::2] = np.sin(angle)",
        "table[:, : len(even)] = np.sin(angle)",
        "table[:, 1::2] = np.cos",
        "table[:, len(even) :] = np.cos",
        tell="All sines come first, then all cosines; they should alternate, column by column.",
    ),
    "sine and cosine exchanged": edit(
        "np.sin(angle)",
        "np.cos(angle)",
        "np.cos(angle[:, : d_model // 2])",
        "np.sin(angle[:, : d_model // 2])",
        tell="Sines and cosines are exchanged: the even columns hold the sines.",
    ),
    "an exponent for each column": edit(
        "even = np.arange(0, d_model, 2)",
        "even = np.arange(0, d_model, 2) / 2",
        tell="The exponent is i / C; it is 2i / C, i counting pairs.",
    ),
    "exponent of the cosines": edit(
        "np.cos(angle[:, : d_model // 2])",
        "np.cos(np.arange(n_positions)[:, None] / 10000.0 ** ((even + 1) / d_model))[:, : d_model // 2]",
        tell="The cosines have an exponent of their own, (2i + 1) / C; both of a pair share 2i / C.",
    ),
    "multiplied": edit(
        "[:, None] / 10000.0",
        "[:, None] * 10000.0",
        tell="The angle is multiplied by 10000^(2i/C) instead of divided: the waves get shorter.",
    ),
    "base 1000": edit("10000.0", "1000.0", tell="The base is 1000; it is 10000."),
    "from position 1": edit(
        "np.arange(n_positions)[:, None]",
        "np.arange(1, n_positions + 1)[:, None]",
        tell="Positions count from 1 here; they count from 0.",
    ),
    "degrees": edit("np.sin(angle)", "np.sin(np.radians(angle))", says="expected"),
    "sines only": edit(
        "np.cos(angle[:, : d_model // 2])",
        "np.sin(angle[:, : d_model // 2])",
        tell="The odd columns are sines as well; they are cosines.",
    ),
    "odd width": edit("angle[:, : d_model // 2]", "angle", says="broadcast"),
    "transposed": edit("return table", "return table.T", says="transposed"),
    "one wave": edit(
        "10000.0 ** (even / d_model)",
        "np.ones(len(even))",
        tell="All columns have the same wavelength: 10000^(2i/C) is missing.",
    ),
    "the engine's own": code(
        """
from minitransformer import positional_encoding


def position_table(n_positions, d_model):
    return positional_encoding(n_positions, d_model)
""",
        says="not to call",
    ),
}


def expected(n_positions, d_model):
    return positional_encoding(n_positions, d_model)


def cases():
    for label, n, C in (
        ("one position", 1, 2),
        ("the example", 2, 2),
        ("two pairs", 3, 4),
        ("six columns", 4, 6),
        ("an odd width", 3, 5),
        ("one column", 3, 1),
        ("larger", 50, 16),
    ):
        yield Case(label, (n, C))
