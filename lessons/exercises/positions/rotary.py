"""# Rotary positions

Newer models add nothing to the words. They *turn* queries and keys: each pair of columns by an angle that grows with
the position. The product of a turned query and a turned key then depends on the distance of the two words alone.

    angle = position / 10000^(2i / D)
    out[2i]     = x[2i] cos(angle) - x[2i + 1] sin(angle)
    out[2i + 1] = x[2i] sin(angle) + x[2i + 1] cos(angle)

D is even, and the two columns of a pair lie side by side. Lengths do not change: it is a rotation.

Example: x = [[1, 0]] at position 1 becomes [[cos 1, sin 1]] = [[0.5403, 0.8415]]; at position 0 nothing changes.
"""

import numpy as np

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "positions", "14", 2, 15
RESULTS = ("out",)

SOLUTION = '''
import numpy as np


def rotary(x, positions):
    """x (T, D); positions (T) integers  →  out (T, D)"""
    D = x.shape[-1]
    angle = positions[:, None] / 10000.0 ** (np.arange(0, D, 2) / D)  # (T, D/2)
    c, s = np.cos(angle), np.sin(angle)
    first, second = x[:, 0::2], x[:, 1::2]
    out = np.empty(x.shape)
    out[:, 0::2] = first * c - second * s
    out[:, 1::2] = first * s + second * c
    return out
'''

ANOTHER = '''
import numpy as np


def rotary(x, positions):
    """A pair of columns is a complex number; turning it is one multiplication."""
    T, D = x.shape
    z = np.ascontiguousarray(x).view(np.complex128)
    turn = np.exp(1j * np.outer(positions, 10000.0 ** (-np.arange(D // 2) * 2.0 / D)))
    return (z * turn).view(np.float64)
'''


def expected(x, positions):
    """As a matrix: a rotation for each pair."""
    D = x.shape[1]
    out = np.empty(x.shape)
    for t, i in np.ndindex(len(x), D // 2):
        a = positions[t] / 10000.0 ** (2 * i / D)
        turn = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
        out[t, 2 * i : 2 * i + 2] = turn @ x[t, 2 * i : 2 * i + 2]
    return out


def cases():
    yield Case("position 0", (np.array([[1.0, 2.0]]), np.array([0])))
    yield Case("the example", (np.array([[1.0, 0.0]]), np.array([1])))
    rng = np.random.default_rng(0)
    yield Case("both columns", (np.array([[1.0, 2.0]]), np.array([2])))
    yield Case("two pairs", (rng.normal(size=(1, 4)), np.array([3])))
    yield Case("three words", (rng.normal(size=(3, 4)), np.array([0, 1, 2])))
    yield Case("positions with a gap", (rng.normal(size=(2, 6)), np.array([5, 40])))
    yield Case("larger", (rng.normal(size=(9, 16)), np.arange(100, 109)))
