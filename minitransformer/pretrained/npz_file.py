"""npz: a zip with an .npy file for each array.

    ┌───────────┬─────────┬────────────┬─────────────────────────────────────────────────────────────┬─────────────┐
    │ \\x93NUMPY │ version │ 2 bytes: n │ n bytes of text                                             │ the numbers │
    │           │   1 0   │            │ {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } │             │
    └───────────┴─────────┴────────────┴─────────────────────────────────────────────────────────────┴─────────────┘

The text is a Python expression. It is matched, not evaluated, and arrays of Python objects, which would have to be
unpickled, do not match."""

from __future__ import annotations

import math
import re
import sys
from typing import NamedTuple

import numpy as np

from minitransformer.errors import Path, excerpt
from minitransformer.pretrained.archive import Archive
from minitransformer.pretrained.weight_file import KINDS, WeightFile

FIRST = b"\x93NUMPY\x01\x00"
TEXT = re.compile(
    rb"\{'descr': '([<|](?:f[248]|[iu][1248]|b1|[US][1-9]\d{0,7}))', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,18}, )*(?:\d{1,18},?)?)\), \} *\n"
)
# A packed archive may claim a thousand times its own length. Weights hardly shrink, so this is generous.
MOST_GROWTH, ALWAYS_ALLOWED = 20, 64_000_000
_NAMES = {np.dtype(kind).str: name for name, kind in KINDS.items() if name not in ("BF16", "BOOL")} | {"|b1": "BOOL"}


class Described(NamedTuple):
    kind: np.dtype
    shape: tuple[int, ...]
    by_columns: bool
    start: int  # of the numbers, within the entry


class NpzFile(WeightFile):
    def __init__(self, path: Path):
        super().__init__(path)
        self._archive = archive = Archive(path)
        whole = sum(entry.size for entry in archive.entries.values())
        if whole > max(ALWAYS_ALLOWED, MOST_GROWTH * archive.source.size):
            raise archive.source.refused(f"would grow from {archive.source.size:,} to {whole:,} bytes")
        self._described: dict[str, Described] = {}
        with archive.opened() as opened:
            for entry in archive.entries.values():
                with opened.open(entry.name) as file:
                    first = file.read(len(FIRST) + 2)
                    text = file.read(int.from_bytes(first[len(FIRST) :], "little"))
                name = entry.name.removesuffix(".npy")
                described = self._parsed(name, text, len(first) + len(text))
                size = described.start + math.prod(described.shape) * described.kind.itemsize
                if not entry.name.endswith(".npy") or not first.startswith(FIRST) or size != entry.size:
                    raise archive.source.refused(f"array {excerpt(name)} is not as long as its shape says")
                self._described[name], self.shapes[name] = described, described.shape
                self.kinds[name] = _NAMES.get(described.kind.str, "TEXT")

    def _parsed(self, name: str, text: bytes, start: int) -> Described:
        found = TEXT.fullmatch(text)
        if found is None:
            raise self._archive.source.refused(
                f"array {excerpt(name)} is not described as numbers or text", "arrays of Python objects are not read"
            )
        kind, order, axes = (part.decode("ascii") for part in found.groups())
        shape = [int(n) for n in axes.replace(",", " ").split()]
        if len(shape) > 8 or any(n > ALWAYS_ALLOWED + MOST_GROWTH * self._archive.source.size for n in shape):
            raise self._archive.source.refused(f"array {excerpt(name)} has an impossible shape")
        return Described(np.dtype(kind), tuple(shape), order == "True", start)

    def load(self, name: str) -> np.ndarray:
        kind, shape, by_columns, start = self._described[name]
        content = bytearray(self._archive.read(self._archive.entries[f"{name}.npy"]))
        array = np.frombuffer(content, np.uint8)[start:].view(kind).reshape(shape, order="F" if by_columns else "C")
        if kind.kind == "U" and array.size and array.reshape(-1).view("<u4").max() > sys.maxunicode:
            raise self._archive.source.refused(f"array {excerpt(name)} holds characters that do not exist")
        return array.astype(np.float32) if kind == np.float16 else array
