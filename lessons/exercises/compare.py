"""Is a result the expected one? And if not: where do they differ first, and how is that shown to a student?"""

from __future__ import annotations

import pprint
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitransformer.errors import excerpt, one_line

# Relative to the largest entry. In float64 another order of summation changes some 1e-15, a wrong formula far more than
# 1e-9; float32 (CUDA) has seven digits, of which a sum over some hundred numbers costs one or two.
TOLERANCE = {"python": 1e-9, "engine": 1e-9, "numba": 1e-9, "cuda": 2e-5}
SHOWN = 12  # entries of an array that are printed in full


@dataclass(frozen=True)
class Difference:
    """What is not as expected; `expected` and `got` are arrays of one shape unless `what` says otherwise."""

    what: str  # numbers, shape, kind
    name: str  # of the result
    expected: Any
    got: Any
    place: tuple[int, ...] = ()
    many: int = 0  # entries that are wrong

    def lines(self) -> list[str]:
        if self.what == "kind":
            return [f"expected  {describe(self.expected)}", f"got       {describe(self.got)}"]
        if self.what == "shape":
            shapes = [str(np.shape(one)) for one in (self.expected, self.got)]
            lines = [f"expected  {self.name} of shape {shapes[0]}", f"got       shape {shapes[1]}"]
            for n, one in enumerate((self.expected, self.got)):
                if np.size(one) <= SHOWN:
                    lines[n] += f": {' '.join(show(one).split())}"
            return lines
        shown = []
        if 1 < np.size(self.expected) <= SHOWN:
            label = max(len("expected"), len("got"))
            for word, one in (("expected", self.expected), ("got", self.got)):
                shown += indented(f"{word.ljust(label)}  {self.name} = ", show(one))
        at = f"{self.name}[{', '.join(map(str, self.place))}]" if self.place else self.name
        wrong = f" ({self.many} of {np.size(self.expected)} entries are wrong)" if np.size(self.expected) > 1 else ""
        values = [np.asarray(one)[self.place] for one in (self.expected, self.got)]
        texts = [number(value) for value in values]
        if texts[0] == texts[1]:  # they differ further behind
            texts = [number(value, 15) for value in values]
        return [*shown, "{}  expected {}, got {}{}".format(at, *texts, wrong)]


def normal(value: Any) -> Any:
    """Lists of numbers and numbers as arrays, so that [1, 2] and array([1, 2]) are the same answer."""
    if isinstance(value, list):
        try:
            array = np.asarray(value)
        except ValueError:
            return [normal(one) for one in value]
        return array if array.dtype.kind in "biuf" else [normal(one) for one in value]
    if isinstance(value, tuple):
        return tuple(normal(one) for one in value)
    if isinstance(value, dict):
        return {key: normal(one) for key, one in value.items()}
    return value if value is None or isinstance(value, str) else np.asarray(value)


def close(expected: Any, got: Any, tolerance: float) -> np.ndarray:
    """Entry by entry. Infinities must be the same ones; NaN is only right where it is expected."""
    expected, got = np.asarray(expected), np.asarray(got)
    if expected.dtype.kind in "biu":
        return expected == got
    scale = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(np.asarray(got, np.float64) - expected) <= tolerance * max(float(scale), 1e-300)
    return near | (expected == got) | (np.isnan(expected) & np.isnan(got))


def difference(expected: Any, got: Any, tolerance: float, name: str = "result") -> Difference | None:
    """The first difference between two normal values; None if there is none."""
    if isinstance(expected, tuple | list):
        if not isinstance(got, tuple | list) or len(got) != len(expected):
            return Difference("kind", name, expected, got)
        names = (
            name.split(",") if len(name.split(",")) == len(expected) else [f"{name}[{n}]" for n in range(len(expected))]
        )
        found = (difference(e, g, tolerance, n.strip()) for e, g, n in zip(expected, got, names, strict=True))
        return next((one for one in found if one), None)
    if isinstance(expected, dict):
        if not isinstance(got, dict) or set(got) != set(expected):
            return Difference("kind", name, expected, got)
        found = (difference(expected[key], got[key], tolerance, f"{name}[{key!r}]") for key in expected)
        return next((one for one in found if one), None)
    if expected is None or isinstance(expected, str):
        same = expected == got if expected is None else isinstance(got, str) and got.split() == expected.split()
        return None if same else Difference("kind", name, expected, got)
    if not isinstance(got, np.ndarray):
        return Difference("kind", name, expected, got)
    if got.shape != expected.shape:
        return Difference("shape", name, expected, got)
    wrong = ~close(expected, got, tolerance)
    if not wrong.any():
        return None
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    return Difference("numbers", name, expected, got, first, int(wrong.sum()))


def number(value: Any, digits: int = 6) -> str:
    return str(value) if np.asarray(value).dtype.kind in "biu" else f"{float(value):.{digits}g}"


def written(value: Any) -> Any:
    """A normal value as a student would write it: ['a', 2] and not ['a', array(2)]."""
    if isinstance(value, tuple | list):
        return type(value)(written(one) for one in value)
    return value.tolist() if isinstance(value, np.ndarray) else value


def is_list(value: Any) -> bool:
    """A list that holds no arrays: it is shown as Python writes it."""
    return isinstance(value, list) and not any(isinstance(one, np.ndarray) for one in value)


def show(value: Any) -> str:
    if is_list(value):
        return pprint.pformat(value, width=100, compact=True)
    text = np.array2string(np.asarray(value), precision=4, suppress_small=True, threshold=40, max_line_width=100)
    return "\n".join(line for line in text.splitlines() if line.strip())


def describe(value: Any) -> str:
    if isinstance(value, tuple):
        return f"{len(value)} results ({', '.join(describe(one) for one in value)})"
    if isinstance(value, list):
        return f"a list of {len(value)}: {one_line(repr(written(value)), 100)}"
    if isinstance(value, dict):
        return f"a dictionary with {', '.join(map(repr, value)) or 'nothing'}"
    if isinstance(value, np.ndarray):
        return f"{'an array of shape ' + str(value.shape) if value.ndim else 'a number'}"
    return "None (is there a return?)" if value is None else excerpt(value)


def indented(label: str, text: str) -> list[str]:
    """Several lines of an array under one label."""
    first, *rest = text.splitlines()
    return [label + first, *(" " * len(label) + line for line in rest)]
