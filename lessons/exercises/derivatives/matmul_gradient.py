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

from lessons.exercises.exercise import Case, code, edit

TRACK, LESSON, LEVEL, MINUTES = "derivatives", "01", 1, 10
RESULTS = ("dx", "dw")

HINTS = (
    "Write the shapes beside the three formulas. Which index is summed over, and on which axis of each operand is it?",
    "A matrix product sums over the last axis of its left and the first axis of its right operand.",
    "dx sums over o, the last axis of dy and the first of w: dy @ w. In dw the sum runs over n: turn dy round.",
)

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

WRONG = {
    "dw transposed": edit("dy.T @ x", "x.T @ dy", says="transposed"),
    "dw of the first row only": edit(
        "dy.T @ x", "dy[:1].T @ x[:1]", tell="dw uses the first row of the batch alone: all rows add to it."
    ),
    "dw as a mean": edit("dy.T @ x", "dy.T @ x / len(x)", tell="dw is the mean over the rows; it is their sum."),
    "sign of dx": edit("dy @ w", "-dy @ w", says="sign"),
    "results swapped": edit("return dx, dw", "return dw, dx", says="swapped"),
    "dx only": edit("return dx, dw", "return dx", says="2 results"),
    "dy ignored": edit(
        "dy @ w", "np.ones_like(dy) @ w", tell="dx ignores dy: it is right only where dy is 1 everywhere."
    ),
    "w used as if it were square": edit("dy @ w ", "dy @ w.T ", says="ValueError"),
    "constant": code(
        """
import numpy as np


def matmul_gradient(dy, x, w):
    return np.array([[30.0, 40.0]]), np.array([[10.0, 20.0]])
""",
        says="shape",
    ),
    "the engine's own": code(
        """
from autograd import Tensor


def matmul_gradient(dy, x, w):
    x, w = Tensor(x, requires_grad=True), Tensor(w, requires_grad=True)
    (x @ w.T).backward(dy)
    return x.grad.numpy(), w.grad.numpy()
""",
        says="not to call",
    ),
}


def forward(x, w):
    return x @ w.T


def cases():
    yield Case("the example", (np.array([[10.0]]), np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])))
    rng = np.random.default_rng(0)
    for label, N, O, I in (
        ("two rows", 2, 1, 1),
        ("square", 2, 2, 2),
        ("three sizes", 3, 2, 4),
        ("larger", 17, 5, 9),
    ):
        yield Case(label, (rng.normal(size=(N, O)), rng.normal(size=(N, I)), rng.normal(size=(O, I))))
