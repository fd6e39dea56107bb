"""What the loop itself must remember to go on bit for bit, besides the model and the optimizer."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from minitransformer.app.training.checkpoints import Checkpoint, CheckpointError


@dataclass
class Meter:
    """Sums since the last line of metrics; saved, so that a resumed run writes the same averages."""

    steps: int = 0
    tokens: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    def add(self, tokens: int, values: dict[str, float]) -> None:
        self.steps += 1
        self.tokens += tokens
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def means(self) -> dict[str, float]:
        return {name: total / self.steps for name, total in self.sums.items()}


@dataclass
class State:
    step: int = 0  # updates done
    epoch: int = 0
    batch: int = 0  # batches of this epoch done
    seconds: float = 0.0  # spent training before this process
    tokens: int = 0  # seen in all
    evaluated: int = -1  # the step of the last evaluation
    stale: int = 0  # evaluations since the best one
    lines: int = 0  # of metrics.jsonl
    best: dict[str, Any] | None = None
    meter: Meter = field(default_factory=Meter)
    metrics: dict[str, Any] = field(default_factory=dict)  # the last line of each kind
    cpu_seconds: float = 0.0  # of all threads; unlike seconds, no matter what else the machine was doing

    def to_json(self) -> dict[str, Any]:
        """What a checkpoint has no entry of its own for."""
        names = ("seconds", "cpu_seconds", "tokens", "evaluated", "stale", "lines")
        return {name: getattr(self, name) for name in names} | {"meter": asdict(self.meter)}

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> State:
        """The state in a checkpoint, every value looked at before it is believed."""
        saved = checkpoint.state
        try:
            meter = Meter(_count(saved["meter"]["steps"]), _count(saved["meter"]["tokens"]))
            meter.sums = {str(name): _number(value) for name, value in saved["meter"]["sums"].items()}
            return cls(
                checkpoint.step, checkpoint.epoch, checkpoint.batch, _number(saved["seconds"]), _count(saved["tokens"]),
                _count(saved["evaluated"], -1), _count(saved["stale"]), _count(saved["lines"]), checkpoint.best, meter,
                dict(checkpoint.metrics), _number(saved.get("cpu_seconds", 0.0)),
            )  # fmt: skip
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            found = f"the state of its training loop cannot be used ({type(error).__name__}: {error})"
            advice = "delete the checkpoint to go on from an earlier one"
            raise CheckpointError(checkpoint.path, found, advice) from error


def _count(value: Any, least: int = 0) -> int:
    if type(value) is not int or value < least:
        raise ValueError(f"{value!r} is no count")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return float(value)
