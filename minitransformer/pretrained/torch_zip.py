"""PyTorch's files (.pt, .pth, .bin) without PyTorch and without unpickling.

torch.save writes a zip, nothing in it packed:

    archive/data.pkl      a pickle: names, shapes, and in which storage each tensor lies    (see tensor_pickle.py)
    archive/data/0        the numbers of storage 0
    archive/data/1        ...
    archive/byteorder     "little"

and until 2020 it wrote five pickles, then the storages one after the other:

    magic number │ 1001 │ machine │ the same pickle │ keys of the storages │ count, numbers │ count, numbers │ ..."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from minitransformer.errors import Path, excerpt
from minitransformer.pretrained.archive import Archive, Entry
from minitransformer.pretrained.tensor_pickle import Storage, flatten, read_pickle
from minitransformer.pretrained.weight_file import Source, WeightFile, numbers, size_of

MOST_PICKLE = 16_000_000  # bytes; that of a model with a thousand tensors has about a hundred thousand
MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001


@dataclass(frozen=True)
class Place:
    """Where the numbers of a storage lie in the file."""

    start: int
    entry: Entry | None = None  # of the zip, with a checksum


class TorchFile(WeightFile):
    """`settings` holds what is neither tensor nor container: {"dims.n_mels": 80, ...}."""

    def __init__(self, path: Path):
        super().__init__(path)
        source = Source(path)
        if source.read(0, min(4, source.size)).tobytes() == b"PK\3\4":
            self._archive = Archive(path)
            self._source = self._archive.source
            content, places = _read_zip(self._archive)
        else:
            self._source = source
            content, places = _read_legacy(source)
        self._tensors, self.settings = flatten(content, path)
        if not self._tensors:
            raise source.refused("holds no tensors", "name a file of weights")
        self._places = {name: places(info.storage) for name, info in self._tensors.items()}
        self.kinds = {name: info.storage.kind for name, info in self._tensors.items()}
        self.shapes = {name: source.checked_shape(name, info.shape) for name, info in self._tensors.items()}

    def load(self, name: str) -> np.ndarray:
        info, place = self._tensors[name], self._places[name]
        if place.entry is not None:
            self._archive.require_intact(place.entry)
        kind = info.storage.kind
        size = size_of(kind)
        flat = numbers(self._source.read(place.start + info.offset * size, info.span * size), kind)
        if math.prod(info.shape) == 0:
            return flat.reshape(info.shape)
        strides = [step * flat.itemsize for step in info.strides]  # within `flat`: span is computed from them
        return np.asarray(as_strided(flat, info.shape, strides), order="C")


def _read_zip(archive: Archive) -> tuple[Any, Callable[[Storage], Place]]:
    source, entries = archive.source, archive.entries
    pickles = [name for name in entries if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise source.refused("is a zip archive, but not one of PyTorch (no data.pkl)", "name a file of weights")
    folder = pickles[0].removesuffix("data.pkl")
    order = entries.get(f"{folder}byteorder")
    if order is not None and archive.read(order, 100) != b"little":
        raise source.refused("was written on a big-endian machine", "save it again on an ordinary one")
    content = read_pickle(io.BytesIO(archive.read(entries[pickles[0]], MOST_PICKLE)), source.path)

    def place(storage: Storage) -> Place:
        entry = entries.get(f"{folder}data/{storage.key}")
        if entry is None or entry.packed or entry.size < storage.count * size_of(storage.kind):
            raise source.refused(f"the storage {excerpt(storage.key)} is missing, packed or too short")
        return Place(entry.start, entry)

    return content, place


def _read_legacy(source: Source) -> tuple[Any, Callable[[Storage], Place]]:
    stream = io.BytesIO(source.read(0, min(source.size, MOST_PICKLE)).tobytes())
    if not stream.getbuffer()[:1] == b"\x80" or read_pickle(stream, source.path) != MAGIC:
        raise source.refused("is not a file that PyTorch wrote", "name a .pt, .pth or .bin file of weights")
    if read_pickle(stream, source.path) != PROTOCOL:
        raise source.refused("was written by an unknown version of PyTorch", "save it again with a newer one")
    _machine, content, keys = (read_pickle(stream, source.path) for _ in range(3))
    if type(keys) is not list or not all(type(key) is str for key in keys) or len(set(keys)) != len(keys):
        raise source.refused("has no list of its storages")
    kinds = {info.storage.key: info.storage.kind for info in flatten(content, source.path)[0].values()}
    if set(keys) != kinds.keys():
        raise source.refused("has other storages than its tensors need")
    starts: dict[str, tuple[int, int]] = {}
    position = stream.tell()
    for key in keys:
        count = int.from_bytes(source.read(position, 8).tobytes(), "little")
        starts[key] = (position + 8, count)
        position += 8 + count * size_of(kinds[key])
    if position != source.size:
        raise source.refused(f"has {source.size:,} bytes, its storages need {position:,}")

    def place(storage: Storage) -> Place:
        start, count = starts[storage.key]
        if storage.count > count or storage.kind != kinds[storage.key]:
            raise source.refused(f"the storage {excerpt(storage.key)} is shorter than its tensors")
        return Place(start)

    return content, place
