"""What makes a program of the models: data, training, tasks, the command line, and measurements.

From a run to Python in one line, and from Python to a folder that every command takes:

    model, text = load("runs/pretrain")         # a trained model, and its tokenizer
    ids = text.encode("the plot")
    save(model, text, "runs/mine")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from minitransformer.errors import CheckpointError

if TYPE_CHECKING:  # what is not asked for is not imported: a command must start quickly
    from minitransformer.models.base import Model


class Run(NamedTuple):
    model: Any
    text: Any  # its tokenizer; of a translator a pair, for what it reads and what it writes


def load(path: str) -> Run:
    """The best model of a run, from its folder or from one of its step-*.json files."""
    from minitransformer.app.tasks.trained import open_model

    trained = open_model(path, None)
    codecs = tuple(trained.codecs.values())
    return Run(trained.model.eval(), codecs[0] if len(codecs) == 1 else codecs)


def save(model: Model, text: Any, path: str) -> str:
    """Writes a model and its tokenizer (of a translator the pair) as a run of no steps; returns the path of its file.

    Every command takes the folder: `generate --model`, `finetune --from`, `evaluate` ..."""
    from minitransformer.app.tasks.trained import SIDES
    from minitransformer.app.training.checkpoints import Snapshot
    from minitransformer.app.training.checkpoints.folder import RunFolder
    from minitransformer.optim import SGD

    sides = SIDES.get(model.kind, ("text",))
    codecs = dict(zip(sides, text if isinstance(text, tuple) else (text,), strict=True))
    packed = {side: codec.pack() for side, codec in codecs.items()}
    folder = RunFolder(path)
    folder.open()
    try:
        if folder.steps():
            raise CheckpointError(path, "holds a run already", "name a folder that does not exist yet")
        snapshot = Snapshot(step=0, epoch=0, batch=0, tokenizer=packed)
        return folder.save(snapshot, model, SGD(model.named_parameters(), lr=0.0))
    finally:
        folder.close()
