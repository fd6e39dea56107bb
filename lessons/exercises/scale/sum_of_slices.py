"""# A gradient in slices

A batch is cut into S slices, and S machines compute the mean gradient of their slice: the mean over its words. The
slices have different numbers of words, so each weighs as much as it has words:

    part[s] = gradient[s] · (words[s] / all words)          the factor rounded to float32, then multiplied in float32
    result  = the sum of all parts, along one tree: ((p0 + p1) + (p2 + p3)) + ((p4 + p5) + (p6 + p7))

The order is part of the task. Sums of float32 are rounded after each addition, and another order gives other last bits;
the judge compares all bits. Everything stays float32, and S is 1, 2, 4, 8 or 16.

Example: two slices with the gradients [2] and [6], of three words and one. The parts are 2 · 3/4 = 1.5 and 6 · 1/4 =
1.5, the result is [3]. The mean of the two gradients would be 4: in it the lonely word counts three times as much as
each of the others.
"""

import numpy as np

from lessons.exercises.exercise import Case
from minitransformer.app.training.ranks.tree import tree_sum

TRACK, LESSON, LEVEL, MINUTES = "scale", "19", 1, 15
RESULTS = ("gradient",)
TOLERANCE = 0.0  # all bits: that is the task

SOLUTION = '''
import numpy as np


def batch_gradient(gradients, words):
    """gradients (S, P) float32; words (S) integers, not all 0  →  (P) float32"""
    weights = (words / words.sum()).astype(np.float32)
    parts = gradients * weights[:, None]
    while len(parts) > 1:
        parts = parts[0::2] + parts[1::2]  # neighbours, then pairs of neighbours, ...
    return parts[0]
'''

ANOTHER = """
import numpy as np


def batch_gradient(gradients, words):
    total = sum(int(n) for n in words)

    def of(first, last):  # the sum of the slices from first to last, a bracket of the tree
        if last - first == 1:
            return np.float32(words[first] / total) * gradients[first]
        middle = (first + last) // 2
        return of(first, middle) + of(middle, last)

    return of(0, len(words))
"""


def expected(gradients, words):
    """The engine's tree, slice by slice."""
    share = (words / words.sum()).astype(np.float32)
    return tree_sum([np.multiply(share[s], gradients[s]) for s in range(len(words))])


def cases():
    yield Case("the example", (np.array([[2.0], [6.0]], np.float32), np.array([3, 1])))
    rng = np.random.default_rng(0)
    yield Case("one slice", (rng.normal(size=(1, 3)).astype(np.float32), np.array([5])))
    # 1, and three numbers that are too small for it one by one, but not together
    small = np.array([[4.0], [2.0**-22], [2.0**-22], [2.0**-22]], np.float32)
    yield Case("where the last bit depends on the order", (small, np.array([1, 1, 1, 1])))
    empty = rng.normal(size=(4, 3)).astype(np.float32)
    empty[2] = 0
    yield Case("a slice without words", (empty, np.array([2, 7, 0, 1])))
    yield Case("equally many words", (rng.normal(size=(8, 5)).astype(np.float32), np.full(8, 6)))
    for S in (8, 16):
        yield Case(f"{S} slices", (rng.normal(size=(S, 40)).astype(np.float32), rng.integers(1, 60, S)))
