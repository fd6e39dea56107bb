"""The JSON half of a checkpoint: what must be in it, written with a checksum and read with suspicion."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from minitransformer.app.training.checkpoints.files import DAMAGED
from minitransformer.errors import CheckpointError, Path

FORMAT = "minitransformer checkpoint"
VERSION = 2
MAX_BYTES = 64 * 2**20  # a real one has some kilobytes
JsonObject = dict[str, Any]  # whose values JSON can hold: text, numbers, true, false, null, lists, further objects

# every entry with the type it must have; None stands for any JSON value
_Type = type | tuple[type, ...] | None
_FIELDS: dict[str, _Type] = {
    "step": int, "epoch": int, "batch": int, "arrays": dict, "model": dict, "optimizer": dict, "tokenizer": None,
    "training": dict, "state": dict, "metrics": dict, "best": (dict, type(None)), "environment": dict,
}  # fmt: skip
# what format 1 called otherwise, at the top level, among the settings and before the names of arrays
FORMER = {"optimiser": "optimizer"}
# settings of models that format 1 had besides, at the value that means nothing
GONE = {"whole": False, "quiet_start": False}
_ARRAYS: dict[str, _Type] = {"file": str, "bytes": int, "sha256": str}
_MODEL: dict[str, _Type] = {"kind": str, "config": dict, "rng": None}
_OPTIMIZER: dict[str, _Type] = {"kind": str, "values": dict}
_BEST: dict[str, _Type] = {"step": int, "metric": str, "value": (int, float)}


def encode(entries: JsonObject) -> bytes:
    """The file's content. Floats keep every bit: JSON prints the shortest decimal that reads back the same."""
    try:
        document = {"format": FORMAT, "version": VERSION, **entries, "check": checksum(entries)}
        return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode("ascii")
    except (TypeError, ValueError) as error:
        raise TypeError(f"a checkpoint's settings and state must be plain JSON values: {error}") from error


def checksum(entries: JsonObject) -> str:
    """A digit that changed on the disk would otherwise be believed."""
    return hashlib.sha256(json.dumps(entries, sort_keys=True, allow_nan=False).encode("ascii")).hexdigest()


def decode(path: Path, raw: bytes) -> JsonObject:
    """The entries, all present and of the right type, or a CheckpointError."""
    document = _parse(path, raw)
    if not isinstance(document, dict):
        raise CheckpointError(path, f"holds a JSON {type(document).__name__}, not an object", DAMAGED)
    if document.pop("format", None) != FORMAT:
        advice = "name a step-*.json file, or the folder of a run"
        raise CheckpointError(path, "is JSON, but not a checkpoint of minitransformer", advice)
    version = document.pop("version", None)
    if type(version) is not int or version < 1:
        raise CheckpointError(path, "has no valid version number", DAMAGED)
    if version > VERSION:
        found = f"was written by a newer minitransformer (format {version}; this one reads up to {VERSION})"
        raise CheckpointError(path, found, "upgrade minitransformer")
    check = document.pop("check", None)
    try:
        right = check == checksum(document)
    except (ValueError, RecursionError):  # too deep to write again, though it could be read
        right = False
    if not right:
        raise CheckpointError(path, "its content is not what was saved (checksum differs)", DAMAGED)
    if version == 1:
        document = _renamed(document)
        document["training"] = _renamed(document.get("training"))
        if isinstance(model := document.get("model"), dict) and isinstance(model.get("config"), dict):
            config = model["config"]
            used = [name for name in GONE if config.get(name, GONE[name]) is not GONE[name]]
            if used:
                found = f"was trained with {used[0]!r}, an experiment of version 0.1"
                raise CheckpointError(path, found, "train it again, or use it with that version")
            model["config"] = {name: value for name, value in config.items() if name not in GONE}
    _check_types(path, "", document, _FIELDS)
    _check_types(path, "arrays.", document["arrays"], _ARRAYS)
    _check_types(path, "model.", document["model"], _MODEL)
    _check_types(path, "optimizer.", document["optimizer"], _OPTIMIZER)
    if document["best"] is not None:
        _check_types(path, "best.", document["best"], _BEST)
    counts = [document[name] for name in ("step", "epoch", "batch")] + [document["arrays"]["bytes"]]
    if min(counts) < 0:
        raise CheckpointError(path, "has a negative step, epoch, batch or length", DAMAGED)
    return document


def _renamed(entries: Any) -> Any:
    """Entries of format 1 under their names of today."""
    return {FORMER.get(name, name): value for name, value in entries.items()} if isinstance(entries, dict) else entries


def _parse(path: Path, raw: bytes) -> Any:
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant, parse_float=_finite)
    except UnicodeDecodeError:
        found = "is not UTF-8 text"
    except json.JSONDecodeError as error:
        found = f"is not valid JSON (line {error.lineno}: {error.msg})"
    except RecursionError:
        found = "is JSON nested too deeply"
    except ValueError as error:  # NaN, Infinity, an integer of thousands of digits
        found = f"holds a number that does not belong there ({error})"
    raise CheckpointError(path, found, DAMAGED)


def _check_types(path: Path, prefix: str, values: JsonObject, expected: Mapping[str, _Type]) -> None:
    if values.keys() != expected.keys():
        wrong = sorted(values.keys() ^ expected.keys())[0]
        word = "lacks" if wrong in expected else "has the unknown entry"
        raise CheckpointError(path, f"{word} {prefix + wrong!r}", DAMAGED)
    for name, kind in expected.items():
        value = values[name]
        # bool is an int to Python, but `"step": true` is no count
        if kind is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise CheckpointError(path, f"has {type(value).__name__} as {prefix + name!r}", DAMAGED)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):  # 1e999
        raise ValueError(f"{text[:20]} is too large")
    return value
