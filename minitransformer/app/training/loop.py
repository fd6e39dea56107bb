"""The loop: batch, loss, backward, clip, update; and around it evaluation, checkpoints, and an orderly end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np

import autograd.functional as F
import kernels
from autograd import no_grad
from minitransformer.app.progress import Pace, Progress, Status, progress_on
from minitransformer.app.training.batch_source import BatchSource, Position, count_tokens
from minitransformer.app.training.checkpoints import CheckpointError, RunFolder, Snapshot
from minitransformer.app.training.display import seconds_left, total_steps, with_perplexity
from minitransformer.app.training.interrupts import Interrupts
from minitransformer.app.training.metrics import MetricsFile
from minitransformer.app.training.options import Options
from minitransformer.app.training.resume import describe, resume_from
from minitransformer.app.training.state import Meter, State
from minitransformer.app.training.summary import Result, draw, farewell
from minitransformer.errors import NotFiniteError, TrainingError
from minitransformer.optim import Schedule, clip_grad_norm, constant

Loss = Callable[[Any, Any], Any]
Evaluation = Callable[[Any], float | Mapping[str, float]]


def train(
    model: Any,
    optimizer: Any,
    batches: BatchSource,
    loss_of: Loss,
    options: Options,
    *,
    schedule: Schedule | None = None,
    evaluate: Evaluation | None = None,
    folder: str | None = None,
    resume: bool = False,
    settings: dict[str, Any] | None = None,
    tokenizer: Any = None,
    tokens_of: Callable[[Any], int] = count_tokens,
    progress: Progress | None = None,
    resume_command: str = "the same command with --resume",
) -> Result:
    """Trains until a limit of `options` is reached, and returns how it ended.

    loss_of         (model, batch) → scalar Tensor, or (Tensor, {"accuracy": ...}) with more values to show
    schedule        step (from 1) → factor for the optimizer's learning rate; see minitransformer.optim
    evaluate        model → loss, or {"loss": ..., "accuracy": ...}; called in eval mode, without a tape
    folder          for checkpoints, metrics.jsonl and curve.png; without one nothing is written
    resume          go on with the latest checkpoint in the folder, bit for bit
    settings        whatever a command wants to find again in the checkpoint (JSON values), e.g. its data
    resume_command  what to type to go on; shown after Ctrl-C

    Raises TrainingError or CheckpointError with a message for the user."""
    loop = _Loop(model, optimizer, batches, loss_of, options, schedule, evaluate, settings, tokenizer, tokens_of)
    with ExitStack() as stack:
        loop.progress = progress_on() if progress is None else progress
        stack.callback(loop.progress.close)
        if folder is not None:
            loop.folder, loop.metrics = RunFolder(folder, options.keep), MetricsFile(folder)
            loop.folder.open()
            stack.callback(loop.folder.close)
        elif resume:
            raise TrainingError("there is nothing to resume without the folder of a run: name it")
        loop.interrupts = stack.enter_context(Interrupts())
        loop.start(resume)
        reason = loop.run()
        return loop.finish(reason, resume_command)


class _Loop:
    progress: Progress
    interrupts: Interrupts

    def __init__(
        self, model: Any, optimizer: Any, batches: BatchSource, loss_of: Loss, options: Options,
        schedule: Schedule | None, evaluate: Evaluation | None, settings: dict[str, Any] | None, tokenizer: Any,
        tokens_of: Callable[[Any], int],
    ):  # fmt: skip
        self.model, self.optimizer, self.batches, self.loss_of = model, optimizer, batches, loss_of
        self.options, self.evaluate, self.tokens_of = options, evaluate, tokens_of
        self.schedule, self.lr, self.tokenizer = schedule or constant(), optimizer.lr, tokenizer
        self.training = describe(options, optimizer, self.schedule, settings or {})
        self.environment = {"backend": kernels.current().name, "numpy": np.__version__}
        self.parameters = list(model.parameters())
        self.folder: RunFolder | None = None
        self.metrics: MetricsFile | None = None
        self.state = State()
        self.checkpoint: str | None = None
        self.unsaved = True
        self.new_best = False
        self.pace = Pace()

    # ------------------------------------------------------------------------------------------ from start to end

    def start(self, resume: bool) -> None:
        if self.folder is not None and self.metrics is not None:
            if resume:
                checkpoint = self.folder.latest()
                state = State.of(checkpoint)
                Position(self.batches, state).check(checkpoint)
                for note in resume_from(checkpoint, self):
                    self.progress.note(note)
                self.state, self.checkpoint, self.unsaved = state, checkpoint.path, False
            elif self.folder.steps():
                found = f"already holds a run of {self.folder.steps()[-1]} steps"
                raise CheckpointError(self.folder.path, found, "add --resume to go on with it, or name another folder")
            self.metrics.restart(self.state.lines, self.state.step)
        self.position = Position(self.batches, self.state)
        self.began = time.monotonic()
        self.cpu_began = time.process_time()
        self.model.train()

    def run(self) -> str:
        """Evaluation and saving come before the next step: whatever is due and was not done, because a signal came
        in between, is done first when the run resumes."""
        while True:
            if not self.interrupts.signal and self._evaluation_due():
                self._evaluate()
            if self.unsaved and (self.new_best or self.state.step == 0 or self._due(self.options.save_every)):
                self._save()  # also before the first step: an unusable folder shows at once, not after an hour
            reason = "interrupted" if self.interrupts.signal else self._limit()
            if reason:
                return reason
            self._step()

    def finish(self, reason: str, resume_command: str) -> Result:
        if reason != "interrupted":
            if self.state.meter.steps:
                self._write_line("train", self._train_line())
            if self.evaluate and self.state.evaluated != self.state.step:
                self._evaluate()
            if self.interrupts.signal:  # during the last evaluation
                reason = "interrupted"
        if self.unsaved:
            self._save()
        if self.metrics is not None and self.folder is not None:
            draw(self.metrics.path, self.folder.path, self.progress)
        self.progress.close()
        state, signal = self.state, self.interrupts.signal
        result = Result(reason, state.step, state.epoch, state.metrics, state.best, self.checkpoint, signal)
        self.progress.note(farewell(result, resume_command))
        return result

    def _evaluation_due(self) -> bool:
        return (
            bool(self.evaluate) and self.state.evaluated != self.state.step and self._due(self.options.evaluate_every)
        )

    def _due(self, every: int | None) -> bool:
        state = self.state
        return state.step > 0 and (state.batch == 0 if every is None else state.step % every == 0)

    def _limit(self) -> str | None:
        options, state = self.options, self.state
        if options.patience is not None and state.stale >= options.patience:
            return "patience"
        if options.max_steps is not None and state.step >= options.max_steps:
            return "steps"
        if options.max_epochs is not None and state.epoch >= options.max_epochs:
            return "epochs"
        if options.max_minutes is not None and self._seconds() >= 60 * options.max_minutes:
            return "minutes"
        return None

    def _seconds(self) -> float:
        return self.state.seconds + time.monotonic() - self.began

    def _cpu_seconds(self) -> float:
        return self.state.cpu_seconds + time.process_time() - self.cpu_began

    # ------------------------------------------------------------------------------------------ one step

    def _step(self) -> None:
        state = self.state
        batch = self.position.take()
        # a dropout without a seed of its own becomes a function of the step: nothing of it has to be saved
        F.manual_seed([self.options.seed, state.step])
        self.optimizer.lr = self.lr * self.schedule(state.step + 1)
        self.optimizer.zero_grad()
        outcome = self.loss_of(self.model, batch)
        loss, more = outcome if isinstance(outcome, tuple) else (outcome, {})
        values = {"loss": float(loss), **{name: float(value) for name, value in more.items()}}
        self._demand_finite("the loss", values["loss"])
        loss.backward()
        norm = float(clip_grad_norm(self.parameters, math.inf if self.options.clip is None else self.options.clip))
        self._demand_finite("the norm of the gradient", norm)
        self.optimizer.step()

        tokens = self.tokens_of(batch)
        epoch, total = state.epoch, total_steps(self.options, state, self.position.count())
        state.step += 1
        state.tokens += tokens
        self.position.advance()
        self.unsaved, self.new_best = True, False
        state.meter.add(tokens, values | {"grad_norm": norm})
        self.pace.add(tokens, values)
        if state.step % self.options.log_every == 0:
            self._write_line("train", self._train_line())
        shown = self._with_perplexity(self.pace.means())
        left = seconds_left(self.options, state, total, self.pace, self._seconds())
        self.progress.update(Status(state.step, total, epoch, shown, self.pace.tokens_per_second(), left))

    def _demand_finite(self, what: str, value: float) -> None:
        if not math.isfinite(value):
            state = self.state
            last = f"the last good checkpoint is {self.checkpoint}" if self.checkpoint else "no checkpoint was written"
            raise NotFiniteError(
                f"training stopped: {what} is {value} at step {state.step + 1} (epoch {state.epoch + 1}, batch "
                f"{state.batch + 1}); {last}; resume it with a lower learning rate or stronger clipping"
            )

    # ------------------------------------------------------------------------------------------ now and then

    def _evaluate(self) -> None:
        """Never touches training: the random state is put back. Ctrl-C abandons it; it is then due on resuming."""
        assert self.evaluate is not None
        rng = self.model.rng_state()
        self.model.eval()
        try:
            with no_grad(), self.interrupts.at_once():
                outcome = self.evaluate(self.model)
        except KeyboardInterrupt:
            if not self.interrupts.signal:
                raise
            return
        finally:
            self.model.train()
            self.model.set_rng_state(rng)
        values = {k: float(v) for k, v in outcome.items()} if isinstance(outcome, Mapping) else {"loss": float(outcome)}
        self._judge(values)
        self._write_line("evaluation", self._with_perplexity(values))
        shown = ", ".join(f"{name} {value:.4g}" for name, value in self._with_perplexity(values).items())
        best = " (best so far)" if self.new_best else ""
        self.progress.note(f"step {self.state.step}, evaluation: {shown}{best}")

    def _judge(self, values: dict[str, float]) -> None:
        """Is this the best evaluation so far?"""
        options, state = self.options, self.state
        if options.monitor not in values:
            raise TrainingError(f"the evaluation gives {', '.join(values)}, not the monitored {options.monitor!r}")
        value = values[options.monitor]
        self._demand_finite(f"the {options.monitor} of the evaluation", value)
        sign = -1 if options.higher_is_better else 1
        self.new_best = state.best is None or sign * value < sign * state.best["value"]
        if self.new_best:
            state.best = {"step": state.step, "metric": options.monitor, "value": value}
        state.stale = 0 if self.new_best else state.stale + 1
        state.evaluated, self.unsaved = state.step, True

    def _save(self) -> None:
        if self.folder is None or self.metrics is None:
            self.unsaved = False
            return
        for name, weight in self.model.named_parameters():
            # finite gradients can still push a weight over the edge; such a checkpoint would be worth nothing
            self._demand_finite(
                f"a value of {name}", 0.0 if np.isfinite(weight.backend.to_numpy(weight.array)).all() else math.nan
            )
        self.metrics.sync()
        self.state.lines, state = self.metrics.lines, self.state
        snapshot = Snapshot(
            step=state.step, epoch=state.epoch, batch=state.batch, training=self.training,
            state=state.to_json() | {"seconds": self._seconds(), "cpu_seconds": self._cpu_seconds()},
            metrics=state.metrics, best=state.best, tokenizer=self.tokenizer, environment=self.environment,
        )  # fmt: skip
        self.checkpoint = self.folder.save(snapshot, self.model, self.optimizer)
        self.unsaved, self.new_best = False, False

    # ------------------------------------------------------------------------------------------ numbers to show

    def _train_line(self) -> dict[str, float]:
        values = self._with_perplexity(self.state.meter.means())
        self.state.meter = Meter()
        return values | {"lr": self.optimizer.lr, "tokens_per_second": round(self.pace.tokens_per_second(), 1)}

    def _write_line(self, kind: str, values: dict[str, float]) -> None:
        state = self.state
        where = {"kind": kind, "step": state.step, "epoch": state.epoch, "batch": state.batch, "tokens": state.tokens}
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        spent = {"seconds": round(self._seconds(), 3), "cpu_seconds": round(self._cpu_seconds(), 3)}
        state.metrics[kind] = where | finite | spent
        self.unsaved = True
        if self.metrics is not None:
            self.metrics.append(state.metrics[kind])

    def _with_perplexity(self, values: dict[str, float]) -> dict[str, float]:
        return with_perplexity(values) if self.options.perplexity else values
