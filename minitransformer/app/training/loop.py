"""The loop: batch, loss, backward, clip, step; and what is due between two steps: evaluation, a checkpoint, the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np

import autograd.functional as F
from autograd import Tensor, no_grad
from minitransformer.app.progress import Pace, Progress, Silent, Status, progress_on
from minitransformer.app.ranks import Alone, training_on
from minitransformer.app.training.checkpoints import JsonObject
from minitransformer.app.training.interrupts import Interrupts
from minitransformer.app.training.metrics import Meter, with_perplexity
from minitransformer.app.training.options import Options
from minitransformer.app.training.ranks.agreement import demand_agreement, digest
from minitransformer.app.training.ranks.slices import SLICES, SlicedSteps
from minitransformer.app.training.run import BatchSource, Result, Run, count_batches
from minitransformer.errors import TrainingError
from minitransformer.models import Model
from minitransformer.optim import Optimizer, Schedule, clip_grad_norm, constant

ModelT = TypeVar("ModelT", bound=Model)
BatchT = TypeVar("BatchT")
Means = Tensor | list[Tensor | None]  # several means over different numbers of targets are added; None: of no targets
Loss = Means | tuple[Means, Mapping[str, float]]
Scores = float | Mapping[str, float]


def _repeat_steps(
    model: ModelT, optimizer: Optimizer, loss_of: Callable[[ModelT, BatchT], Loss], lr: Callable[[int], float],
    between: _BetweenSteps[ModelT, BatchT],
) -> None:  # fmt: skip
    """The steps themselves; `between` hands out the batches.   lr: number of the step, from 1 → learning rate"""
    parameters, run, options = model.parameters(), between.run, between.options
    for batch in between.batches_until_the_end():
        # a dropout without a seed of its own becomes a function of the step: nothing of it has to be saved
        F.manual_seed([options.seed, run.state.step])
        optimizer.lr = lr(run.state.step + 1)
        optimizer.zero_grad()
        loss, values = _loss_and_values(loss_of(model, batch))
        run.demand_finite("the loss", values["loss"])
        loss.backward()
        norm = clip_grad_norm(parameters, math.inf if options.clip is None else options.clip)
        run.demand_finite("the norm of the gradient", norm)
        optimizer.step()
        between.step_done(count_tokens(batch), values, norm)


def _repeat_sliced_steps(steps: SlicedSteps, lr: Callable[[int], float], between: _BetweenSteps[Any, Any]) -> None:
    """The same over slices of each batch, which ranks share: see ranks/slices.py."""
    run = between.run
    for batch in between.batches_until_the_end():
        values, norm = steps.step(run.state.step, batch, lr(run.state.step + 1), run.demand_finite)
        between.step_done(count_tokens(batch), values, norm)


def train(
    model: ModelT,
    optimizer: Optimizer,
    batches: BatchSource[BatchT],
    loss_of: Callable[[ModelT, BatchT], Loss],
    options: Options,
    *,
    schedule: Schedule | None = None,
    evaluate: Callable[[ModelT], Scores] | None = None,
    folder: str | None = None,
    resume: bool = False,
    settings: JsonObject | None = None,
    tokenizer: JsonObject | None = None,
    progress: Progress | None = None,
    resume_command: str = "the same command with --resume",
    ranks: Alone | None = None,
) -> Result:
    """Trains until a limit of `options` is reached, and returns how it ended.

    loss_of         (model, batch) → scalar Tensor, or (Tensor, {"accuracy": ...}) with more values to show; a list of
                    Tensors where the loss is a sum of means over different numbers of targets, such as Bert's (None for
                    a mean of which a slice has no target)
    schedule        step (from 1) → factor for the optimizer's learning rate; see minitransformer.optim
    evaluate        model → loss, or {"loss": ..., "accuracy": ...}; called in eval mode, without a tape
    folder          for checkpoints, metrics.jsonl and curve.png; without one nothing is written
    resume          go on with the latest checkpoint in the folder, bit for bit
    settings        whatever a command wants to find again in the checkpoint (JSON values), e.g. its data
    tokenizer       what makes the tokenizer again (JSON values); kept in the checkpoint
    resume_command  what to type to go on; shown after Ctrl-C
    ranks           who shares the work: minitransformer.app.ranks.world() under mpiexec. All call train alike and get
                    the same result; rank 0 writes and speaks. Batches are cut into options.slices, 8 unless told

    Raises TrainingError or CheckpointError with a message for the user."""
    model.recompute(options.recompute)
    factor, base_lr = schedule or constant(), optimizer.lr  # read here: a checkpoint brings the rate of its last step
    if ranks is not None and options.slices is None:
        options = replace(options, slices=SLICES)
    ranks = ranks or Alone()
    progress = Silent() if ranks.rank else progress_on() if progress is None else progress
    run = Run(model, optimizer, options, factor, settings or {}, tokenizer, folder, progress, ranks)
    steps = None
    if options.slices is not None:
        steps = SlicedSteps(model, optimizer, loss_of, options.slices, options.seed, options.clip, ranks)
        run.whole_state = steps.whole_state
    with run.opened(), Interrupts() as interrupts, training_on(ranks):
        if ranks.size > 1:
            demand_agreement(ranks, run.environment | run.training | {"the data": _fingerprint(batches)})
        run.start(batches, resume)
        if ranks.size > 1:
            demand_agreement(ranks, {"the step": run.state.step, "the weights": digest(model.state_dict())})
        between = _BetweenSteps(run, model, batches, options, evaluate, interrupts, ranks)
        if steps is None:
            _repeat_steps(model, optimizer, loss_of, lambda step: base_lr * factor(step), between)
        else:
            steps.start()
            _repeat_sliced_steps(steps, lambda step: base_lr * factor(step), between)
        reason = between.finish()
        return run.finish(reason, between.signal, resume_command)


def _fingerprint(batches: BatchSource[Any]) -> str:
    """Stands for the data, where ranks are compared: the first batch, and all arrays from which others are made."""
    found = {}
    for owner in (next(iter(batches.epoch(0, 0)), None), batches):
        for name, value in getattr(owner, "__dict__", {}).items():
            if isinstance(value, np.ndarray):
                found[f"{name} of {type(owner).__name__}"] = value
            elif isinstance(value, list | tuple) and value and all(isinstance(one, np.ndarray) for one in value):
                found[f"{name} of {type(owner).__name__}"] = np.concatenate([one.ravel() for one in value])
    return digest(found)


class _BetweenSteps(Generic[ModelT, BatchT]):
    """Hands out the batches and does before each of them what is due."""

    reason = ""  # why no further batch came

    def __init__(
        self, run: Run, model: ModelT, source: BatchSource[BatchT], options: Options,
        evaluate: Callable[[ModelT], Scores] | None, interrupts: Interrupts, ranks: Alone,
    ):  # fmt: skip
        self.run, self.state, self.model, self.source = run, run.state, model, source
        self.options, self.evaluate, self.interrupts = options, evaluate, interrupts
        self.ranks, self.pace = ranks, Pace()
        self.epoch: Iterator[BatchT] | None = None  # what is left of it
        self.batches_in_epoch = 0

    def batches_until_the_end(self) -> Iterator[BatchT]:
        """Evaluation and saving come before the next step: whatever is due and was not done, because a signal came
        in between, is done first when the run resumes."""
        while True:
            if not self.signal and self._due(self.options.evaluate_every):
                self._evaluate()
            if self.run.unsaved and (self.state.is_best() or not self.state.step or self._due(self.options.save_every)):
                self.run.save()  # also before the first step: an unusable folder shows at once, not after an hour
            self.reason = "interrupted" if self.signal else self._limit()
            if self.reason:
                return
            yield self._next_batch()

    def step_done(self, tokens: int, values: dict[str, float], grad_norm: float) -> None:
        """A batch counts as done only here: whatever interrupts its step, the run resumes before it."""
        state, epoch, total = self.state, self.state.epoch, self._total_steps()
        state.step, state.batch, state.tokens = state.step + 1, state.batch + 1, state.tokens + tokens
        if state.batch == self.batches_in_epoch:
            state.epoch, state.batch, self.epoch = state.epoch + 1, 0, None
        self.run.unsaved = True
        state.meter.add(tokens, values | {"grad_norm": grad_norm})
        self.pace.add(tokens, values)
        if state.step % self.options.log_every == 0:
            self._write_means()
        shown, speed = self._with_perplexity(self.pace.means()), self.pace.tokens_per_second()
        self.run.progress.update(Status(state.step, total, epoch, shown, speed, self._seconds_left(total)))

    def finish(self) -> str:
        """The last numbers; returns why the run ended."""
        if self.reason != "interrupted":
            if self.state.meter.steps:
                self._write_means()
            self._evaluate()
        return "interrupted" if self.signal else self.reason  # a signal during the last evaluation counts

    @property
    def signal(self) -> int | None:
        """What any rank has received: all of them stop after the same step."""
        return int(self.ranks.greatest(self.interrupts.signal or 0)) or None

    def _next_batch(self) -> BatchT:
        state = self.state
        if self.epoch is None:
            self.batches_in_epoch = count_batches(self.source, state.epoch)
            self.epoch = self.source.epoch(state.epoch, state.batch)
        try:
            return next(self.epoch)
        except StopIteration:
            where = f"epoch {state.epoch + 1} ended at batch {state.batch} of {self.batches_in_epoch}"
            raise TrainingError(f"{where}: the batch source's count() and epoch() disagree") from None

    def _due(self, every: int | None) -> bool:
        """After so many steps; None: at the end of each epoch."""
        state = self.state
        return state.step > 0 and (state.batch == 0 if every is None else state.step % every == 0)

    # ------------------------------------------------------------------------------------------ limits

    def _limit(self) -> str:
        """The one that is reached, or nothing."""
        options, state = self.options, self.state
        if options.patience is not None and state.stale >= options.patience:
            return "patience"
        if options.max_steps is not None and state.step >= options.max_steps:
            return "steps"
        if options.max_epochs is not None and state.epoch >= options.max_epochs:
            return "epochs"
        if options.max_minutes is not None and self.ranks.greatest(self.run.seconds()) >= 60 * options.max_minutes:
            return "minutes"
        return ""

    def _total_steps(self) -> int | None:
        """The step at which the run will end, if all epochs are as long as this one."""
        options, state, totals = self.options, self.state, []
        if options.max_steps is not None:
            totals.append(options.max_steps)
        if options.max_epochs is not None:
            epochs_left = max(0, options.max_epochs - state.epoch)
            totals.append(state.step - state.batch + epochs_left * self.batches_in_epoch)
        return min(totals, default=None)

    def _seconds_left(self, total_steps: int | None) -> float | None:
        """Until the first limit is reached."""
        left = []
        if total_steps is not None:
            left.append((total_steps - self.state.step) * self.pace.seconds_per_step())
        if self.options.max_minutes is not None:
            left.append(max(0.0, 60 * self.options.max_minutes - self.run.seconds()))
        return min(left, default=None)

    # ------------------------------------------------------------------------------------------ evaluation

    def _evaluate(self) -> None:
        """Once a step. Never touches training: the random state is put back. Ctrl-C abandons it; it is then due on
        resuming."""
        if self.evaluate is None or self.state.evaluated == self.state.step:
            return
        random_state = self.model.rng_state()
        self.model.eval()
        try:
            # several ranks finish it: one that leaves would be waited for by the others
            with no_grad(), self.interrupts.at_once() if self.ranks.size == 1 else nullcontext():
                scores = self.evaluate(self.model)
        except KeyboardInterrupt:
            if not self.interrupts.signal:
                raise
            return
        finally:
            self.model.train()
            self.model.set_rng_state(random_state)
        scores = scores if isinstance(scores, Mapping) else {"loss": scores}
        values = {name: float(value) for name, value in scores.items()}
        self._compare_with_best(values)
        values = self._with_perplexity(values)
        self.run.write_line("evaluation", values)
        shown = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
        best = " (best so far)" if self.state.is_best() else ""
        self.run.progress.note(f"step {self.state.step}, evaluation: {shown}{best}")

    def _compare_with_best(self, values: dict[str, float]) -> None:
        state, monitor = self.state, self.options.monitor
        if monitor not in values:
            raise TrainingError(f"the evaluation gives {', '.join(values)}, not the monitored {monitor!r}")
        value = values[monitor]
        self.run.demand_finite(f"the {monitor} of the evaluation", value)
        sign = -1 if self.options.higher_is_better else 1
        if state.best is None or sign * value < sign * state.best["value"]:
            state.best = {"step": state.step, "metric": monitor, "value": value}
        state.stale = 0 if state.is_best() else state.stale + 1
        state.evaluated = state.step

    # ------------------------------------------------------------------------------------------ numbers to show

    def _write_means(self) -> None:
        """A line of metrics over the steps since the last one."""
        values = self._with_perplexity(self.state.meter.means())
        self.state.meter = Meter()
        speed = round(self.pace.tokens_per_second(), 1)
        self.run.write_line("train", values | {"lr": self.run.optimizer.lr, "tokens_per_second": speed})

    def _with_perplexity(self, values: dict[str, float]) -> dict[str, float]:
        return with_perplexity(values) if self.options.perplexity else values


def _loss_and_values(outcome: Loss) -> tuple[Tensor, dict[str, float]]:
    means, more = outcome if isinstance(outcome, tuple) else (outcome, {})
    first, *others = (mean for mean in means if mean is not None) if isinstance(means, list) else [means]
    loss = sum(others, first)
    return loss, {"loss": float(loss), **{name: float(value) for name, value in more.items()}}


def count_tokens(batch: object) -> int:
    """Real positions in a batch of `minitransformer.app.data`; in another one the elements of its first array."""
    lengths = [getattr(batch, name, None) for name in ("lengths", "source_lengths", "target_lengths")]
    if any(length is not None for length in lengths):
        return sum(int(length.sum()) for length in lengths if length is not None)
    first = batch[0] if isinstance(batch, tuple | list) else batch
    return int(getattr(first, "size", 1))
