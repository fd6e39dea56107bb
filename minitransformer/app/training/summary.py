"""The end of a run: its result, its learning curve, and a sentence."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from minitransformer.app.progress import Progress
from minitransformer.app.training.checkpoints import CheckpointError
from minitransformer.app.training.metrics import read_metrics

CURVE = "curve.png"
_REASONS = {
    "steps": "reached the last step",
    "epochs": "finished the last epoch",
    "minutes": "time is up",
    "patience": "the evaluation has stopped improving",
}


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    reason: str  # steps, epochs, minutes, patience or interrupted
    step: int
    epoch: int
    metrics: dict[str, Any]  # the last line of each kind: {"train": {...}, "evaluation": {...}}
    best: dict[str, Any] | None  # {"step", "metric", "value"}
    checkpoint: str | None  # the last one's JSON file
    signal: int | None = None  # which signal interrupted it; a command then exits with 128 + signal

    @property
    def interrupted(self) -> bool:
        return self.reason == "interrupted"


def draw(metrics_path: str, folder: str, progress: Progress) -> None:
    """The picture is a comfort: if it cannot be written, the run is still a good one."""
    from minitransformer.app.training.curves import draw_curve

    try:
        draw_curve(read_metrics(metrics_path), os.path.join(folder, CURVE), os.path.basename(os.path.abspath(folder)))
    except CheckpointError as error:
        progress.note(f"no learning curve: {error}")


def farewell(result: Result, resume_command: str) -> str:
    saved = f"; saved {result.checkpoint}" if result.checkpoint else ""
    if result.interrupted:
        how = f"; resume with: {resume_command}" if result.checkpoint else " (nothing saved: no folder was given)"
        return f"stopped at step {result.step}{saved}{how}"
    best = (
        f"; best {result.best['metric']} {result.best['value']:.4g} at step {result.best['step']}"
        if result.best
        else ""
    )
    return f"done after {result.step} steps: {_REASONS[result.reason]}{best}{saved}"
