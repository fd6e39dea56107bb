"""# What a step holds

How many bytes does a training step need at each moment? A stack has L layers. Layer l reads `inputs[l]` numbers, makes
`inner[l]` further ones that only it needs (its result is the input of the next layer, and is counted there), and has
`weights[l]` weights. A number has 4 bytes. At each moment there are

    always                    weights, and the two numbers that Adam keeps for each of them
    while layer l runs        its input and its inner numbers; and of the layers before it whatever they have kept
    backward through layer l  all that layers 0 to l have kept; gradients as large as its inner numbers, its input and
                              its result (inputs[l + 1]; the last layer's is one number, which is left out); and
                              gradients of the weights of layers l to L - 1, which stay until the end

A layer keeps its input and its inner numbers until backward has been through it. With `recompute` it keeps its input
only: its inner numbers go when the next layer starts, and while backward is at layer l, those of layer l are there
again.

The result has 2 L numbers: bytes while layers 0, 1, ..., L - 1 run, then while backward is at L - 1, ..., 1, 0.

Example: one layer with inputs [10], inner [100], weights [5]. Always 3 · 5 = 15 numbers; forward 15 + 110 = 125 of
them, 500 bytes; backward 15 + 110 + 110 gradients + 5 of weights = 240, 960 bytes.
"""

import numpy as np

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "scale", "20", 2, 25
RESULTS = ("bytes",)

SOLUTION = '''
def step_memory(inputs, inner, weights, recompute):
    """inputs, inner, weights (L) integers; recompute True or False  →  list of 2 L numbers of bytes"""
    L = len(inputs)
    always = 3 * sum(weights)

    def kept(last):  # by layers 0 to last, the last of them at work
        return sum(inputs[: last + 1]) + (inner[last] if recompute else sum(inner[: last + 1]))

    forward = [always + kept(l) for l in range(L)]
    backward = []
    for l in reversed(range(L)):
        gradients = inner[l] + inputs[l] + sum(inputs[l + 1 : l + 2])  # the last layer has no next input
        backward.append(always + kept(l) + gradients + sum(weights[l:]))
    return [4 * numbers for numbers in forward + backward]
'''

ANOTHER = """
import numpy as np


def step_memory(inputs, inner, weights, recompute):
    now, moments = 3 * int(np.sum(weights)), []  # what is alive; it grows and shrinks
    for l in range(len(inputs)):
        if recompute and l:
            now -= inner[l - 1]
        now += inputs[l] + inner[l]
        moments.append(now)
    for l in range(len(inputs) - 1, -1, -1):
        if recompute and l < len(inputs) - 1:
            now += inner[l]  # computed again
        now += weights[l] + inner[l] + inputs[l]  # its gradients
        moments.append(now)
        now -= 2 * inner[l] + inputs[l]  # the tape lets go; the gradient of its input goes on to the layer before
        if l < len(inputs) - 1:
            now -= inputs[l + 1]
    return 4 * np.array(moments)
"""


def expected(inputs, inner, weights, recompute):
    """Every array with the moments of its birth and of its death; moment L - 1 - l + L is backward through layer l."""
    L, alive = len(inputs), np.zeros(2 * len(inputs), dtype=np.int64)

    def array(numbers, born, dead):
        alive[born : dead + 1] += 4 * numbers

    for l in range(L):
        visited = 2 * L - 1 - l
        array(3 * weights[l], 0, 2 * L - 1)
        array(weights[l], visited, 2 * L - 1)
        array(inputs[l], l, visited)
        for born, dead in [(l, l), (visited, visited)] if recompute else [(l, visited)]:
            array(inner[l], born, dead)
        array(inner[l], visited, visited)
        array(inputs[l], visited, min(visited + 1, 2 * L - 1) if l else visited)  # handed to the layer before
    return alive


def cases():
    yield Case("the example", (np.array([10]), np.array([100]), np.array([5]), False))
    yield Case("the example, computed again", (np.array([10]), np.array([100]), np.array([5]), True))
    equal = np.array([10, 10]), np.array([130, 130]), np.array([7, 7])
    yield Case("two equal layers", (*equal, False))
    yield Case("two equal layers, computed again", (*equal, True))
    rng = np.random.default_rng(0)
    for L in (2, 3, 8):
        sizes = rng.integers(1, 50, L), rng.integers(50, 900, L), rng.integers(1, 99, L)
        for recompute in (False, True):
            yield Case(f"{L} layers{', computed again' * recompute}", (*sizes, recompute))
