"""Sides that take turns at work in two parts: a model reads (a prompt, a window of sound), then it writes word by word.

Each side is a process of its own, `python -m MODULE SIDE THREADS`, that calls `serve`. It answers each line on stdin
with the seconds of both parts, and at the end with its memory."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from minitransformer.app.bench.worker import peak_megabytes
from minitransformer.errors import UserError

Run = Callable[[], tuple[float, float]]


@dataclass
class Side:
    """Seconds of both parts, round by round."""

    name: str
    reading: list[float] = field(default_factory=list)
    writing: list[float] = field(default_factory=list)
    megabytes: float = 0.0

    def medians(self) -> tuple[float, float]:
        return median(self.reading), median(self.writing)


def measure(module: str, names: list[str], tell: Callable[[str], None], rounds: int) -> list[Side]:
    """The sides in turns, so that whatever else slows the machine down meets all alike."""
    from minitransformer.app.bench import ours

    sides, workers, case = [Side(name) for name in names], [], module.rpartition(".")[2]
    try:
        for side in sides:
            tell(f"{case}: {side.name} gets ready")
            command = [sys.executable, "-m", module, side.name, str(ours.threads())]
            workers.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            _answer(case, workers[-1])
        for number in range(rounds):
            for side, worker in zip(sides, workers, strict=True):
                tell(f"{case}: round {number + 1} of {rounds}, {side.name}")
                reading, writing = _answer(case, worker, "go")
                side.reading.append(reading)
                side.writing.append(writing)
        for side, worker in zip(sides, workers, strict=True):
            side.megabytes = _answer(case, worker, "end")
        return sides
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def _answer(case: str, worker: Any, line: str = "") -> Any:
    if line:
        worker.stdin.write(line + "\n")
        worker.stdin.flush()
    answer = worker.stdout.readline()
    if not answer:
        raise UserError(f"a side of the case {case} failed (its message is above)")
    return json.loads(answer)


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def serve(run: Run) -> None:
    run()  # compiles, and fills caches
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(run() if line.strip() == "go" else peak_megabytes()), flush=True)
