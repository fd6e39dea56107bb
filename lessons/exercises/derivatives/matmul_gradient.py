"""# The gradient of a matrix product

A linear layer multiplies every row of `x` by a matrix: y = x wᵀ. Training needs to know how the loss changes when `x`
or `w` change a little. What arrives from above is `dy`, the gradient of the loss with respect to y; what is to be
returned are the gradients with respect to both inputs.

An entry of x takes part in one row of y, an entry of w in one column of y. Add up what each of them does:

    y[n, o]  = Σ_i  x[n, i] w[o, i]
    dx[n, i] = Σ_o dy[n, o] w[o, i]
    dw[o, i] = Σ_n dy[n, o] x[n, i]

Example: x = [[1, 2]], w = [[3, 4]], dy = [[10]] give dx = [[30, 40]] and dw = [[10, 20]].
"""

import numpy as np

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "derivatives", "01", 1, 10
RESULTS = ("dx", "dw")

SOLUTION = '''
import numpy as np


def matmul_gradient(dy, x, w):
    """dy (N, O), x (N, I), w (O, I)  →  dx (N, I), dw (O, I)"""
    dx = dy @ w  # sums over o: (N, O) (O, I)
    dw = dy.T @ x  # sums over the rows n: (O, N) (N, I)
    return dx, dw
'''

ANOTHER = """
import numpy as np


def matmul_gradient(dy, x, w):
    dx, dw = np.zeros(x.shape), np.zeros(w.shape)
    for n in reversed(range(len(x))):  # row by row, from the last one: another order of summation
        for o in range(len(w)):
            dx[n] += dy[n, o] * w[o]
            dw[o] += dy[n, o] * x[n]
    return dx, dw
"""


def forward(x, w):
    return x @ w.T


def cases():
    yield Case("the example", (np.array([[10.0]]), np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])))
    rng = np.random.default_rng(0)
    for N, O, I in ((2, 1, 1), (2, 2, 2), (3, 2, 4), (17, 5, 9)):
        yield Case(
            f"N = {N}, I = {I}, O = {O}",
            (rng.normal(size=(N, O)), rng.normal(size=(N, I)), rng.normal(size=(O, I))),
        )
