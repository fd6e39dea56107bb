"""Files of tokenizers: JSON written atomically, and read so that every surprise is a DataError."""

from __future__ import annotations

import json
from typing import Any

from minitransformer.app.data.readers.lines import MAX_FILE_BYTES, Path, decode_line, read_bytes
from minitransformer.durable import write_whole
from minitransformer.errors import DataError


def write_json(path: Path, value: dict[str, Any]) -> None:
    """One entry a line, so that the file can be read and compared line by line."""
    write_whole(path, (json.dumps(value, ensure_ascii=False, indent=0) + "\n").encode("utf-8"))


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


def read_json_object(path: Path, max_bytes: int = MAX_FILE_BYTES) -> dict[str, Any]:
    """A whole file that must hold one JSON object."""
    raw = read_bytes(path, max_bytes)
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
