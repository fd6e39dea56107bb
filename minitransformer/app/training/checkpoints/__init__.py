"""Checkpoints: everything a run needs to go on bit for bit, as safetensors plus JSON, never pickle.

A run has one folder. A checkpoint is two files in it, told apart by the number of steps done:

    step-00001200.safetensors   the arrays: model.* and optimizer.*
    step-00001200.json          all the rest, and the length and SHA-256 of the arrays

Each is written under a temporary name, flushed to the disk and renamed; the JSON comes last. Where it stands, the
checkpoint is complete, whatever moment the process was killed at.

    folder = RunFolder("runs/reviews")
    checkpoint = folder.latest()                  # or folder.best(); everything is verified here
    load_into(checkpoint, model, optimizer)       # all of it or none of it
    model, checkpoint = load_model("runs/reviews")
"""

from minitransformer.app.training.checkpoints.document import JsonObject
from minitransformer.app.training.checkpoints.folder import RunFolder
from minitransformer.app.training.checkpoints.load import differences, find, load_into, load_model
from minitransformer.app.training.checkpoints.snapshot import Best, Checkpoint, Snapshot, read
from minitransformer.errors import CheckpointError

__all__ = [
    "Best", "Checkpoint", "CheckpointError", "JsonObject", "RunFolder", "Snapshot", "differences", "find", "load_into",
    "load_model", "read",
]  # fmt: skip
