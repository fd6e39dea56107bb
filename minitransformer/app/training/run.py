"""A run: where it stands, how it starts or resumes, what it leaves in its folder, and how it ended."""

from __future__ import annotations

import json
import math
import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from minitransformer.app.progress import Progress
from minitransformer.app.ranks import Alone
from minitransformer.app.training import environment
from minitransformer.app.training.checkpoints import (
    Best,
    Checkpoint,
    CheckpointError,
    JsonObject,
    RunFolder,
    Snapshot,
    differences,
    load_into,
)
from minitransformer.app.training.metrics import Meter, MetricsFile, draw_curve, read_metrics
from minitransformer.app.training.options import WITHOUT_EFFECT_ON_WEIGHTS, Options
from minitransformer.errors import NotFiniteError, TrainingError
from minitransformer.models import Model
from minitransformer.optim import Optimizer, Schedule

CURVE = "curve.png"
# a schedule is a function: its values at these steps stand for it when two runs are compared
_COMPARED_STEPS = (1, 10, 100, 1_000, 10_000, 100_000)
_REASONS = {
    "steps": "reached the last step",
    "epochs": "finished the last epoch",
    "minutes": "time is up",
    "patience": "the evaluation has stopped improving",
}
BatchT = TypeVar("BatchT", covariant=True)


class BatchSource(Protocol[BatchT]):
    """A pure function of the epoch: asked again for the same epoch and start, it gives the same batches.
    The classes of `minitransformer.app.data` are such sources."""

    def count(self, epoch: int = 0) -> int: ...
    def epoch(self, epoch: int = 0, start: int = 0) -> Iterator[BatchT]: ...


def count_batches(source: BatchSource[object], epoch: int) -> int:
    count = source.count(epoch)
    if count < 1:
        raise TrainingError(f"there are no batches in epoch {epoch + 1}: give more data")
    return count


@dataclass
class State:
    """What the loop itself must remember to go on bit for bit, besides the model and the optimizer."""

    step: int = 0  # updates done
    epoch: int = 0
    batch: int = 0  # batches of this epoch done
    seconds: float = 0.0  # spent training before this process
    cpu_seconds: float = 0.0  # of all threads; unlike seconds, no matter what else the machine was doing
    tokens: int = 0  # seen in all
    evaluated: int = -1  # the step of the last evaluation
    stale: int = 0  # evaluations since the best one
    lines: int = 0  # of metrics.jsonl
    meter: Meter = field(default_factory=Meter)
    best: Best | None = None
    metrics: JsonObject = field(default_factory=dict)  # the last line of each kind

    def is_best(self) -> bool:
        """The model of this very step was evaluated, and no other one was better."""
        return self.best is not None and self.best["step"] == self.step

    def to_json(self) -> JsonObject:
        """What a checkpoint has no entry of its own for."""
        names = ("seconds", "cpu_seconds", "tokens", "evaluated", "stale", "lines")
        return {name: getattr(self, name) for name in names} | {"meter": asdict(self.meter)}

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> State:
        """Every value is looked at before it is believed."""
        saved = checkpoint.state
        try:
            means = saved["meter"]
            sums = {str(name): _number(value) for name, value in means["sums"].items()}
            return cls(
                step=checkpoint.step,
                epoch=checkpoint.epoch,
                batch=checkpoint.batch,
                seconds=_number(saved["seconds"]),
                cpu_seconds=_number(saved.get("cpu_seconds", 0.0)),
                tokens=_count(saved["tokens"]),
                evaluated=_count(saved["evaluated"], -1),
                stale=_count(saved["stale"]),
                lines=_count(saved["lines"]),
                meter=Meter(_count(means["steps"]), _count(means["tokens"]), sums),
                best=checkpoint.best,
                metrics=dict(checkpoint.metrics),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            found = f"the state of its training loop cannot be used ({type(error).__name__}: {error})"
            advice = "delete the checkpoint to go on from an earlier one"
            raise CheckpointError(checkpoint.path, found, advice) from error


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    reason: str  # steps, epochs, minutes, patience or interrupted
    step: int
    epoch: int
    metrics: JsonObject  # the last line of each kind: {"train": {...}, "evaluation": {...}}
    best: Best | None
    checkpoint: str | None  # the last one's JSON file
    signal: int | None = None  # which signal interrupted it; a command then exits with 128 + signal

    @property
    def interrupted(self) -> bool:
        return self.reason == "interrupted"


class Run:
    """A model and an optimizer under way, and the folder that keeps them; without a folder nothing is written."""

    def __init__(
        self, model: Model, optimizer: Optimizer, options: Options, schedule: Schedule, settings: JsonObject,
        tokenizer: JsonObject | None, folder: str | None, progress: Progress, ranks: Alone,
    ):  # fmt: skip
        self.model, self.optimizer, self.tokenizer, self.progress = model, optimizer, tokenizer, progress
        self.writes = ranks.rank == 0  # the others only read
        self.whole_state: Callable[[], AbstractContextManager[None]] = nullcontext  # of the optimizer, to be saved
        self.files = None if folder is None else (RunFolder(folder, options.keep), MetricsFile(folder))
        # what decides about the numbers of a run, as JSON values; noted in its checkpoints and compared on resuming
        self.environment = environment.description()
        self.training = {
            "options": asdict(options),
            "optimizer": {name: v for name, v in vars(optimizer).items() if isinstance(v, int | float | tuple)},
            "schedule": {f"factor at step {step}": schedule(step) for step in _COMPARED_STEPS},
            "settings": settings,
        }
        self.state = State()
        self.checkpoint: str | None = None  # the path of the last one
        self.unsaved = True
        self.told_of_metrics = False  # that its lines cannot be written at the moment

    @contextmanager
    def opened(self) -> Iterator[None]:
        """The folder belongs to this process alone."""
        try:
            if self.files is not None and self.writes:
                self.files[0].open()
            yield
        finally:
            if self.files is not None and self.writes:
                self.files[0].close()
            self.progress.close()

    def start(self, batches: BatchSource[object], resume: bool) -> None:
        if self.files is not None:
            folder, metrics = self.files
            if resume:
                self._resume(folder.latest(), batches)
            elif folder.steps():
                found = f"already holds a run of {folder.steps()[-1]} steps"
                raise CheckpointError(folder.path, found, "add --resume to go on with it, or name another folder")
            if self.writes:
                metrics.restart(self.state.lines, self.state.step)
        elif resume:
            raise TrainingError("there is nothing to resume without the folder of a run: name it")
        self.began, self.cpu_began = time.monotonic(), time.process_time()
        self.model.train()

    def _resume(self, checkpoint: Checkpoint, batches: BatchSource[object]) -> None:
        state = State.from_checkpoint(checkpoint)
        count = count_batches(batches, state.epoch)
        if state.batch >= count:
            found = f"stands at batch {state.batch} of epoch {state.epoch + 1}, which has {count} here"
            raise CheckpointError(checkpoint.path, found, "resume with the data and batch size it was trained with")
        load_into(checkpoint, self.model, self.optimizer)
        self.progress.note(f"resuming {checkpoint.path} at step {checkpoint.step}")
        changes = self._changes_since(checkpoint)
        if changes:
            said = "; ".join(changes[:5])
            self.progress.note(f"note: {said}: the run goes on, but no longer bit for bit as it began")
        self.state, self.checkpoint, self.unsaved = state, checkpoint.path, False

    def _changes_since(self, checkpoint: Checkpoint) -> list[str]:
        """What differs from the former run and so ends the bit-for-bit agreement with it."""
        changes = environment.changes(checkpoint.environment, self.environment)
        for part, given in json.loads(json.dumps(self.training)).items():  # as the file has it: a tuple is a list there
            saved = checkpoint.training.get(part)
            ignored = WITHOUT_EFFECT_ON_WEIGHTS if part == "options" else ()
            found = differences(saved if isinstance(saved, dict) else {}, given, ignored)
            changes += [f"{part}: {difference}" for difference in found]
        return changes

    def seconds(self) -> float:
        return self.state.seconds + time.monotonic() - self.began

    def cpu_seconds(self) -> float:
        return self.state.cpu_seconds + time.process_time() - self.cpu_began

    def write_line(self, kind: str, values: dict[str, float]) -> None:
        """kind: train or evaluation"""
        state = self.state
        where = {"kind": kind, "step": state.step, "epoch": state.epoch, "batch": state.batch, "tokens": state.tokens}
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        spent = {"seconds": round(self.seconds(), 3), "cpu_seconds": round(self.cpu_seconds(), 3)}
        state.metrics[kind] = where | finite | spent
        self.unsaved = True
        if self.files is not None and self.writes:
            trouble = self.files[1].append(state.metrics[kind])
            if trouble is not None and not self.told_of_metrics:
                self.progress.note(f"note: {trouble}; training goes on, and the lines wait for the next checkpoint")
            self.told_of_metrics = trouble is not None

    def save(self) -> None:
        if self.files is not None:
            folder, metrics = self.files
            for name, weight in self.model.named_parameters():
                # finite gradients can still push a weight over the edge; such a checkpoint would be worth nothing
                finite = np.isfinite(weight.backend.to_numpy(weight.array)).all()
                self.demand_finite(f"a value of {name}", 0.0 if finite else math.nan)
            with self.whole_state():
                if self.writes:
                    self._write(folder, metrics)
        self.unsaved = False

    def _write(self, folder: RunFolder, metrics: MetricsFile) -> None:
        metrics.sync()
        self.state.lines, state = metrics.lines, self.state
        snapshot = Snapshot(
            step=state.step, epoch=state.epoch, batch=state.batch, training=self.training,
            state=state.to_json() | {"seconds": self.seconds(), "cpu_seconds": self.cpu_seconds()},
            metrics=state.metrics, best=state.best, tokenizer=self.tokenizer, environment=self.environment,
        )  # fmt: skip
        self.checkpoint = folder.save(snapshot, self.model, self.optimizer)

    def demand_finite(self, what: str, value: float) -> None:
        if not math.isfinite(value):
            state = self.state
            last = f"the last good checkpoint is {self.checkpoint}" if self.checkpoint else "no checkpoint was written"
            raise NotFiniteError(
                f"training stopped: {what} is {value} at step {state.step + 1} (epoch {state.epoch + 1}, batch "
                f"{state.batch + 1}); {last}; resume it with a lower learning rate or stronger clipping"
            )

    def finish(self, reason: str, signal: int | None, resume_command: str) -> Result:
        if self.unsaved:
            self.save()
        if self.files is not None and self.writes:
            folder, metrics = self.files
            title = os.path.basename(os.path.abspath(folder.path))
            try:
                draw_curve(read_metrics(metrics.path), os.path.join(folder.path, CURVE), title)
            except (
                CheckpointError,
                OSError,
                ImportError,
            ) as error:  # without it a run is still a good one
                self.progress.note(f"no learning curve: {error}")
        self.progress.close()
        state = self.state
        result = Result(reason, state.step, state.epoch, state.metrics, state.best, self.checkpoint, signal)
        self.progress.note(_farewell(result, resume_command))
        return result


def _farewell(result: Result, resume_command: str) -> str:
    saved = f"; saved {result.checkpoint}" if result.checkpoint else ""
    if result.interrupted:
        how = f"; resume with: {resume_command}" if result.checkpoint else " (nothing saved: no folder was given)"
        return f"stopped at step {result.step}{saved}{how}"
    best = ""
    if result.best:
        best = f"; best {result.best['metric']} {result.best['value']:.4g} at step {result.best['step']}"
    return f"done after {result.step} steps: {_REASONS[result.reason]}{best}{saved}"


def resume_command(program: str, arguments: Sequence[str]) -> str:
    """The command line that goes on with this one: itself, with --resume."""
    arguments = list(arguments)
    return shlex.join([program, *arguments, *([] if "--resume" in arguments else ["--resume"])])


def _count(value: object, least: int = 0) -> int:
    if type(value) is not int or value < least:
        raise ValueError(f"{value!r} is no count")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return float(value)
