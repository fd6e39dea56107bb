"""Taking up a run where its latest checkpoint left it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from minitransformer.app.training.checkpoints import Checkpoint, load_into
from minitransformer.app.training.checkpoints.load import differences
from minitransformer.app.training.options import HARMLESS, Options
from minitransformer.optim import Schedule

_PROBES = (1, 10, 100, 1_000, 10_000, 100_000)


def describe(options: Options, optimizer: Any, schedule: Schedule, settings: dict[str, Any]) -> dict[str, Any]:
    """What decides about the numbers of a run, as JSON values; noted in its checkpoints and compared on resuming.
    A schedule is a function: its values at some steps stand for it."""
    hyper = {name: value for name, value in vars(optimizer).items() if isinstance(value, int | float | tuple)}
    return {
        "options": options.config(),
        "optimizer": hyper,
        "schedule": {f"factor at step {step}": schedule(step) for step in _PROBES},
        "settings": settings,
    }


def resume_from(checkpoint: Checkpoint, loop: Any) -> list[str]:
    """Loads model and optimizer, and returns what the user should know: anything that differs from the former run
    and so ends the bit-for-bit agreement with it."""
    load_into(checkpoint, loop.model, loop.optimizer)
    notes = [f"resuming {checkpoint.path} at step {checkpoint.step}"]
    changed = differences(checkpoint.environment, loop.environment)
    for part, now in json.loads(json.dumps(loop.training)).items():  # as the file has it: a tuple is a list there
        saved = checkpoint.training.get(part)
        saved = saved if isinstance(saved, dict) else {}
        ignored = HARMLESS if part == "options" else ()
        changed += [f"{part}: {text}" for text in differences(saved, now, ignored)]
    if changed:
        notes.append(f"note: {'; '.join(changed[:5])}: the run goes on, but no longer bit for bit as it began")
    return notes


def resume_command(program: str, arguments: Sequence[str]) -> str:
    """The command line that goes on with this one: itself, with --resume."""
    arguments = list(arguments)
    return shlex.join([program, *arguments, *([] if "--resume" in arguments else ["--resume"])])
