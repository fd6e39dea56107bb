"""Finding and opening a checkpoint for use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from minitransformer.app.tasks.runs import NAMES, check_kind, wordings_of
from minitransformer.app.tasks.wording import Wording
from minitransformer.app.training.checkpoints import Checkpoint, CheckpointError, RunFolder, load_model
from minitransformer.errors import UserError

# kind of model → the command that makes one, and the folder it goes to unless told otherwise
COMMANDS = {"LanguageModel": "pretrain", "Classifier": "finetune", "Translator": "train-translator"}
FOLDERS = {"LanguageModel": "runs/pretrain", "Classifier": "runs/finetune", "Translator": "runs/translator"}


@dataclass(frozen=True)
class Trained:
    """A model ready for use, and everything its checkpoint knows about it."""

    model: Any
    checkpoint: Checkpoint
    wordings: dict[str, Wording]

    @property
    def path(self) -> str:
        return self.checkpoint.path

    @property
    def kind(self) -> str:
        return self.checkpoint.model["kind"]

    @property
    def builtin(self) -> bool:
        """Whether it was trained on the built-in language, whose truth is known."""
        return setting(self.checkpoint, "data") == "built-in"


def setting(checkpoint: Checkpoint, name: str) -> Any:
    """What the command that trained the model noted; None if it did not."""
    settings = checkpoint.training.get("settings")
    return settings.get(name) if isinstance(settings, dict) else None


def exists(kind: str) -> bool:
    """Whether the default folder of this kind of model holds a run."""
    folder = FOLDERS[kind]
    return os.path.isdir(folder) and bool(RunFolder(folder).steps())


def open_model(path: str | None, kind: str | None, extra: str = "", which: str = "best") -> Trained:
    """The best or the latest checkpoint of a run or file, or of the default folder; kind None takes any model."""
    if path is None:
        assert kind is not None
        path = FOLDERS[kind]
        if not exists(kind):
            raise UserError(
                f"there is no {NAMES[kind].partition(' ')[2]} in {path} yet: make one with "
                f"`minitransformer {COMMANDS[kind]}`{extra}"
            )
    elif not os.path.exists(path):
        raise UserError(f"{path}: no such run or checkpoint; name the folder of a run, or a step-*.json file in one")
    model, checkpoint = load_model(path, which)
    found = checkpoint.model["kind"]
    if kind is not None:
        check_kind(checkpoint, kind, f"make one with `minitransformer {COMMANDS[kind]}`, or name another run")
    wordings = wordings_of(checkpoint)
    if wordings.keys() != ({"source", "target"} if found == "Translator" else {"text"}):
        raise CheckpointError(checkpoint.path, "holds the tokenizers of another task", "name another run")
    _check_vocabulary(checkpoint, wordings)
    return Trained(model, checkpoint, wordings)


def _check_vocabulary(checkpoint: Checkpoint, wordings: dict[str, Wording]) -> None:
    names = {"text": "vocab_size", "source": "source_vocab", "target": "target_vocab"}
    for side, wording in wordings.items():
        size = checkpoint.model["config"].get(names[side])
        if wording.tokenizer.vocab_size != size:
            found = f"its tokenizer has {wording.tokenizer.vocab_size} words and its model {size}"
            raise CheckpointError(checkpoint.path, found, "restore it from a copy")
