"""Named arrays in a safetensors file: 8 bytes with the header's length, a JSON header, the raw numbers.

Writing is done here, array by array and hashed on the way, so that saving needs no second copy of the model and a full
disk is an ordinary OSError. Reading is left to the safetensors library, which checks the header against the file; what
it cannot know (which arrays belong here, and that no bit has changed) is checked before."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from minitransformer.app.training.checkpoints.files import DAMAGED, regular_size
from minitransformer.errors import CheckpointError, Path, system_error

if TYPE_CHECKING:  # loaded by the first checkpoint that is read, and not before
    from safetensors import safe_open

KINDS = {"F32": "float32", "F64": "float64", "I32": "int32", "I64": "int64", "U64": "uint64", "BOOL": "bool"}
_CODES = {name: code for code, name in KINDS.items()}


@dataclass(frozen=True)
class ArrayInfo:
    """What a file says about one array."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"


def write_arrays(file: BinaryIO, arrays: Mapping[str, np.ndarray]) -> tuple[int, str]:
    """Writes all arrays; returns the number of bytes and their SHA-256. The same arrays give the same bytes."""
    header, end = {}, 0
    # numbers of 8 bytes first: then every array starts at a multiple of its own size, for readers that map the file
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    for name in names:
        array = arrays[name]
        code = _CODES.get(array.dtype.name)
        if code is None:
            raise TypeError(f"{name} is {array.dtype}; a checkpoint holds {', '.join(_CODES)}")
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    digest, total = hashlib.sha256(), 0
    parts: Iterator[bytes | memoryview]
    parts = itertools.chain((len(text).to_bytes(8, "little"), text), (_bytes(arrays[name]) for name in names))
    for part in parts:
        file.write(part)
        digest.update(part)
        total += len(part)
    return total, digest.hexdigest()


def _bytes(array: np.ndarray) -> memoryview:
    """The array's own memory, seen as bytes; copied only if it is not contiguous or not little-endian."""
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).data


def verify_digest(path: Path, size: int, sha256: str) -> None:
    """Refuses a file that is not, bit for bit, the one that was written. Reads it in pieces."""
    actual = regular_size(path)
    if actual != size:
        word = "truncated" if actual < size else "too long"
        raise CheckpointError(path, f"{word}: {actual:,} bytes instead of {size:,}", DAMAGED)
    try:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise system_error(path, "cannot be read", error) from error
    if digest != sha256:
        raise CheckpointError(path, "its content is not what was saved (SHA-256 differs)", DAMAGED)


def inspect_arrays(path: Path) -> dict[str, ArrayInfo]:
    """Names, types and shapes, checked against the file's length; no array is allocated."""
    infos = {}
    size = regular_size(path)
    with _opened(path) as file:
        names = file.keys()
        for name in names:
            part = file.get_slice(name)
            code, shape = str(part.get_dtype()), tuple(part.get_shape())
            if code not in KINDS:
                raise CheckpointError(path, f"array {name!r} has the type {code}", DAMAGED)
            # the library compares sizes with offsets; an empty array can still claim 0 rows of 10^18 numbers
            if len(shape) > 8 or any(n > size for n in shape):
                raise CheckpointError(path, f"array {name!r} claims the shape {shape}", DAMAGED)
            if math.prod(shape) * np.dtype(KINDS[code]).itemsize > size:
                raise CheckpointError(path, f"array {name!r} is larger than the file", DAMAGED)
            infos[name] = ArrayInfo(KINDS[code], shape)
    return infos


def load_arrays(path: Path, names: Collection[str]) -> dict[str, np.ndarray]:
    """Copies of the named arrays."""
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in names}


@contextmanager
def _opened(path: Path) -> Iterator[safe_open]:
    """The library's reader, with its complaints turned into ours. It never unpickles and checks sizes first."""
    from safetensors import safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(path, f"is not a valid safetensors file ({error})", DAMAGED) from error
