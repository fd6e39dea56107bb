"""The gradient of a Tensor is the sum of what reaches it from each of its uses."""

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


class GradientSum:
    """Arrays are added as they come (many uses must not mean many arrays), slices when all are there."""

    __slots__ = ("so_far", "slices")

    def __init__(self, so_far: Any = None):
        self.so_far = so_far
        self.slices: list[SliceGradient] = []

    def add(self, backend: Any, dx: Any) -> None:
        if isinstance(dx, SliceGradient):
            self.slices.append(dx)
        else:
            self.so_far = dx if self.so_far is None else backend.add(self.so_far, dx)

    def total(self, tensor: Any) -> Any:
        if self.slices:
            self.add(tensor.backend, joined(self.slices, tensor.array, tensor.backend.xp))
        return self.so_far


def joined(slices: list[SliceGradient], array: Any, xp: Any) -> Any:
    """The slices in one array, which lies in memory as the Tensor's own does: before an index there is often a
    transposition, which is undone for free that way. Where every row is written once, no zeros are needed below."""
    writes = np.zeros(array.shape[:1], dtype=int)  # how often each row is written, where keys choose whole rows
    if all(isinstance(part.key, int | slice) for part in slices):
        for part in slices:
            writes[part.key] += 1
    each_once = bool((writes == 1).all())
    total = xp.empty_like(array) if each_once else xp.zeros_like(array)
    for part in slices:
        if each_once:
            total[part.key] = part.dy
        else:
            total[part.key] += part.dy
    return total
