"""# One step of Adam

Plain gradient descent takes the same step width for every weight. Adam keeps two running means for each weight, of
the gradient and of its square, and divides one by the root of the other: weights with small gradients move as far as
those with large ones.

    m ← b1 m + (1 - b1) g
    v ← b2 v + (1 - b2) g²
    m̂ = m / (1 - b1ᵗ),   v̂ = v / (1 - b2ᵗ)             t = 1 for the first step
    weight ← weight - lr · m̂ / (√v̂ + eps)

m and v start at zero, so the first means are too small; the division by 1 - bᵗ mends that. b1 = 0.9, b2 = 0.999, eps
= 1e-8.

Example: weight 0, gradient 5, first step: m̂ = 5, v̂ = 25, so the weight moves by lr, whatever the size of the
gradient.
"""

import numpy as np

from kernels import backend
from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "training", "07", 2, 15
RESULTS = ("weight", "m", "v")

SOLUTION = '''
import numpy as np


def adam_step(weight, gradient, m, v, step, lr):
    """weight, gradient, m, v of one shape; step = 1, 2, ...  →  weight, m, v after the step"""
    b1, b2, eps = 0.9, 0.999, 1e-8
    m = b1 * m + (1 - b1) * gradient
    v = b2 * v + (1 - b2) * gradient**2
    m_hat = m / (1 - b1**step)  # the means began at zero: without this the first steps are wrong
    v_hat = v / (1 - b2**step)
    return weight - lr * m_hat / (np.sqrt(v_hat) + eps), m, v
'''

ANOTHER = """
import math

import numpy as np


def adam_step(weight, gradient, m, v, step, lr):
    m = m + 0.1 * (gradient - m)
    v = v + 0.001 * (gradient * gradient - v)
    root = math.sqrt(1 - 0.999**step)  # both corrections moved into the step width and eps
    width = lr * root / (1 - 0.9**step)
    return weight - width * m / (np.sqrt(v) + 1e-8 * root), m, v
"""


def expected(weight, gradient, m, v, step, lr):
    weight, m, v = weight.copy(), m.copy(), v.copy()
    backend("numpy").adam(weight, gradient.copy(), m, v, lr, 0.9, 0.999, 1e-8, 0.0, False, step, 1.0)
    return weight, m, v


def cases():
    rng = np.random.default_rng(0)
    yield Case("the example", (np.array([0.0]), np.array([5.0]), np.zeros(1), np.zeros(1), 1, 0.1))
    yield Case("second step", (np.array([1.0]), np.array([-2.0]), np.array([0.5]), np.array([0.02]), 2, 0.1))
    yield Case("a tiny gradient", (np.array([1.0]), np.array([1e-8]), np.zeros(1), np.zeros(1), 1, 0.1))
    yield Case("no gradient at all", (np.ones(2), np.zeros(2), np.zeros(2), np.zeros(2), 1, 0.1))
    yield Case("a matrix", (*rng.normal(size=(3, 2, 3)), rng.random((2, 3)), 7, 0.01))
