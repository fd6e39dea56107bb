"""Keys and values of the words already read, so that each new word costs one position instead of all of them.

Per layer two arrays (B, G, capacity, D), made once, for the G heads of keys and values. `lengths` (B) says how many
positions of each row are filled: rows may differ, since a prompt's padding is simply overwritten by the words that
follow it.
"""

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd import Tensor


class Cache:
    """The caches of all layers of one decoder."""

    def __init__(self, n_layers: int, rows: int, capacity: int):
        self.lengths = np.zeros(rows, dtype=np.int64)
        self.capacity = capacity
        self.layers = [LayerCache(self) for _ in range(n_layers)]

    def select(self, rows: Sequence[int] | np.ndarray) -> None:
        """Row i becomes what row rows[i] was: drops finished rows, and lets beams branch."""
        rows = np.asarray(rows)
        self.lengths = self.lengths[rows]
        for layer in self.layers:
            layer.select(rows)


class LayerCache:
    """One layer's keys and values, and those of the encoder's output where there is one."""

    def __init__(self, cache: Cache):
        # not the cache itself: in a circle the arrays would stay until Python comes round to looking for circles
        self.cache = weakref.proxy(cache)
        self.own: tuple[Tensor, Tensor] | None = None
        self.memory: tuple[Tensor, Tensor] | None = None

    @property
    def starts(self) -> np.ndarray:
        return self.cache.lengths

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """Writes the new keys and values behind those of each row; returns all of them, and the options with which
        attention sees exactly the filled part.   k, v (B, G, T, D) → (B, G, capacity, D)"""
        B, G, T, D = k.shape
        lengths, capacity = self.cache.lengths, self.cache.capacity
        if lengths.max() + T > capacity:
            raise ValueError(f"the cache holds {capacity} positions, but {lengths.max() + T} are needed")
        if self.own is None:
            # zeros, not empty: a weight of 0 times a stray NaN would be NaN
            empty = [k.backend.xp.zeros((B, G, capacity, D), dtype=k.dtype) for _ in range(2)]
            self.own = Tensor(empty[0], backend=k.backend), Tensor(empty[1], backend=k.backend)
        keys, values = self.own
        if T == 1:  # one query a row: what it may see is a length, and rows may differ
            rows, places = k.backend.asarray(np.arange(B)), k.backend.asarray(lengths)
            keys.writable()[rows, :, places] = k.array[:, :, 0]
            values.writable()[rows, :, places] = v.array[:, :, 0]
            return keys, values, {"key_lengths": lengths + 1}
        start = int(lengths[0])
        if (lengths != start).any():
            raise ValueError("several words at once can only follow rows of one length; give them one by one")
        keys.writable()[:, :, start : start + T] = k.array
        values.writable()[:, :, start : start + T] = v.array
        return keys, values, {"is_causal": True, "query_offset": start}

    def select(self, rows: np.ndarray) -> None:
        self.own, self.memory = _rows(self.own, rows), _rows(self.memory, rows)


def _rows(pair: tuple[Tensor, Tensor] | None, rows: np.ndarray) -> tuple[Tensor, Tensor] | None:
    return None if pair is None else (rows_of(pair[0], rows), rows_of(pair[1], rows))


def rows_of(x: Tensor, rows: np.ndarray) -> Tensor:
    """x[rows], a copy."""
    return Tensor(x.array[x.backend.asarray(rows)], backend=x.backend)
