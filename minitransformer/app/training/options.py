"""How long to train, how often to look, when to stop."""

from __future__ import annotations

import math
from dataclasses import dataclass

from minitransformer.errors import TrainingError

# what may differ when a run goes on, and it still goes on bit for bit
WITHOUT_EFFECT_ON_WEIGHTS = (
    "max_steps", "max_epochs", "max_minutes", "save_every", "log_every", "evaluate_every", "patience", "perplexity",
    "keep", "monitor", "higher_is_better", "recompute",
)  # fmt: skip


@dataclass(frozen=True)
class Options:
    """Settings of a run. At least one of the three limits must be given; the first one reached ends the run."""

    max_steps: int | None = None
    max_epochs: int | None = None
    max_minutes: float | None = None  # of training in all, over every resumption
    clip: float | None = 1.0  # greatest norm of the gradient; None leaves it as it is
    evaluate_every: int | None = None  # steps; None: at the end of each epoch
    save_every: int | None = None  # steps; None: at the end of each epoch. A new best is always saved
    log_every: int = 20  # steps per line of training metrics
    patience: int | None = None  # stop after so many evaluations without a new best
    monitor: str = "loss"  # which value of the evaluation decides about the best
    higher_is_better: bool = False
    perplexity: bool = True  # show exp(loss): for language models, not for classifiers
    keep: int = 2  # newest checkpoints kept, besides the best
    slices: int | None = None  # of a batch, added in a fixed order: the same bits on any number of ranks; None: whole
    recompute: bool = False  # layers keep their inputs only, and are computed again in backward
    seed: int = 0  # of everything random inside a step that brings no seed of its own

    def __post_init__(self) -> None:
        limits = {"max_steps": self.max_steps, "max_epochs": self.max_epochs, "max_minutes": self.max_minutes}
        if all(value is None for value in limits.values()):
            raise TrainingError("training would never end: give max_steps, max_epochs or max_minutes")
        for name in ("evaluate_every", "save_every", "log_every", "patience", "keep"):
            _at_least(name, getattr(self, name), 1)
        for name, value in limits.items():
            _at_least(name, value, 0)
        if self.clip is not None and not self.clip > 0:
            raise TrainingError(f"clip={self.clip}: give a norm above 0, or None to leave gradients as they are")
        _at_least("seed", self.seed, 0)
        if self.slices is not None and (self.slices < 1 or self.slices & (self.slices - 1)):
            raise TrainingError(f"slices={self.slices}: give a power of two, such as 8")


def _at_least(name: str, value: float | None, least: int) -> None:
    if value is not None and not (value >= least and math.isfinite(value)):
        raise TrainingError(f"{name}={value}: give a number from {least} on")
