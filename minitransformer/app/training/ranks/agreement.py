"""Whether all ranks are about to do the same: one program, one set of libraries, the same options and data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from minitransformer.app.ranks import Alone
from minitransformer.errors import TrainingError


def demand_agreement(ranks: Alone, told: Mapping[str, Any]) -> None:
    """Raises if ranks differ in what decides about the numbers, and names the first difference. told: JSON values"""
    said = np.frombuffer(json.dumps(dict(_flat(told)), sort_keys=True).encode(), dtype=np.uint8)
    known = [json.loads(text.tobytes()) for text in ranks.gathered(said)]
    for rank, other in enumerate(known):
        for name, value in known[0].items():
            if other.get(name) != value:
                raise TrainingError(
                    f"rank {rank} differs from rank 0 in {name}: {str(other.get(name))[:80]}, not {str(value)[:80]}; "
                    "give all ranks the same program, libraries, options and data"
                )


def _flat(told: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What lies inside has the last of its names."""
    for name, value in told.items():
        yield from _flat(value) if isinstance(value, dict) else [(name, value)]


def digest(arrays: Mapping[str, np.ndarray]) -> str:
    """A few letters that stand for all these numbers."""
    known = hashlib.sha256()
    for name, array in arrays.items():
        known.update(f"{name} {array.dtype} {array.shape}".encode())
        known.update(np.ascontiguousarray(array).tobytes())
    return known.hexdigest()[:16]
