"""# The product rule

Reverse mode needs one thing from every operation: given `dy`, how much the loss changes with each entry of its
result, it returns how much the loss changes with each entry of its inputs.

Start with the product of two arrays, entry by entry:

    y[i]  = a[i] b[i]
    da[i] = dy[i] b[i]
    db[i] = dy[i] a[i]

Each input is multiplied by the *other* one: whoever moves a a little moves y b times as much.

Example: a = [2, 3], b = [5, 7], dy = [1, 10] give da = [5, 70] and db = [2, 30].
"""

import numpy as np

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "derivatives", "01", 1, 5
RESULTS = ("da", "db")

SOLUTION = '''
import numpy as np


def product_gradient(dy, a, b):
    """dy, a, b of one shape  →  da, db of the same shape"""
    da = dy * b  # dy/da is the other factor
    db = dy * a
    return da, db
'''

ANOTHER = """
import numpy as np


def product_gradient(dy, a, b):
    da, db = np.empty(a.shape), np.empty(b.shape)
    for place in np.ndindex(a.shape):  # entry by entry
        da[place] = b[place] * dy[place]
        db[place] = a[place] * dy[place]
    return da, db
"""


def forward(a, b):
    return a * b


def cases():
    yield Case("the example", (np.array([1.0, 10.0]), np.array([2.0, 3.0]), np.array([5.0, 7.0])))
    rng = np.random.default_rng(0)
    for label, shape in (("one number", (1,)), ("a matrix", (2, 3)), ("three axes", (3, 1, 5))):
        yield Case(label, tuple(rng.normal(size=shape) for _ in range(3)))
