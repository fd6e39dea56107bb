"""GGUF, the format of llama.cpp: one file with the weights, most of them quantised, and all that is needed to use them.

    ┌──────┬─────────┬─────────┬─────────┬────────────────┬──────────────────────┬─────────┬───────────────────────┐
    │ GGUF │ version │ arrays  │ entries │ entries        │ descriptions         │ zeros   │ numbers, each array   │
    │      │ 4 bytes │ 8 bytes │ 8 bytes │ key type value │ name shape type place│ to 32·k │ at a multiple of 32   │
    └──────┴─────────┴─────────┴─────────┴────────────────┴──────────────────────┴─────────┴───────────────────────┘

Everything is little-endian; a string is its length in 8 bytes, then UTF-8. Entries hold the sizes of the model and its
tokenizer. Shapes are written with the fastest axis first, the reverse of NumPy's order. blocks.py has the quantised
kinds."""

from __future__ import annotations

import math
import struct
from typing import Any, BinaryIO

import numpy as np

from minitransformer.errors import Path, excerpt
from minitransformer.pretrained.blocks import LAYOUTS, WEIGHTS, Quantised
from minitransformer.pretrained.weight_file import Source, WeightFile, numbers, size_of

VERSIONS = (2, 3)
NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY = 8, 9
KINDS = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 14: "Q6_K",
    24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 30: "BF16",
}  # fmt: skip
MOST_AXES, MOST_LEVELS = 4, 4
DEFAULT_ALIGNMENT = 32


class GgufFile(WeightFile):
    """`metadata` has the entries; `file[name]` is float32, whatever the kind; `raw(name)` stays quantised."""

    def __init__(self, path: Path):
        super().__init__(path)
        self._source = source = Source(path)
        self.metadata: dict[str, Any] = {}
        self._starts: dict[str, int] = {}
        with source.open() as file:
            cursor = _Cursor(file, source)
            if cursor.take(4) != b"GGUF":
                raise source.refused("is not a GGUF file", "name a .gguf file")
            version, arrays, entries = cursor.number("<I"), cursor.number("<Q"), cursor.number("<Q")
            if version not in VERSIONS:
                raise source.refused(f"is GGUF of version {version}", "versions 2 and 3 (little-endian) are read")
            for _ in range(entries):
                key = cursor.string()
                if key in self.metadata:
                    raise source.refused(f"the entry {excerpt(key)} stands there twice")
                self.metadata[key] = cursor.value(cursor.number("<I"))
            for _ in range(arrays):
                self._describe(cursor)
            end = file.tell()
        alignment = self.metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if type(alignment) is not int or not 1 <= alignment <= 1 << 20:
            raise source.refused(f"has an alignment of {excerpt(alignment)}")
        self._place(-(-end // alignment) * alignment, alignment)

    def _describe(self, cursor: _Cursor) -> None:
        name, axes = cursor.string(), cursor.number("<I")
        if name in self.shapes or axes > MOST_AXES:
            raise self._source.refused(f"array {excerpt(name)} stands there twice or has {axes} axes")
        shape = self._source.checked_shape(name, [cursor.number("<Q") for _ in range(axes)][::-1])
        number = cursor.number("<I")
        if number not in KINDS:
            raise self._source.refused(
                f"array {excerpt(name)} has the type number {number}", f"kinds read are {', '.join(KINDS.values())}"
            )
        kind = KINDS[number]
        if kind in LAYOUTS and (not shape or shape[-1] % WEIGHTS[kind]):
            raise self._source.refused(f"array {excerpt(name)} of kind {kind} has rows that are not whole blocks")
        self.shapes[name], self.kinds[name], self._starts[name] = shape, kind, cursor.number("<Q")

    def _place(self, start: int, alignment: int) -> None:
        """Offsets count from `start`: all within the file, no two arrays on the same bytes."""
        free = 0
        for name, offset in sorted(self._starts.items(), key=lambda item: item[1]):
            end = offset + self._bytes(name)
            if offset % alignment or offset < free or start + end > self._source.size:
                raise self._source.refused(f"array {excerpt(name)} lies beyond the end, on another, or not aligned")
            free, self._starts[name] = end, start + offset

    def _bytes(self, name: str) -> int:
        kind, count = self.kinds[name], math.prod(self.shapes[name])
        return count // WEIGHTS[kind] * LAYOUTS[kind].itemsize if kind in LAYOUTS else count * size_of(kind)

    def raw(self, name: str) -> Quantised:
        """A quantised array as it is: some bits for each weight."""
        kind, shape = self.kinds[name], self.shapes[name]
        if kind not in LAYOUTS:
            raise TypeError(f"{name} is {kind}, not quantised")
        content = self._source.read(self._starts[name], self._bytes(name))
        row = shape[-1] // WEIGHTS[kind] * LAYOUTS[kind].itemsize
        return Quantised(kind, shape, content.reshape(*shape[:-1], row))

    def load(self, name: str) -> np.ndarray:
        kind = self.kinds[name]
        if kind in LAYOUTS:
            return self.raw(name).numbers()
        return numbers(self._source.read(self._starts[name], self._bytes(name)), kind).reshape(self.shapes[name])


class _Cursor:
    """Walks through the file; every length is compared with what is left before anything is set aside for it."""

    def __init__(self, file: BinaryIO, source: Source):
        self.file, self.source, self.left = file, source, source.size

    def take(self, count: int) -> bytes:
        content = self.file.read(count) if count <= self.left else b""
        self.left -= count
        if len(content) != count:
            raise self.source.refused("ends in the middle of its description")
        return content

    def number(self, code: str) -> Any:
        return struct.unpack(code, self.take(struct.calcsize(code)))[0]

    def string(self) -> str:
        try:
            return self.take(self.number("<Q")).decode("utf-8")
        except UnicodeDecodeError:
            raise self.source.refused("holds a name or text that is not UTF-8") from None

    def value(self, kind: int) -> Any:
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            return self.array(self.number("<I"), self.number("<Q"))
        if kind not in NUMBERS:
            raise self.source.refused(f"holds an entry of the unknown type {kind}")
        return self.number(NUMBERS[kind])

    def array(self, kind: int, count: int, level: int = 1) -> Any:
        """Numbers as a NumPy array; strings, and arrays of arrays, as a list."""
        if kind == STRING:
            return [self.string() for _ in range(count)]
        if kind == ARRAY and level < MOST_LEVELS:
            return [self.array(self.number("<I"), self.number("<Q"), level + 1) for _ in range(count)]
        if kind not in NUMBERS:
            raise self.source.refused(f"holds an array of the type {kind}")
        code = np.dtype(NUMBERS[kind])
        return np.frombuffer(bytearray(self.take(count * code.itemsize)), code)
