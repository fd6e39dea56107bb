"""Runs a student's CUDA kernel in the emulator, every access checked, inside a worker's child."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import kernels.emulator  # noqa: F401  it runs launches on NumPy arrays
from kernels.cuda.launcher import launch
from kernels.cuda.source import LaunchError
from kernels.emulator import CompilerError, EmulatorError, checked
from lessons.exercises.values import encoded

SEEDS = (1, 0)  # threads and blocks shuffled, then in order: a result must not depend on it


def run_launches(path: Path, launches: Sequence[dict[str, Any]], say: Callable[..., None]) -> None:
    """One answer for each launch: the arrays that the kernel may write to, and what the emulator counted."""
    for one in launches:
        results = []
        for seed in SEEDS:
            arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in one["arguments"]]
            try:
                with checked(seed) as report:
                    launch(str(path), one["kernel"], one["grid"], one["block"], arguments, np.float32, one["defines"])
            except EmulatorError as error:
                say(error=error.kind, text=str(error), lines=list(error.lines))
                return
            except (CompilerError, LaunchError) as error:
                say(error=type(error).__name__, text=str(error)[:1500])
                return
            results.append(tuple(arguments[n] for n in one["outputs"]))
            (counted,) = report.launches
        same = all(a.tobytes() == b.tobytes() for a, b in zip(*results, strict=True))
        counters = {name: value for name, value in vars(counted).items() if isinstance(value, int)}
        counters |= dict(
            coalescing=counted.coalescing, bank_conflicts=counted.bank_conflicts,
            uncoalesced_at=counted.uncoalesced_at, conflicts_at=counted.conflicts_at,
        )  # fmt: skip
        say(result=encoded(results[0] if len(results[0]) > 1 else results[0][0]), counters=counters,
            race="" if same else "the result depends on the order in which threads and blocks run")  # fmt: skip
