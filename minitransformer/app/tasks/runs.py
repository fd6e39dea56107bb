"""The training run that the three tasks share: optimizer, schedule, limits, and the loop around them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from minitransformer.app.tasks.recipes import Recipe
from minitransformer.app.tasks.wording import Wording
from minitransformer.app.training import Options, Result, train
from minitransformer.app.training.checkpoints import Checkpoint, CheckpointError, RunFolder
from minitransformer.errors import UserError
from minitransformer.optim import Adam, Schedule, constant, warmup_cosine


@dataclass(frozen=True)
class Task:
    """What to learn: a model, its data, and how both are scored."""

    model: Any
    batches: Any  # .count(epoch), .epoch(epoch, start)
    loss_of: Callable[[Any, Any], Any]
    evaluate: Callable[[Any], dict[str, float]]
    wordings: dict[str, Wording]
    settings: dict[str, Any]  # noted in the checkpoint: what the data were, and the classes' names
    options: dict[str, Any] = field(default_factory=dict)  # more of training.Options
    held: Sequence[Any] = ()  # ids of the texts it is not trained on
    rates: dict[str, float] = field(default_factory=dict)  # factors on the learning rate, see optim.Adam
    notes: Sequence[str] = ()  # what the user should know beforehand


NAMES = {
    "LanguageModel": "a language model", "Classifier": "a classifier", "Translator": "a translator", "Bert": "a BERT"
}  # fmt: skip


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
    check_kind(former, kind, "name the run of such a one with --out, or leave --resume away")
    return former


def check_kind(checkpoint: Checkpoint, kind: str, advice: str) -> None:
    """Of a model that must be `kind`."""
    found = checkpoint.model["kind"]
    if found != kind:
        raise CheckpointError(checkpoint.path, f"holds {NAMES.get(found, found)}, not {NAMES[kind]}", advice)


def wordings_of(checkpoint: Checkpoint) -> dict[str, Wording]:
    """The tokenizers inside a checkpoint, by the side they serve: "text", or "source" and "target"."""
    packed = checkpoint.tokenizer
    if not isinstance(packed, dict) or not packed:
        raise CheckpointError(checkpoint.path, "holds no tokenizer", "name a checkpoint made by a command of ours")
    return {str(side): Wording.unpack(one, checkpoint.path) for side, one in packed.items()}


def run(task: Task, recipe: Recipe, *, folder: str, resume: bool, seed: int, command: str) -> Result:
    """Trains as the recipe says; the loop shows progress, saves, and says at the end how to go on."""
    total = recipe.total(task.batches.count(0))
    if total < 1:
        raise UserError("nothing to train: give at least one step or epoch")
    for note in task.notes:
        print(note, flush=True)
    every = max(1, min(500, total // 5))
    options = Options(
        max_steps=recipe.steps,
        max_epochs=recipe.epochs,
        max_minutes=recipe.minutes,
        clip=recipe.clip,
        seed=seed,
        **{"evaluate_every": every, "save_every": every} | task.options,
    )
    return train(
        task.model,
        Adam(task.model.named_parameters(), lr=recipe.lr, rates=task.rates),
        task.batches,
        task.loss_of,
        options,
        schedule=_schedule(recipe, total),
        evaluate=task.evaluate,
        folder=folder,
        resume=resume,
        settings=task.settings,
        tokenizer={side: wording.pack() for side, wording in task.wordings.items()},
        resume_command=command,
    )


def _schedule(recipe: Recipe, total: int) -> Schedule:
    """How the learning rate goes over `total` steps."""
    recipe.check_warmup(total)
    warmup = recipe.warmup if recipe.warmup_as_asked else min(recipe.warmup, total // 10)
    if not recipe.cosine:
        return (lambda step: min(1.0, step / warmup)) if warmup else constant()
    return warmup_cosine(warmup, total) if total > 1 else constant()


def built(make: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """A model or batches made of what the user asked for; a size that cannot be is the user's to mend."""
    try:
        return make(*arguments, **options)
    except CheckpointError:
        raise
    except ValueError as error:
        raise UserError(str(error)) from error
