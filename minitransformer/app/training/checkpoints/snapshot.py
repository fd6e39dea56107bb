"""What a checkpoint holds: taken from a model and an optimizer, written, and read back verified."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np

from minitransformer.app.training.checkpoints.arrays import (
    ArrayInfo,
    inspect_arrays,
    load_arrays,
    verify_digest,
    write_arrays,
)
from minitransformer.app.training.checkpoints.document import FORMER, MAX_BYTES, JsonObject, decode, encode
from minitransformer.app.training.checkpoints.files import read_small, replacing
from minitransformer.errors import CheckpointError, Path
from minitransformer.models import Model
from minitransformer.optim import Optimizer

MODEL, OPTIMIZER = "model.", "optimizer."
_NAME = re.compile(r"step-([0-9]{8,18})\.json")


class Best(TypedDict):
    """The best evaluation so far."""

    step: int
    metric: str
    value: float


@dataclass(frozen=True)
class Snapshot:
    """What is to be saved, besides the model and the optimizer themselves. All values are plain JSON."""

    step: int  # optimizer steps done
    epoch: int  # position in the data: the next batch is number `batch` of this epoch
    batch: int
    training: JsonObject = field(default_factory=dict)  # settings
    state: JsonObject = field(default_factory=dict)  # the training loop's own counters
    metrics: JsonObject = field(default_factory=dict)
    best: Best | None = None
    tokenizer: JsonObject | None = None
    environment: JsonObject = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint(Snapshot):
    """A checkpoint on the disk. Its files have been verified; its arrays are read when asked for."""

    path: str = ""
    model: JsonObject = field(default_factory=dict)  # {"kind", "config", "rng"}
    optimizer: JsonObject = field(default_factory=dict)  # {"kind", "values"}
    arrays_path: str = ""
    arrays: dict[str, ArrayInfo] = field(default_factory=dict)
    names_in_file: dict[str, str] = field(default_factory=dict)  # of each array: other ones in format 1

    def infos(self, prefix: str) -> dict[str, ArrayInfo]:
        """Types and shapes of the arrays under `model.` or `optimizer.`, without that prefix."""
        return {name.removeprefix(prefix): info for name, info in self.arrays.items() if name.startswith(prefix)}

    def load(self, prefix: str) -> dict[str, np.ndarray]:
        """The arrays under `model.` or `optimizer.`, without that prefix."""
        wanted = {name: stored for name, stored in self.names_in_file.items() if name.startswith(prefix)}
        arrays = load_arrays(self.arrays_path, wanted.values())
        return {name.removeprefix(prefix): arrays[stored] for name, stored in wanted.items()}


def file_name(step: int) -> str:
    return f"step-{step:08}.json"


def step_of(name: str) -> int | None:
    """The step in a file name of ours, None for other files."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match and file_name(int(match[1])) == name else None


def write(folder: Path, snapshot: Snapshot, model: Model, optimizer: Optimizer) -> str:
    """Saves both files and returns the path of the JSON. Raises CheckpointError and leaves no litter if it cannot."""
    state = optimizer.state_dict()
    arrays = {MODEL + name: array for name, array in model.state_dict().items()}
    arrays |= {OPTIMIZER + name: value for name, value in state.items() if isinstance(value, np.ndarray)}
    values = {name: value for name, value in state.items() if not isinstance(value, np.ndarray)}
    path = os.path.join(folder, file_name(snapshot.step))
    arrays_path = path.removesuffix("json") + "safetensors"
    with replacing(arrays_path) as file:
        size, sha256 = write_arrays(file, arrays)
    entries = {name: getattr(snapshot, name) for name in Snapshot.__dataclass_fields__}
    entries["model"] = {"kind": type(model).__name__, "config": model.settings(), "rng": model.rng_state()}
    entries["optimizer"] = {"kind": type(optimizer).__name__, "values": values}
    entries["arrays"] = {"file": os.path.basename(arrays_path), "bytes": size, "sha256": sha256}
    try:
        with replacing(path) as file:  # the moment from which the checkpoint exists
            file.write(encode(entries))
    except CheckpointError:
        if not os.path.exists(path):  # arrays alone are of no use, and the disk may be full
            with suppress(OSError):
                os.unlink(arrays_path)
        raise
    return path


def read(path: Path) -> Checkpoint:
    """The checkpoint of a step-*.json file; every byte of it is verified, no array is kept in memory."""
    path = os.fspath(path)
    entries = decode(path, read_small(path, MAX_BYTES))
    arrays = entries.pop("arrays")
    named = step_of(os.path.basename(path))
    if named is not None and named != entries["step"]:
        found = f"holds step {entries['step']}, not the step {named} of its name"
        raise CheckpointError(path, found, f"it was renamed or copied: call it {file_name(entries['step'])} again")
    if os.path.basename(arrays["file"]) != arrays["file"] or not arrays["file"].endswith(".safetensors"):
        raise CheckpointError(path, f"names {arrays['file']!r} as its arrays", "only a file beside it is taken")
    arrays_path = os.path.join(os.path.dirname(path), arrays["file"])
    verify_digest(arrays_path, arrays["bytes"], arrays["sha256"])
    infos = inspect_arrays(arrays_path)
    names = {_current_name(stored): stored for stored in infos}
    unknown = next((name for name in names if not name.startswith((MODEL, OPTIMIZER))), None)
    if unknown is not None:
        raise CheckpointError(arrays_path, f"holds the unknown array {unknown!r}", "this is not a checkpoint of ours")
    current = {name: infos[stored] for name, stored in names.items()}
    return Checkpoint(**entries, path=path, arrays_path=arrays_path, arrays=current, names_in_file=names)


def _current_name(stored: str) -> str:
    """What an array of format 1 is called today."""
    kind, dot, rest = stored.partition(".")
    return FORMER.get(kind, kind) + dot + rest
