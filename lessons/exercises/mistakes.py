"""Mistakes that show in the numbers, whatever the exercise: each function looks at what was expected and what came, and
says in a sentence what it recognises, or nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lessons.exercises.compare import close

NEAR = 1e-5  # a recognised mistake explains the numbers to five digits: enough for float32, too much for chance


def recognise(expected: Any, got: Any, arguments: Mapping[str, Any], others: Mapping[str, Any]) -> str:
    """The likely mistake, or "".   others: the remaining results by name, to see whether two are swapped"""
    expected, got = np.asarray(expected), np.asarray(got)
    for name, other in others.items():
        if isinstance(other, np.ndarray) and got.shape == other.shape and got.size > 1 and same(other, got):
            return f"This is what {name} should be: are two results swapped?"
    if got.dtype.kind not in "biuf" or got.size == 0:
        return ""
    looks: tuple[Callable, ...] = SAME_SHAPE if got.shape == expected.shape else OTHER_SHAPE
    with np.errstate(all="ignore"):
        return next((said for look in looks if (said := look(expected, got, arguments))), "")


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool(close(a, b, NEAR).all())


# ---------------------------------------------------------------------------------------------------- other shape


def transposed_shape(expected, got, arguments) -> str:
    if got.ndim >= 2 and same(expected, np.swapaxes(got, -1, -2)):
        return "The numbers are right, but transposed."
    if expected.ndim >= 2 and got.shape == np.swapaxes(expected, -1, -2).shape:
        return "The shape is that of the transposed result: the operands of a product may be in the wrong order."
    if got.size == expected.size and same(expected.reshape(-1), got.reshape(-1)):
        return "The numbers are right, only their shape is not: a reshape, or keepdims, is missing."
    return ""


def not_summed(expected, got, arguments) -> str:
    """A broadcast input gets the sum over the axes along which it was repeated."""
    if got.ndim < expected.ndim:
        return ""
    for count in range(1, got.ndim + 1):
        for axes in itertools.combinations(range(got.ndim), count):
            for keep in (False, True):
                summed = got.sum(axis=axes, keepdims=keep)
                if same(expected, summed):
                    which = ", ".join(map(str, axes))
                    return f"Summed over axis {which} it would be right: the sum over a broadcast axis is missing."
    return ""


def summed_away(expected, got, arguments) -> str:
    for axis in range(expected.ndim):
        for keep in (False, True):
            if same(expected.sum(axis=axis, keepdims=keep), got):
                return f"This is the expected result summed over axis {axis}: one sum too many."
    return ""


# ---------------------------------------------------------------------------------------------------- the same shape


def not_finite(expected, got, arguments) -> str:
    if got.dtype.kind != "f" or not np.isfinite(expected).all():
        return ""
    if np.isnan(got).any():
        some = "Everything is" if np.isnan(got).all() else "Some entries are"
        return f"{some} NaN: exp overflows (subtract the largest first), 0/0, or memory that was never written."
    if not np.isfinite(got).all():
        return "Some entries are infinite: exp overflows (subtract the largest score first), or a division by zero."
    return ""


def sign(expected, got, arguments) -> str:
    minus = expected.any() and expected.dtype.kind in "if" and same(-expected, got)
    return "The sign is wrong: every number is right except for its sign." if minus else ""


def zeros(expected, got, arguments) -> str:
    return "All numbers are zero: nothing is written or added up." if not got.any() else ""


def transposed(expected, got, arguments) -> str:
    if expected.ndim < 2 or expected.shape[-1] != expected.shape[-2] or expected.shape[-1] == 1:
        return ""
    return "The numbers are right, but transposed." if same(np.swapaxes(expected, -1, -2), got) else ""


def factor(expected, got, arguments) -> str:
    """One factor everywhere; its name, if a size of the inputs explains it."""
    if expected.dtype.kind != "f" or np.count_nonzero(expected) < 2 or not np.isfinite(got).all():
        return ""
    largest = np.unravel_index(np.argmax(np.abs(expected)), expected.shape)
    ratio = float(got[largest] / expected[largest])
    if ratio == 0 or not same(expected * ratio, got):
        return ""
    sizes = sorted({int(n) for value in arguments.values() for n in np.shape(value) if n > 1})
    names = {2.0: "2", 0.5: "1/2"}
    for n in sizes:
        names = {float(n): f"{n}", 1 / n: f"1/{n}", n**0.5: f"√{n}", n**-0.5: f"1/√{n}"} | names
    known = next((text for value, text in names.items() if abs(ratio / value - 1) < NEAR), "")
    if not known and expected.size < 4:
        return ""  # few numbers are proportional by chance
    known = known or f"{ratio:.4g}"
    return f"Every number is {known} times what it should be: a scale is missing, or one too many is there."


def offset(expected, got, arguments) -> str:
    if expected.dtype.kind not in "iuf" or got.size < 3 or not np.isfinite(got).all():
        return ""
    shift = float(got.flat[0]) - float(expected.flat[0])
    moved = same(expected + shift, got)
    return f"Every number is off by {shift:.4g}: a constant is added, or missing." if moved else ""


def shifted(expected, got, arguments) -> str:
    for axis in range(expected.ndim):
        a, b = np.moveaxis(expected, axis, 0), np.moveaxis(got, axis, 0)
        if expected.size > 3 and same(a, b[::-1]):
            return f"The order along axis {axis} is reversed."
        if expected.shape[axis] < 3:
            continue
        for step in (1, -1):
            if same(a[max(0, step) : len(a) + min(0, step)], b[max(0, -step) : len(b) + min(0, -step)]) and np.ptp(a):
                return f"Along axis {axis} everything sits one place {'early' if step > 0 else 'late'}: off by one."
    return ""


def wrong_axis(expected, got, arguments) -> str:
    """Rows that should sum to one, while columns do."""
    if expected.ndim < 2 or expected.shape[-1] < 2 or not same(np.ones(expected.shape[:-1]), expected.sum(-1) * 1.0):
        return ""
    if same(np.ones_like(got.sum(-2)), got.sum(-2)):
        return "The columns sum to one, the rows should: the softmax runs over the wrong axis."
    if not same(np.ones_like(got.sum(-1)), got.sum(-1)):
        first = float(got.sum(-1).flat[0])
        return f"Rows should sum to one; the first sums to {first:.4g}: masked or scaled after the softmax?"
    return ""


def per_row(expected, got, arguments) -> str:
    """Each row scaled by a number of its own."""
    if expected.ndim < 2 or expected.dtype.kind != "f" or expected.shape[-1] < 2 or not np.isfinite(got).all():
        return ""
    largest = np.argmax(np.abs(expected), axis=-1, keepdims=True)
    ratio = np.take_along_axis(got, largest, -1) / np.take_along_axis(expected, largest, -1)
    if np.isfinite(ratio).all() and same(expected * ratio, got):
        return "Each row is right up to a factor of its own: a normalization, or a sum along the row, is off."
    return ""


def tail(expected, got, arguments) -> str:
    """Only the end of an axis is wrong."""
    wrong = ~close(expected, got, NEAR)
    for axis in range(expected.ndim):
        size = expected.shape[axis]
        rows = wrong.any(axis=tuple(other for other in range(expected.ndim) if other != axis))
        first = int(np.argmax(rows))
        if size >= 3 and first >= (size + 1) // 2 and rows[first:].all():
            return (
                f"Along axis {axis} all is right up to entry {first - 1}, and wrong from {first} to the end: look at "
                "the tail (the last, incomplete tile, or an end that is off by one)."
            )
        if size >= 3 and rows[0] and not rows[1:].any():
            return f"Along axis {axis} only the first entry is wrong: does the loop begin one too late?"
    return ""


OTHER_SHAPE = (not_summed, transposed_shape, summed_away)
SAME_SHAPE = (zeros, not_finite, sign, transposed, factor, offset, shifted, wrong_axis, tail, per_row)
