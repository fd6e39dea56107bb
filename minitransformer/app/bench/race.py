"""Lets the sides of a case take turns: ours, theirs, ours, theirs ... so that whatever else slows the machine down
meets both alike."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from minitransformer.app.bench.cases import Case
from minitransformer.app.bench.ours import threads
from minitransformer.errors import UserError


@dataclass
class Side:
    """What one contestant did: seconds of each unit of work, and its peak memory."""

    name: str
    rounds: list[list[float]] = field(default_factory=list)
    megabytes: float = 0.0
    first: float = 0.0  # seconds for the first two units: compiling and filling caches

    @property
    def seconds(self) -> list[float]:
        return [unit for one in self.rounds for unit in one]

    @property
    def best_of_rounds(self) -> list[float]:
        return [min(one) for one in self.rounds]

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return median(self.seconds)


class _Worker:
    def __init__(self, case: Case, side: str, data: str | None):
        command = [sys.executable, "-m", "minitransformer.app.bench.worker", case.name, side, str(threads())]
        self.case, self.side = case, Side(side)
        self.process = subprocess.Popen(
            command + ([data] if data else []),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        answer = self._read()
        self.side.first, self.compiled = answer["ready"], answer["compiled"]

    def _read(self):
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise UserError(f"{self.side.name} failed on case {self.case.name} (its message is above)")
        answer = json.loads(line)
        if isinstance(answer, dict) and "error" in answer:
            raise UserError(answer["error"])
        return answer

    def round(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.side.rounds.append(self._read())

    def finish(self) -> Side:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.side.megabytes = self._read()["megabytes"]
        self.process.wait()
        return self.side


def race(
    case: Case, sides: list[str], data: str | None, rounds: int | None, tell: Callable[[str], None], peak: Callable
) -> tuple[list[Side], float]:
    """The sides' figures, and the best sgemm rate met between the rounds (0 when the case has no products)."""
    workers: list[_Worker] = []
    best_peak = 0.0
    try:
        for side in sides:
            tell(f"{case.name}: {side} gets ready")
            try:
                workers.append(_Worker(case, side, data))
                if workers[-1].compiled:  # another one finds the kernels in the cache, and needs no compiler's memory
                    workers.pop().finish()
                    workers.append(_Worker(case, side, data))
            except UserError as error:
                if side != "compiled":
                    raise
                print(f"{case.name}: torch.compile is left out: {error}", file=sys.stderr)
        total = rounds or case.rounds
        for number in range(total):
            for worker in workers:
                tell(f"{case.name}: round {number + 1} of {total}, {worker.side.name}")
                worker.round()
            if case.flops is not None:
                best_peak = max(best_peak, peak())
        return [worker.finish() for worker in workers], best_peak
    finally:
        for worker in workers:
            if worker.process.poll() is None:
                worker.process.kill()
                worker.process.wait()
