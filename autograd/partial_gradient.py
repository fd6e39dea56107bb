"""Gradients that are zero in most places: those of a slice and of some rows of a table.

They save time and memory, and nothing else: with the zeros written out, `backward` would need none of this file.
"""

import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np


@dataclass(slots=True)
class PartialGradient:
    """dx of this shape, which is zero but for what dy brings."""

    dy: Any
    shape: tuple[int, ...]

    @property
    def dtype(self) -> Any:
        return self.dy.dtype


@dataclass(slots=True)
class SliceGradient(PartialGradient):
    """dx[key] = dy, the key made of integers and slices."""

    key: Any

    def along(self) -> tuple[int | None, Any]:
        """The axis along which x[3], x[2:5] or x[..., 2:5] choose, and what; None for other keys."""
        key = self.key
        if isinstance(key, int | slice):
            return 0, key
        if isinstance(key, tuple) and len(key) == 2 and key[0] is Ellipsis and isinstance(key[1], slice):
            return -1, key[1]
        return None, key


@dataclass(slots=True)
class RowGradient(PartialGradient):
    """dx[ids[n]] += dy[n].   ids (N) integers, some may be equal; dy (N, C). Of many words a batch has few."""

    ids: Any
    kernels: Any

    def whole(self) -> Any:
        return self.kernels.embedding_backward(self.dy, self.ids, self.shape[0])

    def add_to(self, total: Any, xp: Any) -> None:
        different, places = xp.unique(self.ids, return_inverse=True)
        if different.size:
            total[different] += self.kernels.embedding_backward(self.dy, places, different.size)


def add_parts(gradient: Any, tensor: Any) -> None:
    """Adds what a GradientSum has put off to its so_far: slices first, which share one array, then rows."""
    backend, parts = tensor.backend, gradient.parts
    slices = [part for part in parts if isinstance(part, SliceGradient)]
    rows = [part for part in parts if isinstance(part, RowGradient)]
    if slices:
        joined = _joined(slices, tensor.array, backend.xp)
        gradient.so_far = joined if gradient.so_far is None else backend.add(gradient.so_far, joined)
    for part in rows:
        if gradient.so_far is None:
            gradient.so_far = part.whole()
            continue
        # A view of another array, or held by somebody else too. (A base that is no array is its own memory.)
        if isinstance(gradient.so_far.base, type(gradient.so_far)) or _holders(gradient) > ALONE:
            gradient.so_far = backend.xp.array(gradient.so_far)
        part.add_to(gradient.so_far, backend.xp)


def _holders(gradient: Any) -> int:
    return sys.getrefcount(gradient.so_far)


ALONE = _holders(SimpleNamespace(so_far=np.empty(0)))  # what is counted for an array that only a GradientSum holds


def _joined(slices: list[SliceGradient], array: Any, xp: Any) -> Any:
    """The slices in one array, which lies in memory as the Tensor's own does: before an index there is often a
    transposition, which is undone for free that way. Where every place is written once, no zeros are needed below."""
    axes = {part.along()[0] for part in slices}
    each_once = len(axes) == 1 and None not in axes
    if each_once:
        writes = np.zeros(array.shape[axes.pop()], dtype=int)  # how often each place along that axis is written
        for part in slices:
            writes[part.along()[1]] += 1
        each_once = bool((writes == 1).all())
    if each_once and (total := _joined_already(slices, array)) is not None:
        return total
    total = xp.empty_like(array) if each_once else xp.zeros_like(array)
    for part in slices:
        if each_once:
            total[part.key] = part.dy
        else:
            total[part.key] += part.dy
    return total


def _joined_already(slices: list[SliceGradient], array: Any) -> Any:
    """The array of which these slices are views, each where it belongs: attention makes the gradients of heads that
    were cut out of one array like that. None if there is no such array."""
    whole = slices[0].dy.base
    if not isinstance(whole, np.ndarray) or any(part.dy.base is not whole for part in slices):
        return None
    alike = (whole.size, whole.dtype) == (array.size, array.dtype)
    if not (alike and whole.flags.c_contiguous and array.flags.c_contiguous):
        return None
    whole = whole.reshape(array.shape)
    places = ((whole[part.key], part.dy) for part in slices)
    return whole if all(a.ctypes.data == b.ctypes.data and a.strides == b.strides for a, b in places) else None
