"""# Clipping gradients

A single strange batch can have a huge gradient, and one step with it ruins the model. Clipping limits the length of
the gradient and keeps its direction. The length is taken over *all* arrays together, as if they were one long vector:

    norm   = √(Σ over all arrays of Σ g²)
    factor = most / norm   if norm > most,   else 1
    every array is multiplied by the same factor

Example: gradients [3] and [4] have the norm 5. With most = 1 they become [0.6] and [0.8]; with most = 10 they stay.
"""

import numpy as np

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "training", "07", 1, 10
RESULTS = ("gradients", "norm")

SOLUTION = '''
import numpy as np


def clip_gradients(gradients, most):
    """gradients: a list of arrays; most > 0  →  the clipped arrays (a list), and the norm before"""
    norm = np.sqrt(sum((g**2).sum() for g in gradients))  # one length for all of them
    factor = most / norm if norm > most else 1.0
    return [g * factor for g in gradients], norm
'''

ANOTHER = """
import math

import numpy as np


def clip_gradients(gradients, most):
    norm = math.hypot(*(float(np.linalg.norm(g)) for g in reversed(gradients)))
    if norm <= most:
        return [np.array(g) for g in gradients], norm
    return [g / norm * most for g in gradients], norm
"""


def expected(gradients, most):
    """As one long vector; the engine's own clipping agrees, or the exercise is wrong."""
    from autograd import Tensor
    from minitransformer.optim import clip_grad_norm

    long = np.concatenate([g.reshape(-1) for g in gradients])
    norm = np.linalg.norm(long)
    parameters = [Tensor(np.zeros(g.shape), requires_grad=True) for g in gradients]
    for parameter, g in zip(parameters, gradients, strict=True):
        parameter.grad = Tensor(g.copy())
    assert np.isclose(clip_grad_norm(parameters, most), norm)
    return [parameter.grad.numpy() for parameter in parameters], norm


def cases():
    rng = np.random.default_rng(0)
    yield Case("the example", ([np.array([3.0]), np.array([4.0])], 1.0))
    yield Case("short enough: the example", ([np.array([3.0]), np.array([4.0])], 10.0))
    yield Case("one array", ([np.array([3.0, -4.0])], 2.0))
    yield Case("all zero", ([np.zeros(2)], 1.0))
    yield Case("exactly at the limit", ([np.array([3.0]), np.array([4.0])], 5.0))
    yield Case("different shapes", ([rng.normal(size=(2, 3)), rng.normal(size=4), rng.normal(size=(1, 1, 2))], 0.5))
    yield Case("a huge array and a tiny one", ([1e3 * rng.normal(size=3), 1e-3 * rng.normal(size=3)], 1.0))
