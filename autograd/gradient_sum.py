"""The gradient of a Tensor is the sum of what reaches it from each of its uses."""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(slots=True)
class SliceGradient:
    """A gradient that is zero outside of one slice: dx[key] = dy. The zeros are not written out."""

    key: Any
    dy: Any
    shape: tuple[int, ...]

    @property
    def dtype(self) -> Any:
        return self.dy.dtype

    @property
    def axis(self) -> Any:
        """That along which x[3], x[2:5] or x[..., 2:5] choose; None for other keys."""
        if isinstance(self.key, tuple):
            return -1 if len(self.key) == 2 and self.key[0] is Ellipsis and isinstance(self.key[1], slice) else None
        return 0 if isinstance(self.key, int | slice) else None


@dataclass(slots=True)
class RowGradient:
    """A gradient that is zero outside of some rows: dx[ids[n]] += dy[n]. Of many words a batch has few."""

    ids: Any  # (N) integers; some may be equal
    dy: Any  # (N, C)
    shape: tuple[int, ...]
    kernels: Any

    @property
    def dtype(self) -> Any:
        return self.dy.dtype

    def whole(self) -> Any:
        """With the zeros."""
        return self.kernels.embedding_backward(self.dy, self.ids, self.shape[0])

    def add_to(self, total: Any, xp: Any) -> None:
        different, places = xp.unique(self.ids, return_inverse=True)
        if different.size:
            total[different] += self.kernels.embedding_backward(self.dy, places, different.size)


class GradientSum:
    """Arrays are added as they come (many uses must not mean many arrays), slices and rows when all are there."""

    __slots__ = ("so_far", "slices", "rows")

    def __init__(self, so_far: Any = None):
        self.so_far = so_far
        self.slices: list[SliceGradient] = []
        self.rows: list[RowGradient] = []

    def add(self, backend: Any, dx: Any) -> None:
        if isinstance(dx, SliceGradient):
            self.slices.append(dx)
        elif isinstance(dx, RowGradient):
            self.rows.append(dx)
        else:
            self.so_far = dx if self.so_far is None else backend.add(self.so_far, dx)

    def total(self, tensor: Any) -> Any:
        xp = tensor.backend.xp
        if self.slices:
            self.add(tensor.backend, joined(self.slices, tensor.array, xp))
        for part in self.rows:
            if self.so_far is None:
                self.so_far = part.whole()
                continue
            if self.so_far.base is not None or _held(self) > ALONE:
                self.so_far = xp.array(self.so_far)  # somebody else reads it too
            part.add_to(self.so_far, xp)
        return self.so_far


def _held(gradient: GradientSum) -> int:
    return sys.getrefcount(gradient.so_far)


ALONE = _held(GradientSum(np.empty(0)))  # what is counted for an array that only a GradientSum holds


def joined(slices: list[SliceGradient], array: Any, xp: Any) -> Any:
    """The slices in one array, which lies in memory as the Tensor's own does: before an index there is often a
    transposition, which is undone for free that way. Where every place is written once, no zeros are needed below."""
    axes = {part.axis for part in slices}
    each_once = len(axes) == 1 and None not in axes
    if each_once:
        writes = np.zeros(array.shape[axes.pop()], dtype=int)  # how often each place along that axis is written
        for part in slices:
            writes[part.key[1] if isinstance(part.key, tuple) else part.key] += 1
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
