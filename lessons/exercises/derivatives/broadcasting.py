"""# Broadcasting: what was repeated is summed

NumPy repeats a short array along the missing axes: `x * scale + shift` works for x of shape (N, C) with one scale per
column and one shift per row. One number of `scale` then takes part in N results, and each of them sends a gradient
back. They add up:

    y[n, c]   = x[n, c] scale[c] + shift[n, 0]
    dx[n, c]  = dy[n, c] scale[c]
    dscale[c] = Σ_n dy[n, c] x[n, c]
    dshift[n, 0] = Σ_c dy[n, c]

A gradient always has the shape of the input that it belongs to.

Example: x = [[1, 2], [3, 4]], scale = [10, 100], shift = [[0], [0]] and dy = [[1, 1], [1, 2]] give dscale = [4, 10]
and dshift = [[2], [3]].
"""

import numpy as np

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "derivatives", "01", 1, 10
RESULTS = ("dx", "dscale", "dshift")

SOLUTION = '''
import numpy as np


def broadcasting_gradient(dy, x, scale, shift):
    """dy, x (N, C); scale (C); shift (N, 1)  →  dx (N, C), dscale (C), dshift (N, 1)"""
    dx = dy * scale
    dscale = (dy * x).sum(axis=0)  # scale was repeated for every row
    dshift = dy.sum(axis=1, keepdims=True)  # shift was repeated for every column
    return dx, dscale, dshift
'''

ANOTHER = """
import numpy as np


def broadcasting_gradient(dy, x, scale, shift):
    dx, dscale, dshift = np.zeros(x.shape), np.zeros(scale.shape), np.zeros(shift.shape)
    for n in reversed(range(x.shape[0])):
        for c in range(x.shape[1]):
            dx[n, c] = scale[c] * dy[n, c]
            dscale[c] += dy[n, c] * x[n, c]
            dshift[n, 0] += dy[n, c]
    return dx, dscale, dshift
"""


def forward(x, scale, shift):
    return x * scale + shift


def cases():
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    yield Case("the example", (np.array([[1.0, 1.0], [1.0, 2.0]]), x, np.array([10.0, 100.0]), np.zeros((2, 1))))
    rng = np.random.default_rng(0)
    for N, C in ((1, 1), (1, 3), (3, 1), (3, 3), (7, 5)):
        yield Case(f"N = {N}, C = {C}", tuple(rng.normal(size=shape) for shape in ((N, C), (N, C), (C,), (N, 1))))
