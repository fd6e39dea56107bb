"""Gradients on their way: what reaches a Tensor from each of its uses is added up before it is passed on."""

from typing import Any


class Part:
    """A gradient that is zero but for one slice, as an index leaves it: dx[key] = dy. The zeros are not written out."""

    __slots__ = ("key", "dy", "shape")

    def __init__(self, key: Any, dy: Any, shape: tuple[int, ...]):
        self.key, self.dy, self.shape = key, dy, shape

    @property
    def dtype(self) -> Any:
        return self.dy.dtype

    def rows(self) -> tuple[int, int] | None:
        """(first, last + 1) where the slice is neighbouring whole rows of the array."""
        if type(self.key) is int:
            row = self.key % self.shape[0]
            return row, row + 1
        if isinstance(self.key, slice):
            first, last, step = self.key.indices(self.shape[0])
            return (first, max(first, last)) if step == 1 else None
        return None


class Arriving:
    """The gradient of one Tensor so far: a sum of whole arrays, formed at once (many uses must not mean many arrays),
    and slices, kept apart until all are there."""

    __slots__ = ("whole", "parts")

    def __init__(self, whole: Any = None):
        self.whole = whole
        self.parts: list[Part] = []

    def add(self, backend: Any, dx: Any) -> None:
        if isinstance(dx, Part):
            self.parts.append(dx)
        else:
            self.whole = dx if self.whole is None else backend.add(self.whole, dx)

    def total(self, tensor: Any) -> Any:
        if not self.parts:
            return self.whole
        joined = self._joined(tensor.array, tensor.backend.xp)
        return joined if self.whole is None else tensor.backend.add(self.whole, joined)

    def _joined(self, array: Any, xp: Any) -> Any:
        """The slices in one array, which lies in memory as the Tensor's own does: before an index there is often a
        transposition, which is undone for free that way. Slices that fill the array need no zeros below them."""
        rows = [part.rows() for part in self.parts]
        edges = [0, *(edge for pair in sorted(pair for pair in rows if pair) for edge in pair), *array.shape[:1]]
        filled = None not in rows and edges[::2] == edges[1::2]
        joined = xp.empty_like(array) if filled else xp.zeros_like(array)
        for part in self.parts:
            if filled:
                joined[part.key] = part.dy
            else:
                joined[part.key] += part.dy
        return joined
