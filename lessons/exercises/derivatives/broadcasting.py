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

from lessons.exercises.exercise import Case, code, edit

TRACK, LESSON, LEVEL, MINUTES = "derivatives", "01", 1, 10
RESULTS = ("dx", "dscale", "dshift")

HINTS = (
    "Compute first what each entry of y sends back, as if scale and shift had the shape (N, C).",
    "Then sum over the axes along which the input was repeated: axis 0 for scale, axis 1 for shift.",
    "dscale = (dy * x).sum(axis=0). For dshift the axis that is summed must stay, with size 1: keepdims=True.",
)

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

WRONG = {
    "scale not summed": edit("(dy * x).sum(axis=0)", "dy * x", says="sum over a broadcast axis is missing"),
    "shift not summed": edit("dy.sum(axis=1, keepdims=True)", "dy.copy()", says="sum over a broadcast axis is missing"),
    "wrong axis": edit(
        "(dy * x).sum(axis=0)",
        "(dy * x).sum(axis=1)",
        tell="dscale sums over the columns; scale was repeated for every row.",
    ),
    "no keepdims": edit(", keepdims=True", "", says="keepdims"),
    "summed over everything": edit("(dy * x).sum(axis=0)", "(dy * x).sum()", says="shape"),
    "mean": edit("dy.sum(axis=1", "dy.mean(axis=1", says="1/2 times"),
    "x forgotten": edit(
        "(dy * x).sum(axis=0)", "dy.sum(axis=0)", tell="dscale lacks x: it is the rule for a shift, not for a factor."
    ),
    "scale forgotten": edit(
        "dy * scale", "dy.copy()", tell="dx lacks the scale: x was multiplied by it on the way up."
    ),
    "largest instead of sum": edit(
        "dy.sum(axis=1", "dy.max(axis=1", tell="dshift takes the largest of the gradients; they add up."
    ),
    "swapped": edit("return dx, dscale, dshift", "return dx, dshift, dscale", says="swapped"),
    "only the example": code(
        """
import numpy as np


def broadcasting_gradient(dy, x, scale, shift):
    return dy * scale, np.array([4.0, 10.0]), np.array([[2.0], [3.0]])
""",
        says="shape",
    ),
    "the engine's own": code(
        """
from autograd import Tensor


def broadcasting_gradient(dy, x, scale, shift):
    given = [Tensor(one, requires_grad=True) for one in (x, scale, shift)]
    (given[0] * given[1] + given[2]).backward(dy)
    return tuple(one.grad.numpy() for one in given)
""",
        says="not to call",
    ),
}


def forward(x, scale, shift):
    return x * scale + shift


def cases():
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    yield Case("the example", (np.array([[1.0, 1.0], [1.0, 2.0]]), x, np.array([10.0, 100.0]), np.zeros((2, 1))))
    rng = np.random.default_rng(0)
    for label, N, C in (
        ("one number", 1, 1),
        ("one row", 1, 3),
        ("one column", 3, 1),
        ("square", 3, 3),
        ("larger", 7, 5),
    ):
        yield Case(label, tuple(rng.normal(size=shape) for shape in ((N, C), (N, C), (C,), (N, 1))))
