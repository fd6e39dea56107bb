"""What pretraining, finetuning and translating have in common: a task, and the training run that carries it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from minitransformer.app.ranks import Alone
from minitransformer.app.tasks.recipes import Recipe
from minitransformer.app.tasks.text_codec import TextCodec
from minitransformer.app.training import Options, Result, train
from minitransformer.errors import UserError
from minitransformer.optim import Adam, Optimizer, Schedule, constant, warmup_cosine


@dataclass(frozen=True)
class Task:
    """What to learn: a model, its data, and how both are scored. Whoever wants another loss, other batches or another
    optimizer makes another task of it with dataclasses.replace, before it is run."""

    recipe: Recipe
    model: Any
    batches: Any  # .count(epoch), .epoch(epoch, start)
    loss_of: Callable[[Any, Any], Any]
    evaluate: Callable[[Any], dict[str, float]]
    codecs: dict[str, TextCodec]
    settings: dict[str, Any]  # noted in the checkpoint: what the data were, and the classes' names
    optimizer: Callable[..., Optimizer] = Adam  # of the named parameters and lr
    training: dict[str, Any] = field(default_factory=dict)  # more of training.Options
    held_back: Sequence[Any] = ()  # ids of the texts it is not trained on
    starts_from: str | None = None  # the checkpoint whose weights it begins with
    notes: Sequence[str] = ()  # what the user should know beforehand


def run(
    task: Task,
    *,
    folder: str,
    resume: bool,
    seed: int,
    command: str,
    slices: int | None = None,
    recompute: bool = False,
    ranks: Alone | None = None,
) -> Result:
    """Trains as the recipe says; the loop shows progress, saves, and says at the end how to go on: by `command`."""
    recipe = task.recipe
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
        slices=slices,
        recompute=recompute,
        **{"evaluate_every": every, "save_every": every} | task.training,
    )
    return train(
        task.model,
        task.optimizer(task.model.named_parameters(), lr=recipe.lr),
        task.batches,
        task.loss_of,
        options,
        schedule=_schedule(recipe, total),
        evaluate=task.evaluate,
        folder=folder,
        resume=resume,
        settings=task.settings,
        tokenizer={side: codec.pack() for side, codec in task.codecs.items()},
        resume_command=command,
        ranks=ranks,
    )


def _schedule(recipe: Recipe, total: int) -> Schedule:
    """How the learning rate goes over `total` steps."""
    recipe.check_warmup(total)
    warmup = recipe.warmup if recipe.warmup_as_asked else min(recipe.warmup, total // 10)
    if not recipe.cosine:
        return (lambda step: min(1.0, step / warmup)) if warmup else constant()
    return warmup_cosine(warmup, total) if total > 1 else constant()
