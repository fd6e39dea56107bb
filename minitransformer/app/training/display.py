"""Derived numbers for the user: perplexity, how many steps in all, how long still."""

from __future__ import annotations

import math

from minitransformer.app.progress import Pace
from minitransformer.app.training.options import Options
from minitransformer.app.training.state import State


def with_perplexity(values: dict[str, float]) -> dict[str, float]:
    """exp(loss) beside the loss; infinite where float64 ends, at exp(709)."""
    if "loss" not in values:
        return values
    perplexity = math.exp(values["loss"]) if values["loss"] < 700 else math.inf
    return {"loss": values["loss"], "perplexity": perplexity, **values}


def total_steps(options: Options, state: State, batches: int) -> int | None:
    """The step at which the run will end, if all epochs are as long as this one of `batches` batches."""
    totals = []
    if options.max_steps is not None:
        totals.append(options.max_steps)
    if options.max_epochs is not None:
        totals.append(state.step - state.batch + max(0, options.max_epochs - state.epoch) * batches)
    return min(totals, default=None)


def seconds_left(options: Options, state: State, total: int | None, pace: Pace, spent: float) -> float | None:
    """Until the first limit is reached."""
    left = []
    if total is not None:
        left.append((total - state.step) * pace.seconds_per_step())
    if options.max_minutes is not None:
        left.append(max(0.0, 60 * options.max_minutes - spent))
    return min(left, default=None)
