"""Checks on what a user hands to a model: one clear error instead of a wrong number or a crash further down."""

from typing import Any

import numpy as np

from autograd import Tensor


def integers(name: str, value: Any) -> Any:
    """Lists, arrays and Tensors of integers as an array."""
    if isinstance(value, Tensor):
        value = value.data
    if not hasattr(value, "dtype"):
        try:
            value = np.asarray(value)
        except (ValueError, TypeError):
            raise ValueError(f"{name}: the rows differ in length; pad them, and pass their lengths") from None
    if value.dtype.kind not in "iu" and value.size:
        raise TypeError(f"{name} must hold integers, not {value.dtype}; use .astype('int64')")
    return value


def token_ids(name: str, value: Any, vocabulary: int, max_len: int | None = None) -> Any:
    """Ids (B, T) below the vocabulary's size, T at most max_len."""
    ids = integers(name, value)
    if ids.ndim != 2 or not ids.size:
        hint = f"; for one sequence write {name}[None]" if ids.ndim == 1 and ids.size else ""
        raise ValueError(f"{name} must have shape (B, T), at least (1, 1), not {tuple(ids.shape)}{hint}")
    if max_len is not None and ids.shape[1] > max_len:
        raise ValueError(f"{name} has {ids.shape[1]} positions, but the model was built for max_len = {max_len}")
    within(name, ids, 0, vocabulary - 1, "the vocabulary")
    return ids


def same_shape(name: str, value: Any, other: str, shape: tuple[int, ...]) -> Any:
    """Integers of the shape that another argument has."""
    array = integers(name, value)
    if tuple(array.shape) != tuple(shape):
        raise ValueError(f"{name} has shape {tuple(array.shape)}, but {other} has {tuple(shape)}")
    return array


def row_lengths(name: str, value: Any, rows: int, positions: int) -> Any:
    """Lengths (B), each between 1 and the number of positions; None stays None."""
    if value is None:
        return None
    lengths = integers(name, value)
    if tuple(lengths.shape) != (rows,):
        raise ValueError(f"{name} must have shape ({rows},), one for each row, not {tuple(lengths.shape)}")
    within(name, lengths, 1, positions, "positions")
    return lengths


def within(name: str, array: Any, low: int, high: int, what: str) -> None:
    wrong = (array < low) | (array > high)
    if bool(wrong.any()):
        first = np.unravel_index(int(wrong.argmax()), array.shape)
        where = ", ".join(str(int(i)) for i in first)
        raise ValueError(f"{name}[{where}] is {int(array[first])}, outside {low} ... {high} ({what})")
