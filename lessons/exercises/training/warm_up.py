"""# Warm-up

At the beginning Adam's means know little, and large steps do harm. So the learning rate rises in a straight line for
the first steps, and falls slowly afterwards. The transformer paper uses

    factor(step) = step / warmup             up to step = warmup
    factor(step) = √(warmup / step)          from there on

Steps count from 1; at step = warmup both give 1, the peak. `peak` is the learning rate there.

Example: warmup = 4, peak = 1: the steps 1, 2, 3, 4 get 0.25, 0.5, 0.75, 1, and step 16 gets 0.5.
"""

from lessons.exercises.exercise import Case
from minitransformer.optim import inverse_square_root

TRACK, LESSON, LEVEL, MINUTES = "training", "07", 1, 5
RESULTS = ("rate",)

SOLUTION = '''
def warm_up(step, warmup, peak):
    """step = 1, 2, ...; warmup ≥ 1  →  the learning rate of this step"""
    rising = step / warmup
    falling = (warmup / step) ** 0.5  # meets the other at step = warmup
    return peak * min(rising, falling)
'''

ANOTHER = """
import math


def warm_up(step, warmup, peak):
    if step < warmup:
        return peak / warmup * step
    return peak * math.sqrt(warmup) / math.sqrt(step)
"""


def expected(step, warmup, peak):
    return peak * inverse_square_root(warmup)(step)


def cases():
    for step in (1, 2, 4, 5, 16):
        yield Case(f"the example, step {step}", (step, 4, 1.0))
    for step, warmup, peak in ((1, 1, 0.5), (3, 1, 0.5), (999, 1000, 3e-4), (1000, 1000, 3e-4), (12345, 1000, 3e-4)):
        yield Case(f"step {step} of a warm-up of {warmup}", (step, warmup, peak))
