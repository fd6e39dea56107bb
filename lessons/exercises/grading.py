"""Many answers of many students, judged at the same time."""

from __future__ import annotations

import csv
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import NamedTuple

import kernels
from lessons.exercises.exercise import Exercise
from lessons.exercises.judge import Judge
from lessons.exercises.sandbox import Sandbox
from lessons.exercises.verdict import Verdict
from minitransformer.app.progress import counted
from minitransformer.app.tables import table
from minitransformer.errors import FileError, UserError, system_error

COLUMNS = ("student", "exercise", "passed", "inputs right", "inputs", "what", "likely mistake")


class Submission(NamedTuple):
    student: str
    exercise: Exercise
    path: Path


def submissions(folder: Path, among: Sequence[Exercise]) -> list[Submission]:
    """Every file of a subfolder that has the name of an exercise."""
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; give one with a subfolder for each student")
    students = sorted(one for one in folder.iterdir() if one.is_dir() and not one.name.startswith("."))
    found = [Submission(s.name, e, s / e.file) for s in students for e in among if (s / e.file).is_file()]
    if not found:
        raise UserError(
            f"{folder}: no answers there; expected are files like {folder}/STUDENT/{among[0].file}, a folder a student"
        )
    return found


def judged(work: Sequence[Submission], jobs: int | None = None) -> Iterator[tuple[Submission, Verdict]]:
    """The verdicts in the order of the submissions; every core has a judge of its own."""
    jobs = max(1, min(jobs or os.cpu_count() or 1, len(work)))
    mine, sandboxes = threading.local(), []

    no_compiler = kernels.reasons()["emulated"]

    def one(submission: Submission) -> Verdict:
        if submission.exercise.kind == "cuda" and no_compiler:
            return Verdict(False, "not judged", no_compiler, no_compiler)
        if not hasattr(mine, "judge"):
            sandbox = Sandbox()
            sandboxes.append(sandbox)
            mine.judge = Judge(sandbox)
        try:
            source = submission.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            return Verdict(False, "not readable", f"{submission.path}: {error}")
        return mine.judge.judge(submission.exercise, source)

    pool = ThreadPoolExecutor(jobs)
    try:
        # in a copy of this context each: the backend in use is part of it
        results = [pool.submit(copy_context().run, one, submission) for submission in work]
        for submission, result in counted(list(zip(work, results, strict=True)), "judged"):
            yield submission, result.result()
    finally:
        pool.shutdown(cancel_futures=True)
        for sandbox in sandboxes:
            sandbox.__exit__()


def grade(folder: Path, among: Sequence[Exercise], target: Path | None, jobs: int | None = None) -> str:
    """Judges a class, writes the verdicts as CSV if asked to, and returns a table with a line for each student."""
    work = submissions(folder, among)
    if target is not None and not target.parent.is_dir():
        raise UserError(f"--csv {target}: there is no folder {target.parent}")
    print(f"{len(work)} answers of {len({one.student for one in work})} students", file=sys.stderr, flush=True)
    rows, passed = [], {}
    for submission, verdict in judged(work, jobs):
        name = submission.exercise.name
        passed.setdefault(submission.student, {})[name] = verdict
        rows.append((submission.student, name, "yes" if verdict.passed else "no", verdict.right, verdict.of,
                     verdict.kind, verdict.mistake))  # fmt: skip
    if target is not None:
        try:
            with target.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([COLUMNS, *rows])
        except OSError as error:
            raise system_error(target, "cannot be written", error, FileError) from None
    lines = []
    for student, verdicts in passed.items():
        not_yet = [f"{name} ({verdict.kind})" for name, verdict in verdicts.items() if not verdict.passed]
        lines.append((student, f"{len(verdicts) - len(not_yet)}/{len(verdicts)}", ", ".join(not_yet)))
    return table(("student", "passed", "not yet"), lines, right=(1,))
