"""# The table of waves

Attention does not know in which order its words come. The first transformer adds a vector to every word that tells
its position: sines and cosines whose wavelengths grow from column to column.

    table[p, 2i]     = sin(p / 10000^(2i / C))
    table[p, 2i + 1] = cos(p / 10000^(2i / C))

Even columns hold sines, odd columns the cosines of the same angle. For odd C the last column is a sine without its
cosine.

Example: the first row, p = 0, is 0, 1, 0, 1, ... For C = 2 the second row is sin 1, cos 1 = 0.8415, 0.5403.
"""

from lessons.exercises.exercise import Case
from minitransformer import positional_encoding

TRACK, LESSON, LEVEL, MINUTES = "positions", "04", 1, 15
RESULTS = ("table",)

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


def expected(n_positions, d_model):
    return positional_encoding(n_positions, d_model)


def cases():
    yield Case("the example", (2, 2))
    for n, C in ((1, 2), (3, 4), (4, 6), (3, 5), (3, 1), (50, 16)):
        yield Case(f"{n} x {C}", (n, C))
