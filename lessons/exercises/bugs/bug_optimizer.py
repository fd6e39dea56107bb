"""# Find the bug: one weight learns, two do not

This Adam was tried on a model with a single array of weights and agreed with the engine's to the last digit. On a
model with two arrays the training runs away. Each array alone still works.

Exactly one line is at fault. Mend it, and copy it, as it stood here, into `the_line`.

    m ← b1 m + (1 - b1) g          v ← b2 v + (1 - b2) g²
    weight ← weight - lr · (m / (1 - b1ᵗ)) / (√(v / (1 - b2ᵗ)) + eps)      with m and v of this weight

Example: with one array the result is right already; with two it is not, though their gradients have nothing to do
with each other.
"""

import numpy as np

from lessons.exercises.exercise import Case, bug
from minitransformer.optim import Adam

TRACK, LESSON, LEVEL, MINUTES = "bugs", "13", 2, 15
FUNCTION = "train"
LINE = "    m = [np.zeros(weights[0].shape)] * len(weights)"

STUB = '''
import numpy as np

the_line = ""  # the faulty line, as it stood in this file


def train(weights, gradients, lr):
    """weights: list of arrays of one shape; gradients[step][i] belongs to weights[i]  →  the weights after all steps"""
    b1, b2, eps = 0.9, 0.999, 1e-8
    weights = [np.array(w) for w in weights]
    m = [np.zeros(weights[0].shape)] * len(weights)
    v = [np.zeros(w.shape) for w in weights]
    for step in range(1, len(gradients) + 1):
        for i in range(len(weights)):
            g = gradients[step - 1][i]
            m[i] *= b1
            m[i] += (1 - b1) * g
            v[i] *= b2
            v[i] += (1 - b2) * g * g
            direction = (m[i] / (1 - b1**step)) / (np.sqrt(v[i] / (1 - b2**step)) + eps)
            weights[i] = weights[i] - lr * direction
    return weights
'''

MENDED = "    m = [np.zeros(w.shape) for w in weights]"
SOLUTION = bug(STUB, LINE, MENDED, "an array for each: a list times n holds the same one n times")
ANOTHER = SOLUTION.replace(MENDED, "    m = [np.zeros(weights[0].shape)] * len(weights)").replace(
    "            m[i] *= b1\n            m[i] += (1 - b1) * g\n", "            m[i] = b1 * m[i] + (1 - b1) * g\n"
)


def expected(weights, gradients, lr):
    from autograd import Tensor

    parameters = [Tensor(w.copy(), requires_grad=True) for w in weights]
    optimizer = Adam(parameters, lr=lr)
    for step in gradients:
        for parameter, gradient in zip(parameters, step, strict=True):
            parameter.grad = Tensor(gradient)
        optimizer.step()
    return [parameter.numpy() for parameter in parameters]


def cases():
    rng = np.random.default_rng(0)
    for label, arrays, steps, size in (
        ("one array: right already", 1, 1, 2),
        ("one array, three steps", 1, 3, 2),
        ("two arrays", 2, 1, 2),
        ("two arrays, five steps", 2, 5, 3),
    ):
        weights = [rng.normal(size=size) for _ in range(arrays)]
        yield Case(label, (weights, [[rng.normal(size=size) for _ in range(arrays)] for _ in range(steps)], 0.1))
    yield Case("which line", (), call="the_line", expected=LINE.strip(), secret=True)
