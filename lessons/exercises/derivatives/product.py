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

from lessons.exercises.exercise import Case, code, edit

TRACK, LESSON, LEVEL, MINUTES = "derivatives", "01", 1, 5
RESULTS = ("da", "db")

HINTS = (
    "Treat b as a constant. What is the derivative of a · b with respect to a?",
    "The chain rule multiplies it by what arrives from above, dy.",
    "da = dy * b. What is db?",
)

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

WRONG = {
    "own factor": edit("dy * b", "dy * a", "db = dy * a", "db = dy * b", says="swapped"),
    "dy forgotten": edit(
        "dy * b", "b.copy()", tell="da does not use dy: the chain rule multiplies by what arrives from above."
    ),
    "sum instead of product": edit("dy * b", "dy + b", tell="da is dy + b; the chain rule multiplies."),
    "sign": edit("dy * a", "-dy * a", says="sign"),
    "twice": edit("dy * a", "2 * dy * a", says="2 times"),
    "both equal": edit("dy * a", "dy * b", tell="db is multiplied by b itself; the derivative with respect to b is a."),
    "derivative of a sum": edit(
        "dy * b", "dy.copy()", tell="da is dy itself: that is the rule for a sum, not for a product."
    ),
    "one result": edit("return da, db", "return da", says="2 results"),
    "summed": edit("dy * b", "(dy * b).sum()", says="shape"),
    "only the example": code(
        """
import numpy as np


def product_gradient(dy, a, b):
    return np.array([5.0, 70.0]), np.array([2.0, 30.0])
""",
        says="shape",
    ),
    "in place": edit(
        "da = dy * b", "da = dy * b + 0 * a\n    b *= dy", "db = dy * a", "db = dy * a", says="writes to its inputs"
    ),
    "the engine's own": code(
        """
from autograd import Tensor


def product_gradient(dy, a, b):
    a, b = Tensor(a, requires_grad=True), Tensor(b, requires_grad=True)
    (a * b).backward(dy)
    return a.grad.numpy(), b.grad.numpy()
""",
        says="not to call",
    ),
}


def forward(a, b):
    return a * b


def cases():
    yield Case("the example", (np.array([1.0, 10.0]), np.array([2.0, 3.0]), np.array([5.0, 7.0])))
    rng = np.random.default_rng(0)
    for label, shape in (("one number", (1,)), ("a matrix", (2, 3)), ("three axes", (3, 1, 5))):
        yield Case(label, tuple(rng.normal(size=shape) for _ in range(3)))
