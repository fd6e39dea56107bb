"""What every format of weights has in common: names, shapes known at once, numbers read when they are asked for."""

from __future__ import annotations

import math
import os
import stat
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader

import numpy as np

from minitransformer.errors import Path, WeightsError, excerpt, system_error

DAMAGED = "it is damaged or not what its name says: fetch or copy it again"

# safetensors' names for what a number is, and NumPy's; bfloat16 is unknown to NumPy and read as 16 bits without a sign
KINDS = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|u1",
}  # fmt: skip
MOST_AXES = 8


class WeightFile(Mapping[str, np.ndarray]):
    """An opened file of named arrays. `file[name]` reads one, as an array of the caller's own.

    `kinds` says how the numbers are stored: a key of KINDS, a quantised kind of blocks.py, or TEXT."""

    def __init__(self, path: Path):
        self.path = os.fspath(path)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.kinds: dict[str, str] = {}

    @abstractmethod
    def load(self, name: str) -> np.ndarray: ...

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.shapes:
            raise KeyError(name)
        return self.load(name)

    def __contains__(self, name: object) -> bool:  # the one of Mapping would read the array
        return name in self.shapes

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)


class Source:
    """The bytes of an ordinary file, which must stay the same as long as they are read."""

    def __init__(self, path: Path):
        self.path = os.fspath(path)
        try:
            status = os.stat(self.path)
        except OSError as error:
            raise system_error(self.path, "cannot be read", error, WeightsError) from None
        except ValueError as error:  # a zero byte in the path
            raise WeightsError(self.path, f"cannot be read: {error}", "check the path") from None
        if not stat.S_ISREG(status.st_mode):  # reading a pipe might never end
            raise WeightsError(self.path, "is not an ordinary file", "name one that is")
        self.size, self._identity = status.st_size, _identity(status)

    @contextmanager
    def open(self) -> Iterator[BufferedReader]:
        try:
            with open(self.path, "rb") as file:
                if _identity(os.fstat(file.fileno())) != self._identity:
                    raise self.refused("changed while it was read", "read it again when nobody writes to it")
                yield file
        except OSError as error:
            raise system_error(self.path, "cannot be read", error, WeightsError) from None

    def read(self, start: int, count: int) -> np.ndarray:
        """The bytes start ... start + count - 1."""
        if not 0 <= start <= start + count <= self.size:
            raise self.refused(f"ends after {self.size:,} bytes, in the middle of its content")
        content = np.empty(count, np.uint8)
        with self.open() as file:
            file.seek(start)
            if file.readinto(content.data) != count:
                raise self.refused("ends in the middle of its content")
        return content

    def refused(self, found: str, advice: str = DAMAGED) -> WeightsError:
        return WeightsError(self.path, found, advice)

    def checked_shape(self, name: str, shape: object) -> tuple[int, ...]:
        """A shape that NumPy can hold, even where an empty array claims 0 rows of 10^18 numbers: few axes, and none of
        more numbers than the file has bits."""
        axes = tuple(shape) if isinstance(shape, (list, tuple)) else (None,)
        if len(axes) > MOST_AXES or not all(type(n) is int and 0 <= n <= 8 * self.size for n in axes):
            raise self.refused(f"array {excerpt(name)} has an impossible shape")
        return axes


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def size_of(kind: str) -> int:
    """Bytes of one number."""
    return np.dtype(KINDS[kind]).itemsize


def bytes_of(kind: str, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * size_of(kind)


def numbers(content: np.ndarray, kind: str) -> np.ndarray:
    """Bytes as numbers in the machine's own order. float16 and bfloat16 become float32, which holds them exactly."""
    array = content.view(KINDS[kind])
    if kind == "F16":
        return array.astype(np.float32)
    if kind == "BF16":  # the upper half of a float32
        return (array.astype(np.uint32) << 16).view(np.float32)
    if kind == "BOOL":
        return array != 0
    return array.astype(array.dtype.newbyteorder("="), copy=False)
