"""# Warm-up

At the beginning Adam's means know little, and large steps do harm. So the learning rate rises in a straight line for
the first steps, and falls slowly afterwards. The transformer paper uses

    factor(step) = step / warmup             up to step = warmup
    factor(step) = √(warmup / step)          from there on

Steps count from 1; at step = warmup both give 1, the peak. `peak` is the learning rate there.

Example: warmup = 4, peak = 1: the steps 1, 2, 3, 4 get 0.25, 0.5, 0.75, 1, and step 16 gets 0.5.
"""

from lessons.exercises.exercise import Case, code, edit
from minitransformer.optim import inverse_square_root

TRACK, LESSON, LEVEL, MINUTES = "training", "07", 1, 5
RESULTS = ("rate",)

HINTS = (
    "Two cases, or the smaller of two numbers.",
    "Both formulas agree at step = warmup. Before it the first is smaller, after it the second.",
    "peak * min(step / warmup, (warmup / step) ** 0.5)",
)

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

WRONG = {
    "larger of the two": edit("min(", "max(", says="expected"),
    "never falls": edit(
        "min(rising, falling)",
        "min(rising, 1.0)",
        tell="The rate stays at its peak; it should fall as √(warmup / step).",
    ),
    "no warm-up": edit(
        "min(rising, falling)",
        "min(1.0, falling)",
        tell="The rate starts at its peak; it should rise from step / warmup.",
    ),
    "falls too fast": edit(" ** 0.5", "", tell="It falls as warmup / step; the root is missing."),
    "steps from 0": edit("rising = step / warmup", "rising = (step - 1) / warmup", says="expected"),
    "one step late": edit("step / warmup", "step / (warmup + 1)", says="expected"),
    "peak forgotten": edit("peak * min", "min", says="expected"),
    "without the warm-up's width": edit("(warmup / step) ** 0.5", "(1 / step) ** 0.5", says="expected"),
    "jump": edit(
        "min(rising, falling)",
        "(rising if step <= warmup else step**-0.5)",
        tell="The falling part lacks √warmup: the rate jumps down after the peak.",
    ),
    "falls in a straight line": edit(
        "(warmup / step) ** 0.5",
        "max(0.0, 2 - step / warmup)",
        tell="It falls in a straight line; it should fall as √(warmup / step).",
    ),
    "upside down": edit("(warmup / step) ** 0.5", "(step / warmup) ** 0.5", says="expected"),
    "always the example's": edit(
        "    rising", "    warmup = 4\n    rising", tell="The warm-up has 4 steps, whatever is asked for."
    ),
    "a constant": code(
        """
def warm_up(step, warmup, peak):
    return peak
""",
        says="expected",
    ),
    "the engine's own": code(
        """
from minitransformer.optim import inverse_square_root


def warm_up(step, warmup, peak):
    return peak * inverse_square_root(warmup)(step)
""",
        says="not to call",
    ),
}


def expected(step, warmup, peak):
    return peak * inverse_square_root(warmup)(step)


def cases():
    for step in (1, 2, 4, 5, 16):
        yield Case(f"the example, step {step}", (step, 4, 1.0))
    for step, warmup, peak in ((1, 1, 0.5), (3, 1, 0.5), (999, 1000, 3e-4), (1000, 1000, 3e-4), (12345, 1000, 3e-4)):
        yield Case(f"step {step} of a warm-up of {warmup}", (step, warmup, peak))
