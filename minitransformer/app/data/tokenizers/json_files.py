"""Files of tokenizers, in a folder or in memory, read so that every surprise is a DataError."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from minitransformer.app.data.readers.lines import Path, decode_line, read_bytes, require_some
from minitransformer.errors import DataError


def json_bytes(value: dict[str, Any]) -> bytes:
    """One entry a line, so that the file can be read and compared line by line."""
    return (json.dumps(value, ensure_ascii=False, indent=0) + "\n").encode("utf-8")


class FilesInFolder:
    """The files of a tokenizer, by name, as `save` wrote them."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, name: str) -> str:
        """For errors."""
        return os.path.join(self.folder, name)

    def read(self, name: str) -> bytes:
        return read_bytes(self.path(name))


class FilesInMemory(FilesInFolder):
    """The same, as a checkpoint holds them. `where`: the checkpoint's path, for errors."""

    def __init__(self, files: Mapping[str, bytes], where: Path):
        super().__init__(where)
        self.files = files

    def read(self, name: str) -> bytes:
        if name not in self.files:
            raise DataError(self.path(name), 0, "no such file", "a complete tokenizer", "restore it from a copy")
        require_some(self.path(name), len(self.files[name]), "byte")
        return self.files[name]


def parse_json(path: Path, number: int, text: str) -> Any:
    """`json.loads` that refuses NaN and Infinity and fails only with DataError.

    Deep nesting ends in RecursionError and an integer of thousands of digits in ValueError: both are caught.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        found = f"malformed JSON ({error.msg} at column {error.colno})"
        number += error.lineno - 1
    except RecursionError:
        found = "JSON nested too deeply"
    except ValueError as error:
        found = f"a number that JSON or Python does not take ({error})"
    raise DataError(path, number, found, "one valid JSON value", "check the quotes and commas there") from None


def json_object(path: Path, raw: bytes) -> dict[str, Any]:
    """The content of a file that must hold one JSON object."""
    number = raw[: raw.find(b"\0") + 1].count(b"\n") + 1
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        number = raw[: error.start].count(b"\n") + 1
    value = parse_json(path, 1, decode_line(path, number, raw))
    if not isinstance(value, dict):
        raise DataError(path, 1, f"a JSON {type(value).__name__}", "a JSON object", "check which file this is")
    return value


def entry(path: Path, values: dict[str, Any], key: str, kind: type) -> Any:
    """`values[key]`, which must be of exactly this type: a JSON `true` is no integer."""
    if key not in values:
        raise DataError(path, 1, f"no entry {key!r}", "a complete file", "save it again")
    if type(values[key]) is not kind:
        found = f"{key!r} of type {type(values[key]).__name__}"
        raise DataError(path, 1, found, kind.__name__, "save it again or repair the entry")
    return values[key]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
