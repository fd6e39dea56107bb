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
    """Whole arrays are added as they come (many uses must not mean many arrays), slices when all are there."""

    __slots__ = ("whole", "slices")

    def __init__(self, whole: Any = None):
        self.whole = whole
        self.slices: list[SliceGradient] = []

    def add(self, backend: Any, dx: Any) -> None:
        if isinstance(dx, SliceGradient):
            self.slices.append(dx)
        else:
            self.whole = dx if self.whole is None else backend.add(self.whole, dx)

    def total(self, tensor: Any) -> Any:
        if not self.slices:
            return self.whole
        joined = self._joined(tensor.array, tensor.backend.xp)
        return joined if self.whole is None else tensor.backend.add(self.whole, joined)

    def _joined(self, array: Any, xp: Any) -> Any:
        """The slices in one array, which lies in memory as the Tensor's own does: before an index there is often a
        transposition, which is undone for free that way. Where every row is written once, no zeros are needed below."""
        writes = np.zeros(array.shape[:1], dtype=int)  # how often each row is written, where keys choose whole rows
        if all(isinstance(part.key, int | slice) for part in self.slices):
            for part in self.slices:
                writes[part.key] += 1
        if (writes == 1).all():
            joined = xp.empty_like(array)
            for part in self.slices:
                joined[part.key] = part.dy
        else:
            joined = xp.zeros_like(array)
            for part in self.slices:
                joined[part.key] += part.dy
        return joined
