"""Numbers on the command line: types for argparse that say what they expect."""

from __future__ import annotations

import argparse
import math
from typing import Any

from minitransformer.errors import excerpt


def at_least_one(text: str) -> int:
    return _number(text, int, 1, "a whole number from 1 on")


def at_least_zero(text: str) -> int:
    return _number(text, int, 0, "a whole number from 0 on")


def positive(text: str) -> float:
    return _number(text, float, math.ulp(0.0), "a number above 0")


def fraction(text: str) -> float:
    """A part of a whole, which may be all of it but not nothing."""
    value = positive(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number above 0 and at most 1")
    return value


def below_one(text: str) -> float:
    """A part of a whole, which may be nothing but not all of it."""
    value = _number(text, float, 0.0, "a number from 0 to below 1")
    if value >= 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from 0 to below 1")
    return value


def _number(text: str, kind: Any, least: float, expected: str) -> Any:
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if 2**63 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{excerpt(text)} is too large: give {expected}, below 2^63 = 9.2e18")
    if not least <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{excerpt(text)}: give {expected}")
    return value
