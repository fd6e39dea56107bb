"""safetensors: a length, a description in JSON, the numbers.

    ┌─────────┬───────────────────────────────────────────────────────┬─────────────────────────────┐
    │ 8 bytes │ n bytes of JSON                                       │ the numbers, little-endian  │
    │    n    │ {"wte.weight": {"dtype": "F32", "shape": [50257, 768],│ array after array, no gaps  │
    │         │   "data_offsets": [0, 154389504]}, ...}               │ (offsets count from here)   │
    └─────────┴───────────────────────────────────────────────────────┴─────────────────────────────┘

A large model is cut into several such files ("shards"); model.safetensors.index.json says which array lies in which."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from minitransformer.errors import Path, WeightsError, excerpt
from minitransformer.pretrained.weight_file import DAMAGED, KINDS, Source, WeightFile, bytes_of, numbers

MOST_HEADER = 100_000_000  # bytes; the format's own limit
INDEX = "model.safetensors.index.json"


class SafetensorsFile(WeightFile):
    def __init__(self, path: Path):
        super().__init__(path)
        self._source = source = Source(path)
        length = int.from_bytes(source.read(0, 8).tobytes(), "little")
        if length > min(MOST_HEADER, source.size - 8):
            raise source.refused(f"claims a description of {length:,} bytes")
        header = parse_json(source, source.read(8, length).tobytes())
        notes = header.pop("__metadata__", {})
        self.notes: dict[str, str] = notes if isinstance(notes, dict) else {}
        self._starts: dict[str, int] = {}
        end = start = 8 + length
        for name, (begins, ends, kind, shape) in sorted(
            ((name, self._described(name, entry)) for name, entry in header.items()), key=lambda item: item[1][:2]
        ):
            if start + begins != end:
                raise source.refused(f"array {excerpt(name)} does not begin where the one before it ends")
            end = start + ends
            self._starts[name], self.kinds[name], self.shapes[name] = start + begins, kind, shape
        if end != source.size:
            raise source.refused(f"has {source.size:,} bytes, its description speaks of {end:,}")

    def _described(self, name: str, entry: Any) -> tuple[int, int, str, tuple[int, ...]]:
        """Begin, end, kind and shape of one array, each checked."""
        refused = self._source.refused
        if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
            raise refused(f"array {excerpt(name)} is not described by dtype, shape and data_offsets")
        kind, offsets = entry["dtype"], entry["data_offsets"]
        if not isinstance(kind, str) or kind not in KINDS:
            raise refused(f"array {excerpt(name)} has the type {excerpt(kind)}", f"types read are {', '.join(KINDS)}")
        shape = self._source.checked_shape(name, entry["shape"])
        if not isinstance(offsets, list) or len(offsets) != 2 or not all(type(n) is int and n >= 0 for n in offsets):
            raise refused(f"array {excerpt(name)} has impossible data_offsets")
        begins, ends = offsets
        if ends - begins != bytes_of(kind, shape):
            raise refused(f"array {excerpt(name)} has another length than its shape needs")
        return begins, ends, kind, shape

    def load(self, name: str) -> np.ndarray:
        kind, shape = self.kinds[name], self.shapes[name]
        return numbers(self._source.read(self._starts[name], bytes_of(kind, shape)), kind).reshape(shape)


class ShardedFile(WeightFile):
    """Several safetensors files that are one model, opened by their index."""

    def __init__(self, path: Path):
        super().__init__(path)
        source = Source(path)
        if source.size > MOST_HEADER:
            raise source.refused(f"has {source.size:,} bytes, too many for an index")
        places = parse_json(source, source.read(0, source.size).tobytes()).get("weight_map")
        if not isinstance(places, dict) or not all(_plain(file) for file in places.values()):
            raise source.refused("has no weight_map from arrays to files beside it")
        folder = os.path.dirname(self.path)
        self._shards = {file: SafetensorsFile(os.path.join(folder, file)) for file in sorted(set(places.values()))}
        self._of = {name: self._shards[file] for name, file in places.items()}
        for file, shard in self._shards.items():
            promised = {name for name in places if places[name] == file}
            if promised != shard.keys():
                odd = sorted(promised ^ shard.keys())[0]
                what = "lacks" if odd in promised else "has an array that its index does not name:"
                raise WeightsError(shard.path, f"{what} {excerpt(odd)}", DAMAGED)
        self.shapes = {name: shard.shapes[name] for name, shard in self._of.items()}
        self.kinds = {name: shard.kinds[name] for name, shard in self._of.items()}

    def load(self, name: str) -> np.ndarray:
        return self._of[name].load(name)


def parse_json(source: Source, text: bytes) -> dict[str, Any]:
    """A JSON object in which no name stands twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) != len(pairs):
            raise ValueError("a name stands twice")
        return found

    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise source.refused(f"its description is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise source.refused("its description is not a JSON object")
    return value


def _plain(file: object) -> bool:
    """A name in the same folder, not a way out of it."""
    return isinstance(file, str) and os.path.basename(file) == file and file not in ("", ".", "..") and "\\" not in file
