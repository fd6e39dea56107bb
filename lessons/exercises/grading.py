"""Many answers of many students, judged at the same time."""

from __future__ import annotations

import csv
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path

import kernels
from lessons.exercises.exercise import Exercise
from lessons.exercises.handed_in import HandedIn, Submission, counted_as, handed_in
from lessons.exercises.judge import Judge
from lessons.exercises.sandbox import Sandbox
from lessons.exercises.verdict import Verdict
from minitransformer.app.progress import counted
from minitransformer.app.tables import table
from minitransformer.errors import FileError, UserError, system_error

COLUMNS = ("student", "exercise", "passed", "right before a failure", "inputs", "what", "likely mistake", "file")
NOTHING, NOT_JUDGED, NOT_READABLE = "nothing found", "not judged", "not readable"
Verdicts = Mapping[str, Mapping[str, tuple[Submission, Verdict]]]  # student → name of the exercise → …


def judged(work: Sequence[Submission], jobs: int | None = None) -> Iterator[tuple[Submission, Verdict]]:
    """The verdicts in the order of the submissions; every core has a judge of its own."""
    jobs = max(1, min(jobs or os.cpu_count() or 1, len(work)))
    mine, sandboxes = threading.local(), []

    no_compiler = kernels.reasons()["emulated"]

    def one(submission: Submission) -> Verdict:
        if submission.exercise.kind == "cuda" and no_compiler:
            return Verdict(False, NOT_JUDGED, no_compiler, no_compiler)
        if not hasattr(mine, "judge"):
            sandbox = Sandbox()
            sandboxes.append(sandbox)
            mine.judge = Judge(sandbox)
        try:
            source = submission.path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return Verdict(False, NOT_READABLE, "it is not text in UTF-8", "it is not text in UTF-8")
        except OSError as error:
            return Verdict(False, NOT_READABLE, str(error), error.strerror or str(error))
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


def grade(
    folder: Path,
    among: Sequence[Exercise],
    target: Path | None,
    jobs: int | None = None,
    due: Sequence[Exercise] = (),
) -> str:
    """Judges a class, writes the verdicts as CSV if asked to, and returns a table with a line for each student, then a
    line for each file that was not judged."""
    found = handed_in(folder, among, due, but=target)
    if target is not None and not target.parent.is_dir():
        raise UserError(f"--csv {target}: there is no folder {target.parent}")
    many = f"{counted_as(len(found.answers), 'answer')} of {counted_as(len(found.students), 'student')}"
    print(many, file=sys.stderr, flush=True)
    verdicts: dict[str, dict[str, tuple[Submission, Verdict]]] = {student: {} for student in found.students}
    for submission, verdict in judged(found.answers, jobs):
        verdicts[submission.student][submission.exercise.name] = submission, verdict
    if target is not None:
        try:
            with target.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([COLUMNS, *_rows(folder, found, verdicts, due)])
        except OSError as error:
            raise system_error(target, "cannot be written", error, FileError) from None
    return "\n".join([_marks(verdicts, due), *_not_judged(folder, found, verdicts)])


def _rows(folder: Path, found: HandedIn, verdicts: Verdicts, due: Sequence[Exercise]) -> Iterator[tuple]:
    """A line for each answer, for each that is missing, and for each file that was not judged."""
    for student, theirs in verdicts.items():
        for name in _asked(theirs, due) or [""]:
            if name in theirs:
                submission, said = theirs[name]
                passed, file = "yes" if said.passed else "no", _file(folder, submission)
                yield student, name, passed, said.right, said.of, said.kind, said.mistake, file
            else:
                yield student, name, "no", 0, 0, NOTHING, "", ""
        for one in found.not_due:
            if one.student == student:
                yield student, one.exercise.name, "", 0, 0, NOT_JUDGED, "not due", _file(folder, one)
        for left in found.left:
            if left.student == student:
                yield student, "", "", 0, 0, NOT_JUDGED, left.why, left.path
    for left in found.left:
        if not left.student:
            yield "", "", "", 0, 0, NOT_JUDGED, left.why, left.path


def _file(folder: Path, submission: Submission) -> str:
    return submission.path.relative_to(folder).as_posix()


def _asked(theirs: Mapping[str, object], due: Sequence[Exercise]) -> list[str]:
    """The names that a student's mark is made of: what was due, or else what there is."""
    return [one.name for one in due] or list(theirs)


def _marks(verdicts: Verdicts, due: Sequence[Exercise]) -> str:
    lines = []
    for student, theirs in verdicts.items():
        asked = _asked(theirs, due)
        passed = sum(said.passed for _, said in theirs.values())
        not_yet = [
            f"{name} ({theirs[name][1].kind if name in theirs else NOTHING})"
            for name in asked
            if name not in theirs or not theirs[name][1].passed
        ]
        lines.append((student, f"{passed} of {len(asked)}", ", ".join(not_yet) if theirs else NOTHING))
    return table(("student", "passed", "not yet"), lines, right=(1,))


def _not_judged(folder: Path, found: HandedIn, verdicts: Verdicts) -> list[str]:
    lines = [f"not judged: {left.path}: {left.why}" for left in found.left]
    for theirs in verdicts.values():
        for submission, said in theirs.values():
            if said.kind in (NOT_JUDGED, NOT_READABLE):
                lines.append(f"not judged: {_file(folder, submission)}: {said.mistake}")
    if found.not_due:  # a folder may hold the answers of a whole term
        many = Counter(one.exercise.name for one in found.not_due)
        names = ", ".join(f"{name} ({number})" if number > 1 else name for name, number in many.items())
        lines.append(f"not judged: {counted_as(len(found.not_due), 'answer')} to what was not due: {names}")
    return ["", *lines] if lines else []
