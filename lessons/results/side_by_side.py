"""Training runs that take turns, step by step, and how far apart they come."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from statistics import median
from typing import Any, Protocol

import numpy as np

from lessons.results.record_files import rounded
from minitransformer.app.progress import Pace, Progress, Status
from minitransformer.app.training.interrupts import Interrupts
from minitransformer.errors import UserError
from minitransformer.optim import Adam, clip_grad_norm

KEY_BIAS = "in_proj_bias, keys"

Weights = Mapping[str, np.ndarray]
Curves = dict[str, dict[str, list[float]]]  # run → loss, gradient_norm, seconds, cpu_seconds → a number for each step


class Run(Protocol):
    def step(self, batch: Any) -> tuple[float, float]: ...  # loss, norm of the gradient before clipping
    def weights(self) -> Weights: ...


class Engine:
    """One training run of our engine."""

    def __init__(self, model: Any, lr: float, clip: float):
        self.model, self.clip, self.optimizer = model, clip, Adam(model.parameters(), lr=lr)

    def step(self, batch: Any) -> tuple[float, float]:
        self.optimizer.zero_grad()
        loss = self.model.loss(batch.ids, batch.targets, ignore_index=batch.ignore)
        loss.backward()
        norm = clip_grad_norm(self.model.parameters(), self.clip)
        self.optimizer.step()
        return loss.item(), norm

    def weights(self) -> Weights:
        return self.model.state_dict()


def nudged(model: Any, seed: int) -> Any:
    """A model like this one, each weight times 1 ± 2⁻²⁴: that rounds to one of the two neighbours of a float32."""
    rng = np.random.default_rng(seed)
    weights = model.state_dict()
    for name, array in weights.items():
        sign = rng.integers(0, 2, array.shape, dtype=np.int8) * 2 - 1
        weights[name] = (array * (1 + sign * 2.0**-24)).astype(np.float32)
    other = type(model)(model.config)
    other.load_state_dict(weights)
    return other


def take_turns(runs: Mapping[str, Run], batches: Iterator[Any], steps: int, progress: Progress) -> tuple[Curves, int]:
    """Every run makes step 1, then every run step 2, and so on; with the signal that ended it early, or 0."""
    curves: Curves = {name: {"loss": [], "gradient_norm": [], "seconds": [], "cpu_seconds": []} for name in runs}
    pace = Pace()
    with Interrupts() as interrupts:
        for step, batch in enumerate(islice(batches, steps), 1):
            if interrupts.signal:
                break
            for name, run in runs.items():
                start, cpu = time.perf_counter(), time.process_time()
                loss, norm = run.step(batch)
                seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
                if not math.isfinite(loss + norm):
                    raise UserError(f"{name}: loss {loss}, gradient norm {norm} at step {step}: nothing to compare")
                for curve, value in zip(curves[name].values(), (loss, norm, seconds, cpu), strict=True):
                    curve.append(value)
            pace.add(len(runs) * int(batch.lengths.sum()), {})
            ours, theirs = (curves[name]["loss"][-1:] for name in ("ours", "pytorch"))
            shown = {"loss": ours[0], "difference": apart(ours, theirs)[0]}
            left = (steps - step) * pace.seconds_per_step()
            progress.update(Status(step, steps, 0, shown, pace.tokens_per_second(), left))
    progress.close()
    return curves, interrupts.signal or 0


def apart(ours: Sequence[float], others: Sequence[float]) -> list[float]:
    """The relative difference at each step."""
    return [abs(a - b) / abs(a) for a, b in zip(ours, others, strict=True)]


def tensors(weights: Weights) -> dict[str, np.ndarray]:
    """The weights by name, with the packed projections of queries, keys and values told apart."""
    parts = {}
    for name, array in weights.items():
        if "in_proj_" in name:
            for kind, part in zip(("queries", "keys", "values"), np.split(array, 3), strict=True):
                parts[f"{name}, {kind}"] = part
        else:
            parts[name] = array
    return parts


def distances(ours: Weights, others: Weights) -> dict[str, float]:
    """|ours - other| / |ours| of each tensor."""

    def distance(a: np.ndarray, b: np.ndarray) -> float:
        a, b = a.astype(np.float64), b.astype(np.float64)
        return float(np.linalg.norm(a - b)) / (float(np.linalg.norm(a)) or 1.0)

    others = tensors(others)
    return {name: distance(array, others[name]) for name, array in tensors(ours).items()}


def record_of(curves: Curves, start: Weights, ends: Mapping[str, Weights]) -> dict[str, Any]:
    """Everything measured, and the figures that sum it up."""
    ours = curves["ours"]
    others = [name for name in curves if name != "ours"]
    differences = {name: apart(ours["loss"], curves[name]["loss"]) for name in others}
    weights = {name: distances(ends["ours"], ends[name]) for name in others}
    moved = distances(ends["ours"], start)
    norms = {name: apart(ours["gradient_norm"], curves[name]["gradient_norm"]) for name in others}
    figures: dict[str, Any] = {name: summary(differences[name], norms[name], weights[name]) for name in others}
    return rounded(
        {
            "figures": figures | {"speed": speed(curves)},
            "loss_differences": differences,
            "weight_differences": weights | {"moved_since_the_start": moved},
            "curves": curves,
        }
    )


def summary(differences: list[float], norms: list[float], weights: Mapping[str, float]) -> dict[str, Any]:
    """A key's bias adds the same number to all scores of a row, and the softmax ignores it: its gradient is zero but
    for rounding, and Adam makes whole steps of that. The function does not depend on it, so it is counted apart."""
    largest = max(differences)
    counted = {name: value for name, value in weights.items() if not name.endswith(KEY_BIAS)}
    worst = max(counted, key=counted.__getitem__)
    return {
        "loss_first_step": differences[0],
        "loss_median": median(differences),
        "loss_largest": largest,
        "loss_largest_at_step": differences.index(largest) + 1,
        "gradient_norm_first_step": norms[0],
        "gradient_norm_median": median(norms),
        "weights_largest": counted[worst],
        "weights_largest_in": worst,
        "key_biases_largest": max(value for name, value in weights.items() if name.endswith(KEY_BIAS)),
    }


def speed(curves: Curves) -> dict[str, float]:
    """Medians over the steps, by the clock and of all threads' work; the first step compiles, and is left out where
    there are more. The ratio is taken step by step, for batches differ in length."""
    figures: dict[str, float] = {}
    for kind in ("seconds", "cpu_seconds"):
        ours, theirs = (curves[name][kind][1:] or curves[name][kind] for name in ("ours", "pytorch"))
        figures |= {f"ours_{kind}": median(ours), f"pytorch_{kind}": median(theirs)}
        figures[f"pytorch_over_ours_{kind}"] = median(b / a for a, b in zip(ours, theirs, strict=True))
    return figures
