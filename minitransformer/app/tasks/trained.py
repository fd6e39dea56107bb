"""Finding and opening a checkpoint: to use its model, to start from it, or to resume its run."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from minitransformer.app.tasks.text_codec import TextCodec
from minitransformer.app.training.checkpoints import Checkpoint, CheckpointError, RunFolder, load_model
from minitransformer.errors import UserError, excerpt
from minitransformer.models import Model

NAMES = {
    "LanguageModel": "a language model", "Classifier": "a classifier", "Translator": "a translator", "Bert": "a BERT"
}  # fmt: skip
# kind of model → the command that makes one, and the folder it goes to unless told otherwise
COMMANDS = {"LanguageModel": "pretrain", "Classifier": "finetune", "Translator": "train-translator"}
SIDES = {"Translator": ("source", "target")}  # of its tokenizers; other models have one, for "text"
FOLDERS = {"LanguageModel": "runs/pretrain", "Classifier": "runs/finetune", "Translator": "runs/translator"}


@dataclass(frozen=True)
class Trained:
    """A model ready for use, and everything its checkpoint knows about it."""

    model: Any
    checkpoint: Checkpoint
    codecs: dict[str, TextCodec]

    @property
    def path(self) -> str:
        return self.checkpoint.path

    @property
    def kind(self) -> str:
        return self.model.kind

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
    if kind is not None:
        check_kind(checkpoint, kind, f"make one with `minitransformer {COMMANDS[kind]}`, or name another run")
    codecs = codecs_of(checkpoint)
    return Trained(model, checkpoint, codecs)


def shortened(base: Trained, max_len: int | None) -> Trained:
    """The same with room for fewer words, so that long texts are cut, and cost less. None: as it is"""
    config, places = base.model.config, "base.embedding.positions.weight"
    if max_len is None or max_len == config.max_len:
        return base
    if max_len > config.max_len:
        raise UserError(f"--max-len {max_len}: the language model has room for {config.max_len}; give at most that")
    model = type(base.model)(replace(config, max_len=max_len))
    weights = base.model.state_dict()
    model.load_state_dict({name: array[:max_len] if name == places else array for name, array in weights.items()})
    return replace(base, model=model)


def former_run(folder: str, resume: bool, kind: str) -> Checkpoint | None:
    """The latest checkpoint of a run to resume; None for a new run, which needs a folder without one.
    kind: of the model that is trained"""
    if not folder:
        raise UserError("--out: name a folder")
    run = RunFolder(folder)
    steps = run.steps() if os.path.isdir(folder) or not os.path.exists(folder) else []
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UserError(f"--out {folder}: this is a file; name a folder")
    if not resume and steps:
        raise CheckpointError(
            folder,
            f"already holds a run of {steps[-1]:,} steps",
            f"add --resume to go on with it, --out DIR to train elsewhere, or remove it (rm -r {folder})",
        )
    if not resume:
        return None
    former = run.latest()
    check_kind(former, kind, "name the run of such a one with --out, or omit --resume")
    return former


def check_kind(checkpoint: Checkpoint, kind: str, advice: str) -> None:
    """Of a model that must be `kind`, or made of it."""
    found = checkpoint.model["kind"]
    if found in Model.kinds:
        found = Model.kinds[found].kind
    if found != kind:
        raise CheckpointError(checkpoint.path, f"holds {NAMES.get(found, found)}, not {NAMES[kind]}", advice)


def codecs_of(checkpoint: Checkpoint) -> dict[str, TextCodec]:
    """The tokenizers inside a checkpoint, by the side they serve: "text", or "source" and "target"."""
    packed = checkpoint.tokenizer
    if not isinstance(packed, dict) or not packed:
        raise CheckpointError(checkpoint.path, "holds no tokenizer", "name a checkpoint made by a command of ours")
    kind = checkpoint.model["kind"]
    needed = SIDES.get(Model.kinds[kind].kind if kind in Model.kinds else kind, ("text",))
    if packed.keys() != set(needed):
        found = f"holds the tokenizers {', '.join(map(excerpt, packed))}, not {' and '.join(needed)}"
        raise CheckpointError(checkpoint.path, found, "restore it from a copy, or name another run")
    codecs = {side: TextCodec.unpack(packed[side], checkpoint.path) for side in needed}
    _check_vocabulary(checkpoint, codecs)
    return codecs


def _check_vocabulary(checkpoint: Checkpoint, codecs: dict[str, TextCodec]) -> None:
    names = {"text": "vocab_size", "source": "source_vocab", "target": "target_vocab"}
    for side, codec in codecs.items():
        size = checkpoint.model["config"].get(names[side])
        if codec.tokenizer.vocab_size != size:
            found = f"its tokenizer has {codec.tokenizer.vocab_size} words and its model {size}"
            raise CheckpointError(checkpoint.path, found, "restore it from a copy")
