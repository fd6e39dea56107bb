"""Results on their way from a student's process to the judge: plain text, so that reading them runs nothing."""

import base64
from typing import Any

import numpy as np

LARGEST = 64 * 2**20  # bytes of one result


class NoValue(ValueError):
    """A result that is neither numbers nor text, nor a list, tuple or dictionary of such."""


def encoded(value: Any, depth: int = 0) -> Any:
    """Something that JSON can carry."""
    if depth > 8:
        raise NoValue("a list within a list within a list ... more than eight deep")
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return {"tuple": [encoded(one, depth + 1) for one in value]}
    if isinstance(value, dict):
        return {"dict": [[str(key), encoded(one, depth + 1)] for key, one in value.items()]}
    if isinstance(value, list):
        try:
            array = np.asarray(value)
        except ValueError:  # rows of different lengths
            array = np.asarray(None)
        if array.dtype.kind not in "biuf":
            return {"list": [encoded(one, depth + 1) for one in value]}
        value = array
    array = np.asarray(value)  # a Tensor too
    if array.dtype.kind not in "biuf":
        raise NoValue(f"{type(value).__name__} of {array.dtype}" if array.ndim else type(value).__name__)
    if array.nbytes > LARGEST:
        raise NoValue(f"an array of {array.nbytes:,} bytes")
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    array = np.ascontiguousarray(array).reshape(array.shape)
    return {"array": [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode()]}


def decoded(text: Any) -> Any:
    """What `encoded` made; ValueError for anything else, since a student's process may write what it likes."""
    if text is None or isinstance(text, str):
        return text
    if not isinstance(text, dict) or len(text) != 1:
        raise ValueError("no value")
    ((kind, inside),) = text.items()
    if kind == "tuple":
        return tuple(decoded(one) for one in inside)
    if kind == "list":
        return [decoded(one) for one in inside]
    if kind == "dict":
        return {str(key): decoded(one) for key, one in inside}
    if kind != "array":
        raise ValueError("no value")
    dtype, shape, data = inside
    kept = np.dtype(str(dtype))
    if kept.kind not in "biuf":
        raise ValueError("no numbers")
    return np.frombuffer(base64.b64decode(data), kept).reshape([int(size) for size in shape]).copy()
