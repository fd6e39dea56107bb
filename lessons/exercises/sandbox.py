"""The judge's side of a worker: hands it an answer and the calls to make, and reads what came of them."""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from lessons.exercises.values import decoded

SECONDS, MEGABYTES = 10, 1024
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}


@dataclass(frozen=True)
class Answer:
    """What came of one call: a result, or an error with the student's line."""

    result: Any = None
    error: str = ""
    text: str = ""
    line: int = 0
    code: str = ""
    printed: str = ""
    changed: bool = False  # an input was written to
    before: bool = False  # the error came while the file was read, before any call
    race: str = ""
    counters: dict[str, Any] = field(default_factory=dict)  # of a CUDA launch
    lines: list[str] = field(default_factory=list)  # of the CUDA file that are at fault


@dataclass(frozen=True)
class Outcome:
    """The answers in order, and how the process ended: done, time, or crash with a reason."""

    answers: list[Answer]
    end: str
    reason: str = ""


class Sandbox:
    """Workers, one for each kind of exercise, started when first needed.

    with Sandbox() as sandbox: sandbox.run("python", ...)"""

    def __init__(self) -> None:
        self._workers: dict[str, subprocess.Popen] = {}
        self._one_at_a_time = threading.Lock()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            for stream in (worker.stdin, worker.stdout):
                if stream:
                    stream.close()
            worker.wait()
        self._workers.clear()

    def run(
        self, kind: str, file: str, source: str, calls: Sequence[tuple[str, tuple]], *, plain: bool = False,
        allowed: Sequence[str] = (), seconds: int = SECONDS, megabytes: int = MEGABYTES,
    ) -> Outcome:  # fmt: skip
        """Runs the source and makes the calls (name, arguments), one after another.

        plain  Numba's decorators do nothing: the code runs as plain Python, under observation"""
        if kind != "cuda":
            calls = [(name, pickle.dumps(arguments)) for name, arguments in calls]
        job = dict(
            kind=kind, file=file, source=source, calls=list(calls), plain=plain, allowed=tuple(allowed),
            seconds=seconds, megabytes=megabytes,
        )  # fmt: skip
        with self._one_at_a_time:
            try:
                text, end, code = self._ask(kind, pickle.dumps(job))
            except (BrokenPipeError, EOFError):
                self._workers.pop(kind).kill()
                return Outcome([], "crash", "it ended the process that runs it")
        answers = []
        for line in text.splitlines():
            try:
                answers.append(_answer(json.loads(line)))
            except (ValueError, TypeError, RecursionError):
                return Outcome(answers, "crash", "it wrote into the pipe that carries the results")
        if end == "time":
            return Outcome(answers, "time", f"no result within {seconds} seconds of computing")
        if code < 0:
            return Outcome(answers, "crash", f"the process was ended by signal {-code} ({_signal(-code)})")
        finished = len(answers) == len(calls) or any(one.error for one in answers)
        return Outcome(answers, "done" if finished else "exit", "" if finished else f"exit code {code}")

    def _ask(self, kind: str, job: bytes) -> tuple[bytes, str, int]:
        if kind not in self._workers:
            self._workers[kind] = subprocess.Popen(
                [sys.executable, "-I", "-c", f"from lessons.exercises.worker import serve; serve({kind!r})"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                env={**os.environ, **ONE_THREAD, "MINITRANSFORMER_QUIET": "1", "NUMBA_NUM_THREADS": "2"},
            )  # fmt: skip
        worker = self._workers[kind]
        assert worker.stdin and worker.stdout
        worker.stdin.write(struct.pack("<Q", len(job)) + job)
        worker.stdin.flush()
        header = worker.stdout.read(8)
        if len(header) < 8:
            raise EOFError
        # The worker itself wrote this, not the student's process, whose text stays bytes until it is read as JSON.
        return pickle.loads(worker.stdout.read(struct.unpack("<Q", header)[0]))


def _answer(said: Any) -> Answer:
    """One line of what the child wrote; ValueError unless every field is what it should be."""
    if not isinstance(said, dict):
        raise ValueError("no fields")
    kinds = {name: type(value) for name, value in asdict(Answer()).items() if name != "result"}
    for name, value in said.items():
        if name != "result" and type(value) is not kinds.get(name):
            raise ValueError(f"{name} is no {kinds.get(name)}")
    return Answer(**{**said, "result": decoded(said.get("result"))})


def _signal(number: int) -> str:
    import signal

    return {11: "a stray access to memory", 9: "killed", 6: "abort"}.get(number, signal.Signals(number).name)
