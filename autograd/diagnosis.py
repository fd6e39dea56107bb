"""What gradcheck says of a wrong gradient: the worst entry in figures, and the mistake that is likely behind it.

The likely mistake is read off two arrays, the derivative by the rule and the one by differences, of shape (K, *shape):
outputs by input elements. Where a common mistake explains all of it, it is named; where none does, nothing is said.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

ENOUGH = 1e-5  # a mistake explains the difference when what is left of it is smaller than this part
WORDS = {2: "exactly twice", 3: "three times", 4: "four times", Fraction(1, 2): "half of", Fraction(1, 3): "a third of"}


class Entry(NamedTuple):
    """Derivatives of all outputs (K) by one input element, or of one weighted sum of them along one direction."""

    place: tuple[int, ...] | None  # index of the input element; None for a direction
    analytic: np.ndarray
    numeric: np.ndarray
    floor: np.ndarray  # noise of the numeric one
    doubt: np.ndarray  # where the differences did not settle

    @property
    def size(self) -> np.ndarray:
        return np.maximum(np.abs(self.analytic), np.abs(self.numeric))

    @property
    def error(self) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return np.abs(self.analytic - self.numeric)

    def wrong(self, rtol: float) -> np.ndarray:
        # written so that NaN counts as wrong; infinities pass any inequality, so they are named
        beyond = ~(self.error <= rtol * self.size + self.floor)
        return beyond | ~np.isfinite(self.analytic) | ~np.isfinite(self.numeric)

    def badness(self, rtol: float) -> np.ndarray:
        """How far out of tolerance each is; -1 where it is right."""
        with np.errstate(invalid="ignore"):
            part = np.nan_to_num(self.error / (self.size + self.floor), nan=np.inf)
        return np.where(self.wrong(rtol), part, -1)


def complaint(probe: Any, position: int, entries: list[Entry], rtol: float) -> str:
    """The worst entry in figures, and what is likely wrong."""
    entry = max(entries, key=lambda one: one.badness(rtol).max())
    output = int(np.argmax(entry.badness(rtol)))
    analytic, numeric = entry.analytic[output], entry.numeric[output]
    shape = probe.inputs[position].shape
    if entry.place is None:
        what = f"a random weighting of the outputs along a random direction of input {position}"
    else:
        what = f"d {probe.place(output)} / d input {position}{index_text(entry.place)}"
    with np.errstate(invalid="ignore"):
        relative = entry.error[output] / max(entry.size[output], 1e-300)
    return "; ".join(
        part
        for part in (
            f"{name_of(probe.function, probe.outputs)}: {what}, input of shape {shape}: "
            f"analytic {analytic:.12g}, numeric {numeric:.12g}, relative error {relative:.2g} (allowed {rtol:g})",
            _likely(probe, position, entry, output, entries),
            f"{sum(int(one.wrong(rtol).sum()) for one in entries)} of {sum(one.analytic.size for one in entries)} "
            f"{'directions' if entry.place is None else 'entries'} are wrong",
        )
        if part
    )


def _likely(probe: Any, position: int, worst: Entry, output: int, entries: list[Entry]) -> str:
    if worst.doubt[output]:
        if worst.place is None:
            return kink(np.nan, np.nan)
        left, right = probe.slopes(position, worst.place)
        return kink(float(left[output]), float(right[output]))
    analytic, numeric = (np.stack([getattr(one, kind) for one in entries], axis=-1) for kind in ("analytic", "numeric"))
    if worst.place is not None:
        shape = probe.inputs[position].shape
        if analytic.shape[-1] != math.prod(shape):
            return ""
        analytic, numeric = (a.reshape(-1, *shape) for a in (analytic, numeric))
    return explain(analytic, numeric)


def index_text(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"


def explain(analytic: np.ndarray, numeric: np.ndarray) -> str:
    """A sentence, or nothing."""
    if not (np.isfinite(analytic).all() and np.isfinite(numeric).all()) or not numeric.any():
        return ""
    return next(_sentences(analytic, numeric), "")


def _sentences(analytic: np.ndarray, numeric: np.ndarray) -> Iterator[str]:
    if not analytic.any():
        yield "the rule's gradient is zero everywhere"
    if _alike(analytic, -numeric):
        yield "the rule's gradient has the right size and the wrong sign"
    factor = float((analytic * numeric).sum() / (numeric * numeric).sum())
    if factor and abs(factor - 1) > ENOUGH and numeric.size > 1 and _alike(analytic, factor * numeric):
        yield f"the rule's gradient is {_times(factor)} the true one, everywhere"
    for axes in permutations(range(1, numeric.ndim)):
        turned = numeric.transpose(0, *axes)
        if list(axes) != sorted(axes) and turned.shape == analytic.shape and _alike(analytic, turned):
            yield "the rule's gradient is transposed"
    for axis in range(1, numeric.ndim):
        yield from _missing_rows(analytic, numeric, axis)


def _missing_rows(analytic: np.ndarray, numeric: np.ndarray, axis: int) -> Iterator[str]:
    """Whether the rule is right except in some rows of the input along an axis."""
    rows = [
        int(row) for row in range(numeric.shape[axis]) if not _alike(*(a.take(row, axis) for a in (analytic, numeric)))
    ]
    if not 0 < len(rows) < numeric.shape[axis]:
        return
    zero = not analytic.take(rows, axis).any()
    listed = ", ".join(map(str, rows[:6])) + (", ..." if len(rows) > 6 else "")
    place = f"where index {axis - 1} of the input is {listed}"
    yield f"the rule is right but for entries {place}" + (", whose gradient is zero: a term is missing" if zero else "")


def _alike(analytic: np.ndarray, numeric: np.ndarray) -> bool:
    return bool(np.abs(analytic - numeric).max(initial=0) <= ENOUGH * np.abs(numeric).max(initial=0))


def _times(factor: float) -> str:
    """A factor in words where it is a simple one."""
    simple = Fraction(factor).limit_denominator(12)
    if abs(float(simple) - factor) > ENOUGH * abs(factor):
        return f"{factor:.6g} times"
    sign, size = ("minus " if simple < 0 else ""), abs(simple)
    return sign + WORDS.get(size, f"{size} times")


def kink(left: float, right: float) -> str:
    """What one-sided slopes say about a point at which differences do not settle."""
    if np.isfinite(left) and np.isfinite(right) and abs(left - right) > 1e-3 * max(abs(left), abs(right)):
        return f"there is a kink here, with slope {left:.4g} on the left and {right:.4g} on the right: try other inputs"
    return "the differences do not settle as the step shrinks: is there a jump or the edge of a domain?"


def name_of(function: Any, outputs: list) -> str:
    """What is being checked: a Function by its name, a lambda by the Functions that it called last."""
    if isinstance(owner := getattr(function, "__self__", None), type):
        return owner.__name__
    name = getattr(function, "__name__", type(function).__name__)
    if name != "<lambda>":
        return name
    last = [output.node.name for output in outputs if output.node is not None]
    return f"a function that ends in {', '.join(dict.fromkeys(last))}" if last else "a function"
