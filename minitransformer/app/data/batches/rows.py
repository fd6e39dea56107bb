"""A batch can be cut between its rows: the pieces are batches of the same kind, padded as the whole was."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Self

import numpy as np


class Rows:
    """What a dataclass of arrays (B, ...) needs to be cut."""

    def part(self, first: int, last: int) -> Self:
        """The rows from `first` up to `last`, without it."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        cut = {name: array[first:last] for name, array in arrays.items() if isinstance(array, np.ndarray)}
        return replace(self, **cut)  # type: ignore[type-var]

    def rows(self) -> int:
        return len(self.index)  # type: ignore[attr-defined]

    def counts(self) -> tuple[int, ...]:
        """How many targets the loss is a mean of; two numbers where it is the sum of two means."""
        raise NotImplementedError(f"{type(self).__name__} does not count its targets")


def wanted(targets: np.ndarray, ignore: int) -> int:
    """Targets that count."""
    return int((targets != ignore).sum())


def can_be_cut(batch: Any) -> bool:
    return all(callable(getattr(batch, name, None)) for name in ("part", "rows", "counts"))
