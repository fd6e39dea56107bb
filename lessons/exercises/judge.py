"""From an answer to a verdict that explains itself: the first input that fails, what was expected, what came, and the
likely mistake where it is recognised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lessons.exercises.compare import Difference, difference, normal
from lessons.exercises.exercise import Case, Exercise
from lessons.exercises.mistakes import recognise
from lessons.exercises.sandbox import MEGABYTES, SECONDS, Answer, Outcome, Sandbox
from lessons.exercises.verdict import (
    RACE,
    Verdict,
    by_differences,
    copies,
    ended,
    named_arguments,
    quoted,
    raised,
    refused,
    shown_input,
)
from minitransformer.errors import excerpt

COMPILING = 40  # seconds, where a compiler has its share in them


class Judge:
    """Judges answers; keeps what the known wrong answers give, so as to recognise them.

    with Sandbox() as sandbox: Judge(sandbox).judge(exercise, source)"""

    def __init__(self, sandbox: Sandbox, **limits: int):
        self.sandbox, self.limits = sandbox, limits
        self._cases: dict[str, tuple[list[Case], list[Any]]] = {}
        self._known: dict[str, list[tuple[str, dict[int, Any]]]] = {}

    def judge(self, exercise: Exercise, source: str) -> Verdict:
        cases, _ = self._inputs(exercise)
        asks = exercise.kind == "cuda" or "NotImplementedError" in exercise.stub  # else it runs as it is, with a bug
        if asks and source.split() in (exercise.start.split(), exercise.stub.split()):
            return Verdict(False, "not begun", "The body is still to be written.", of=len(cases))
        if (verdict := refused(exercise, source)) is not None:
            return replace(verdict, of=len(cases))
        if exercise.kind != "numba":
            return self._stage(exercise, source, list(range(len(cases))))
        small = [n for n, case in enumerate(cases) if not case.large]
        verdict = self._stage(exercise, source, small, plain=True)
        if not verdict.passed:
            return replace(verdict, of=len(cases))
        return self._stage(exercise, source, list(range(len(cases))), compiled=True)

    def _inputs(self, exercise: Exercise) -> tuple[list[Case], list[Any]]:
        if exercise.name not in self._cases:
            cases = list(exercise.cases())
            wanted = [
                normal(exercise.expected(*copies(c.arguments)) if c.expected is None else c.expected) for c in cases
            ]
            self._cases[exercise.name] = cases, wanted
        return self._cases[exercise.name]

    def _run(self, exercise: Exercise, source: str, numbers: list[int], plain: bool = False) -> Outcome:
        cases, _ = self._inputs(exercise)
        calls: list[Any]
        if exercise.kind == "cuda":
            assert exercise.launch
            launches = [exercise.launch(*copies(cases[n].arguments)) for n in numbers]
            calls = [
                dict(kernel=exercise.function, grid=one.grid, block=one.block, arguments=one.arguments,
                     outputs=one.outputs, defines=dict(one.defines))
                for one in launches
            ]  # fmt: skip
        else:
            calls = [(cases[n].call or exercise.function, cases[n].arguments) for n in numbers]
        at_hand = {"numba": ("numba", "llvmlite"), "engine": ("autograd", "kernels")}
        allowed = (*exercise.allowed, *at_hand.get(exercise.kind, ()))
        seconds = COMPILING if exercise.kind == "cuda" or (exercise.kind == "numba" and not plain) else SECONDS
        limits = {"seconds": seconds, "megabytes": MEGABYTES} | self.limits
        return self.sandbox.run(exercise.kind, exercise.file, source, calls, plain=plain, allowed=allowed, **limits)

    def _stage(
        self, exercise: Exercise, source: str, numbers: list[int], plain: bool = False, compiled: bool = False
    ) -> Verdict:
        cases, wanted = self._inputs(exercise)
        outcome = self._run(exercise, source, numbers, plain)
        given = dict(zip(numbers, outcome.answers, strict=False))
        for place, n in enumerate(numbers):
            verdict = self._one(exercise, n, given, source, compiled) if n in given else ended(outcome, cases[n])
            if verdict is None:
                continue
            if place and n in given and not verdict.mistake:
                before = numbers[place - 1]
                same = _unmoved(given[before], given[n], wanted[before], wanted[n])
                verdict = replace(verdict, mistake=same)
            return replace(verdict, printed=_printed(outcome, place + 1), right=place, of=len(cases))
        return Verdict(True, printed=_printed(outcome, len(numbers)), right=len(cases), of=len(cases))

    def _one(
        self, exercise: Exercise, n: int, given: Mapping[int, Answer], source: str, compiled: bool
    ) -> Verdict | None:
        """The verdict on input n; None if it is passed."""
        case, wanted, answer = self._inputs(exercise)[0][n], self._inputs(exercise)[1][n], given[n]
        if answer.error:
            return raised(exercise, case, answer, source)
        if exercise.judged is not None:
            said = exercise.judged(case, normal(answer.result))
            return (
                Verdict(False, "wrong result", f"{shown_input(exercise, case)}\n{said[0]}", said[1]) if said else None
            )
        names = ", ".join(exercise.results) or ("result" if not case.call else case.call)
        found = difference(wanted, normal(answer.result), exercise.tolerance, names)
        if answer.race:
            text = f"{shown_input(exercise, case)}\n{answer.race}{quoted(exercise, answer, source)}"
            return Verdict(False, "race", text, RACE[exercise.kind])
        if found is None:
            if answer.changed:
                text = f"{shown_input(exercise, case)}\nThe numbers are right, but the function writes to its inputs."
                return Verdict(False, "changed inputs", text, "Work on a copy: the caller still needs what it gave.")
            if exercise.demands and answer.counters and (said := exercise.demands(case, answer.counters)):
                return Verdict(False, "demand not met", f"{shown_input(exercise, case)}\n{said}")
            return None
        if case.secret:
            text = f"{case.call} = {excerpt(answer.result)}\nThat is not it. All inputs are right now: what changed?"
            return Verdict(
                False, "wrong line", text, "Copy the faulty line as it stood in the file that you were given."
            )
        lines = [shown_input(exercise, case), *found.lines()]
        if exercise.forward is not None and found.what == "numbers":
            lines += by_differences(exercise, case, found)
        if compiled:
            lines.append("As plain Python this input was right; compiled it is not.")
        kind = {"numbers": "wrong numbers", "shape": "wrong shape"}.get(found.what, "wrong result")
        return Verdict(False, kind, "\n".join(lines), self._explained(exercise, n, wanted, found, given))

    def _explained(
        self, exercise: Exercise, n: int, wanted: Any, found: Difference, answers: Mapping[int, Answer]
    ) -> str:
        """The likely mistake: that of a known wrong answer with the same numbers, or one that shows in the numbers."""
        if exercise.kind != "cuda" and (tell := self._known_mistake(exercise, n, answers)):
            return tell
        if found.what == "kind":
            return ""
        others = dict(zip(exercise.results, wanted, strict=True)) if isinstance(wanted, tuple) else {}
        others.pop(found.name, None)
        return recognise(found.expected, found.got, named_arguments(exercise, self._inputs(exercise)[0][n]), others)

    def _known_mistake(self, exercise: Exercise, n: int, answers: Mapping[int, Answer]) -> str:
        """Among the known wrong answers that agree on input n, the one that agrees on the most inputs. It must explain
        two thirds of all wrong numbers: on one small input many mistakes look alike."""
        wanted, tolerance = self._inputs(exercise)[1], exercise.tolerance
        got = {m: normal(answer.result) for m, answer in answers.items() if not answer.error}
        wrong = {m for m, one in got.items() if difference(wanted[m], one, tolerance) and not _undefined(one)} | {n}
        best, most = "", 0
        for tell, theirs in self._known_answers(exercise):
            agree = {m for m in got if m in theirs and difference(theirs[m], got[m], tolerance) is None}
            if n in agree and len(agree) > most and 3 * len(agree & wrong) >= 2 * len(wrong):
                best, most = tell, len(agree)
        return best

    def _known_answers(self, exercise: Exercise) -> list[tuple[str, dict[int, Any]]]:
        """What the known wrong answers give, input by input."""
        if exercise.name not in self._known:
            small = [n for n, case in enumerate(self._inputs(exercise)[0]) if not case.large]
            known = []
            for wrong in exercise.wrong.values():
                if wrong.tell:
                    outcome = self._run(exercise, wrong.source(exercise.solution), small, plain=True)
                    pairs = zip(small, outcome.answers, strict=False)
                    known.append((wrong.tell, {n: normal(one.result) for n, one in pairs if not one.error}))
            self._known[exercise.name] = known
        return self._known[exercise.name]


def _undefined(value: Any) -> bool:
    """NaN somewhere: a second mistake hides what the first one would have given."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else [value]
    return any(isinstance(part, np.ndarray) and part.dtype.kind == "f" and bool(np.isnan(part).any()) for part in parts)


def _printed(outcome: Outcome, calls: int) -> str:
    return "".join(answer.printed for answer in outcome.answers[:calls])


def _unmoved(before: Answer, now: Answer, wanted_before: Any, wanted_now: Any) -> str:
    if now.error or difference(normal(before.result), normal(now.result), 0.0) is not None:
        return ""
    if difference(wanted_before, wanted_now, 0.0) is None:
        return ""
    return "The result is the same as for the input before: it does not depend on the input."
