"""Training on several ranks: measured on this machine, and on paper for machines that we do not have.

The model on paper. A step of n tokens with P weights on N ranks, each of which takes K slices:

    computing   n f / N / rate              f operations a token, 6 for each weight that something is multiplied by
    slices      K c P                       a slice's gradient is laid out and added, and small products are slower
    gradients   (N-1) (a m + 4 P / N / b)   a: latency, b: bytes a second, m buckets
    weights     (N-1) (a + 4 P / N / b)

Gradients travel while backward goes on, in the last slice: two thirds of its computing time hide as much of them. Rate
and c (seconds a number) come from two measured runs, one process with whole batches and one rank with slices; those of
one and of two ranks with a thread each are predicted, and compared."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from minitransformer.app.training.ranks.shares import Shares
from minitransformer.app.training.ranks.slices import SLICES
from minitransformer.errors import UserError
from minitransformer.models import build

ROWS, LENGTH, STEPS = 8, 256, 3
ETHERNET = 30e-6  # seconds a message, on paper
WIRES = {"10 Gbit/s": 1.25e9, "100 Gbit/s": 12.5e9}
RANKS = (8, 64, 1024)


@dataclass(frozen=True)
class Plan:
    """A run that is measured."""

    name: str
    ranks: int  # 0: one process without mpiexec, its batches whole
    rows: int
    overlap: bool = True
    threads: int | None = None  # of each rank; None: all that there are, divided fairly


PLANS = (
    Plan("one process, whole batches", 0, ROWS),
    Plan("1 rank", 1, ROWS),
    Plan("2 ranks, the same batch", 2, ROWS),
    Plan("2 ranks, without overlap", 2, ROWS, overlap=False),
    Plan("2 ranks, twice the batch", 2, 2 * ROWS),
    Plan("1 rank, one thread", 1, ROWS, threads=1),
)
PREDICTED = (PLANS[5], PLANS[2], PLANS[4])  # by the model on paper; the first is what ranks of one thread begin with


@dataclass(frozen=True)
class Paper:
    """What the model on paper knows of a machine and a network."""

    rate: float  # operations a second of one rank
    layout: float  # seconds for each number of a slice's gradient
    latency: float
    bandwidth: float

    def seconds(self, ranks: int, tokens: float, size: "Size", slices: int) -> tuple[float, float, float]:
        """Of a step: computing, laying out slices, and sending as far as nothing hides it. slices: of each rank"""
        computing = tokens * size.operations / ranks / self.rate
        buckets = -(-size.numbers // (Shares.message * ranks))
        share = 4 * size.numbers / ranks / self.bandwidth
        gradients = (ranks - 1) * (self.latency * buckets + share)
        weights = (ranks - 1) * (self.latency + share)
        hidden = min(gradients * (1 - 1 / buckets), computing / slices * 2 / 3)  # the last bucket waits for backward
        return computing, slices * self.layout * size.numbers, gradients + weights - hidden


@dataclass(frozen=True)
class Size:
    """A model, as far as costs go."""

    name: str
    numbers: int
    operations: float  # a token
    tokens: int  # of a usual step


def sizes() -> list[Size]:
    """The labs' language model, and the transformer paper's base model with the paper's batches."""
    lab: Any = build("lab", seed=None)
    base: Any = build("base", seed=None)
    looked_up = lab.base.embedding.weight.size  # a table: read, not multiplied
    multiplied = base.num_parameters() / 2  # a source word meets the encoder, a target word the decoder: half each
    return [
        Size("the labs' model", lab.num_parameters(), 6 * (lab.num_parameters() - looked_up), ROWS * LENGTH),
        Size("base model", base.num_parameters(), 6 * multiplied, 50_000),
    ]


def can_run() -> bool:
    return importlib.util.find_spec("mpi4py") is not None and _mpiexec() is not None


def _mpiexec() -> str | None:
    beside = str(Path(sys.executable).parent)
    return shutil.which("mpiexec", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))


def run(plan: Plan) -> dict[str, Any]:
    """The figures of one plan; threads are divided fairly among its ranks."""
    command = [sys.executable, "-m", "minitransformer.app.bench.ranks_worker"]
    command += [str(plan.rows), str(STEPS), "1" if plan.overlap else "0"]
    launched = [] if plan.ranks == 0 else [_mpiexec() or "mpiexec", "-n", str(plan.ranks)]
    environment = os.environ | ({} if plan.threads is None else {"NUMBA_NUM_THREADS": str(plan.threads)})
    result = subprocess.run(launched + command, capture_output=True, text=True, timeout=600, env=environment)
    if result.returncode:
        raise UserError(f"{plan.name}: the measurement failed: {result.stderr.strip().splitlines()[-1:]}")
    found = json.loads(result.stdout)
    return found | {"best": min(found["seconds"]), "median": median(found["seconds"])}


def measure(tell: Any) -> dict[str, Any]:
    found = {}
    for plan in PLANS:
        tell(f"ranks: {plan.name}")
        found[plan.name] = run(plan)
    plain, one = (found[plan.name]["best"] for plan in PLANS[:2])
    lab, _ = every = sizes()
    rate = lab.tokens * lab.operations / plain / 2  # two ranks share the cores that one process has alone
    layout = max(0.0, one - plain) / SLICES / lab.numbers
    wire = found[PLANS[2].name]
    here = Paper(rate, layout, wire["latency"], wire["bandwidth"])
    checks = []
    alone = found[PREDICTED[0].name]["best"]
    for plan in PREDICTED:
        expected = sum(here.seconds(plan.ranks, plan.rows * LENGTH, lab, SLICES // plan.ranks))
        measured = found[plan.name]["best"]
        efficiency = alone * plan.rows / ROWS / measured / plan.ranks
        checks.append({"plan": plan.name, "measured": measured, "expected": expected, "efficiency": efficiency})
    paper = []
    for size in every:
        for name, bandwidth in WIRES.items():
            for ranks in RANKS:
                for what, tokens in (("strong", size.tokens), ("weak", size.tokens * ranks)):
                    there = Paper(rate, layout, ETHERNET, bandwidth)
                    computing, laying, sending = there.seconds(ranks, tokens, size, 1)
                    alone = tokens * size.operations / rate + laying
                    paper.append({
                        "model": size.name, "wire": name, "ranks": ranks, "scaling": what, "computing": computing,
                        "sending": sending, "seconds": computing + laying + sending,
                        "efficiency": alone / (computing + laying + sending) / ranks,
                    })  # fmt: skip
    bound = 2 * (2 - 1) / 2 * 4 * lab.numbers
    return {"measured": found, "checks": checks, "paper": paper, "bound": bound, "rate": rate, "layout": layout,
            "latency": here.latency, "bandwidth": here.bandwidth}  # fmt: skip
