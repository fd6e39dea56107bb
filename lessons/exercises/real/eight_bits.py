"""# Eight bits a weight

Weights are cut into blocks of 32, and each block gets a step of its own, so large that its largest weight (by size) is
127 steps:

    step[n]  = max_i |w[n, i]| / 127
    q[n, i]  = w[n, i] / step[n], rounded to the nearest whole number        from -127 to 127: one byte
    moved[n] = the largest |w[n, i] - step[n] · q[n, i]|, in steps           never more than 1/2

A block of zeros has the step 0, all its q are 0, and nothing moves. (A file keeps the step as a float16; here it stays
as it is.)

Example: w = [12.7, -6.34, 0, ..., 0] has the step 0.1 and q = [127, -63, 0, ..., 0]: -6.34 comes back as -6.3, and the
largest movement is 0.4 of a step.
"""

import numpy as np

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "real", "15", 1, 15
RESULTS = ("step", "q", "moved")

SOLUTION = '''
import numpy as np


def eight_bits(w):
    """w (N, 32)  →  step (N), q (N, 32) whole numbers, moved (N)"""
    step = np.abs(w).max(axis=-1) / 127
    safe = np.where(step == 0, 1.0, step)[:, None]  # nothing is divided by zero
    q = np.rint(w / safe)
    moved = np.abs(w / safe - q).max(axis=-1)
    return step, q, moved
'''

ANOTHER = """
import math


def eight_bits(w):
    steps, rows, moves = [], [], []
    for row in w.tolist():
        step = max(max(row), -min(row)) / 127
        q = [int(math.copysign(math.floor(abs(x) / step + 0.5), x)) if step else 0 for x in row]
        steps.append(step)
        rows.append(q)
        moves.append(max(abs(x - step * k) for x, k in zip(row, q)) / step if step else 0.0)
    return steps, rows, moves
"""


def expected(w):
    """By looking: of all 255 whole numbers the one that brings back the nearest weight."""
    whole = np.arange(-127, 128)
    step = np.array([max(abs(x) for x in row) for row in w]) / 127
    away = np.abs(w[:, :, None] - step[:, None, None] * whole)
    away[step == 0] = np.abs(whole)
    nearest = away.argmin(axis=-1)
    moved = away.min(axis=-1).max(axis=-1)
    return step, whole[nearest], np.divide(moved, step, out=np.zeros_like(step), where=step > 0)


def cases():
    example = np.zeros((1, 32))
    example[0, :2] = 12.7, -6.34
    yield Case("the example", (example,))
    rng = np.random.default_rng(0)
    w = rng.normal(size=(1, 32))
    yield Case("the largest is negative", (np.where(w == np.abs(w).max(), -w, w) - 2 * np.eye(1, 32),))
    yield Case("a block of zeros", (np.zeros((1, 32)),))
    yield Case("weights of one sign", (rng.uniform(1, 2, (2, 32)),))
    three = rng.normal(size=(3, 32)) * np.array([[1.0], [0.0], [1e-3]])
    yield Case("blocks of different size, one of them zeros", (three,))
    yield Case("many blocks", (0.05 * rng.normal(size=(40, 32)),))
