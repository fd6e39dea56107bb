"""From an answer to a verdict that explains itself: the first input that fails, what was expected, what came, and the
likely mistake where it is recognised."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lessons.exercises.compare import SHOWN, Difference, difference, indented, normal, show
from lessons.exercises.exercise import Case, Exercise
from lessons.exercises.mistakes import recognise
from lessons.exercises.sandbox import MEGABYTES, SECONDS, Answer, Outcome, Sandbox
from minitransformer.errors import excerpt

COMPILING = 40  # seconds, where a compiler has its share in them
STEP = 1e-5  # of the central difference shown beside a wrong gradient: its error is near 1e-10


@dataclass(frozen=True)
class Verdict:
    """kind says in a word or two what is wrong ("" if nothing is); text explains; mistake is the likely cause."""

    passed: bool
    kind: str = ""
    text: str = ""
    mistake: str = ""
    printed: str = ""
    right: int = 0  # inputs that passed
    of: int = 0


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
        if (refused := _refused(exercise, source)) is not None:
            return replace(refused, of=len(cases))
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
                normal(exercise.expected(*_copies(c.arguments)) if c.expected is None else c.expected) for c in cases
            ]
            self._cases[exercise.name] = cases, wanted
        return self._cases[exercise.name]

    def _run(self, exercise: Exercise, source: str, numbers: list[int], plain: bool = False) -> Outcome:
        cases, _ = self._inputs(exercise)
        calls: list[Any]
        if exercise.kind == "cuda":
            assert exercise.launch
            launches = [exercise.launch(*_copies(cases[n].arguments)) for n in numbers]
            calls = [
                dict(kernel=exercise.function, grid=one.grid, block=one.block, arguments=one.arguments,
                     outputs=one.outputs, defines=dict(one.defines))
                for one in launches
            ]  # fmt: skip
        else:
            calls = [(cases[n].call or exercise.function, cases[n].arguments) for n in numbers]
        allowed = (*exercise.allowed, *(("numba", "llvmlite") if exercise.kind == "numba" else ()))
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
            verdict = self._one(exercise, n, given, source, compiled) if n in given else _ended(outcome, cases[n])
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
            return _raised(exercise, case, answer, source)
        names = ", ".join(exercise.results) or ("result" if not case.call else case.call)
        found = difference(wanted, normal(answer.result), exercise.tolerance, names)
        if answer.race:
            text = f"{_input(exercise, case)}\n{answer.race}{_quoted(exercise, answer, source)}"
            return Verdict(False, "race", text, _RACE[exercise.kind])
        if found is None:
            if answer.changed:
                text = f"{_input(exercise, case)}\nThe numbers are right, but the function writes to its inputs."
                return Verdict(False, "changed inputs", text, "Work on a copy: the caller still needs what it gave.")
            if exercise.demands and answer.counters and (said := exercise.demands(case, answer.counters)):
                return Verdict(False, "traffic", f"{_input(exercise, case)}\n{said}")
            return None
        if case.secret:
            text = f"{case.call} = {excerpt(answer.result)}\nThat is not it. All inputs are right now: what changed?"
            return Verdict(
                False, "wrong line", text, "Copy the faulty line as it stood in the file that you were given."
            )
        lines = [_input(exercise, case), *found.lines()]
        if exercise.forward is not None and found.what == "numbers":
            lines += _numeric(exercise, case, found)
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
        return recognise(found.expected, found.got, _named(exercise, self._inputs(exercise)[0][n]), others)

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


_RACE = {
    "numba": "Threads run the iterations of a prange at the same time: each must own the elements that it writes.",
    "cuda": "Threads run in any order: what one of them needs from another must be separated by a barrier.",
}


def _copies(arguments: tuple) -> tuple:
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)


def _named(exercise: Exercise, case: Case) -> Mapping[str, Any]:
    return dict(zip(exercise.parameters, case.arguments, strict=False)) if not case.call else {}


def _input(exercise: Exercise, case: Case) -> str:
    """The input in words, its sizes, and its numbers if they are few."""
    given = _named(exercise, case)
    sizes = ", ".join(
        f"{name} {np.shape(v)}" if np.ndim(v) else f"{name}={v:.6g}" if isinstance(v, float) else f"{name}={v}"
        for name, v in given.items()
    )
    lines = [f"input     {case.label}" + (f": {sizes}" if sizes else "")]
    if sum(np.size(value) for value in given.values()) <= 2 * SHOWN:
        for name, value in given.items():
            if np.ndim(value):
                lines += indented(f"          {name} = ", show(value))
    return "\n".join(lines)


def _numeric(exercise: Exercise, case: Case, found: Difference) -> list[str]:
    """The derivative at the wrong entry by differences of the forward function: no rule has to be believed."""
    from autograd import Tensor, no_grad

    assert exercise.forward
    dy, *inputs = _copies(case.arguments)
    index = list(exercise.results).index(found.name) if found.name in exercise.results else 0
    values = []
    with no_grad():
        for step in (STEP, -STEP):
            moved = [one.copy() for one in inputs]
            moved[index][found.place] += step
            values.append(float((exercise.forward(*map(Tensor, moved)).numpy() * dy).sum()))
    return [f"by differences of the forward function, without any rule: {(values[0] - values[1]) / (2 * STEP):.6g}"]


_NOT_THE_TASK = "The task is to write the function, not to call one that has it."


def _refused(exercise: Exercise, source: str) -> Verdict | None:
    """What can be seen before anything runs: calls of the very function that is to be written, foreign includes."""
    cuda = exercise.kind == "cuda"
    bare = re.sub(r"//[^\n]*|/\*.*?\*/" if cuda else r"#[^\n]*", "", source, flags=re.DOTALL)
    for number, line in enumerate(bare.splitlines(), start=1):
        for name in exercise.forbidden:
            if re.search(rf"(?<![\w]){re.escape(name)}\s*\(", line) and not re.search(r"__device__|\bdef ", line):
                return Verdict(
                    False, "engine", f"line {number}: {line.strip()}\n{name} is the task itself.", _NOT_THE_TASK
                )
        include = re.match(r"\s*#\s*include\s*(\S+)", line) if cuda else None
        if include and include[1] != '"common.cuh"':
            text = f"line {number}: {line.strip()}\nonly common.cuh is at hand in this exercise."
            return Verdict(False, "engine", text, _NOT_THE_TASK)
    return None


def _raised(exercise: Exercise, case: Case, answer: Answer, source: str) -> Verdict:
    where = f"line {answer.line}: {answer.code}\n" if answer.line else ""
    start = "" if answer.before else f"{_input(exercise, case)}\n"
    if answer.error == "NotImplementedError":
        return Verdict(False, "not begun", "The body is still to be written.")
    if answer.error == "no value":
        return Verdict(False, "wrong result", f"{start}got       {answer.text}\nNumbers, arrays or text are expected.")
    if "is not at hand in this exercise" in answer.text:
        text = f"{where}{answer.text}: NumPy and Python's own library are."
        if exercise.kind == "numba":
            text = text.replace("NumPy", "NumPy, Numba")
        return Verdict(False, "engine", text, _NOT_THE_TASK)
    if answer.error in ("PermissionError",):
        return Verdict(False, "fence", f"{where}{answer.text}", "A function computes from its inputs alone.")
    if answer.error == "MemoryError":
        return Verdict(
            False, "memory", f"{start}{where}The answer needs more memory than it may have ({MEGABYTES} MB)."
        )
    if exercise.kind == "cuda":
        text = answer.text + _quoted(exercise, answer, source)
        mistake = _CUDA.get(answer.error, "")
        if answer.error == "CompilerError":
            return Verdict(False, "does not compile", re.sub(r"^.*?cannot compile .*?: (?=\S+\.cu)", "", text))
        if answer.error == "race" and "another block" in text:
            mistake = "Blocks run in any order, and no barrier holds them all: each must own what it writes."
        return Verdict(False, answer.error, f"{start}{text}", mistake)
    if answer.error == "SystemExit":
        return Verdict(False, "exit", f"{start}{where}The answer ends the program instead of returning a result.")
    said = f"{answer.error}: {answer.text}" if answer.text else answer.error
    return Verdict(False, "error", f"{start}{where}{said}", _PYTHON.get(answer.error, ""))


def _quoted(exercise: Exercise, answer: Answer, source: str) -> str:
    """The student's own lines that the emulator, the compiler or the watch over a prange names."""
    lines = source.splitlines()
    named = re.findall(rf"{re.escape(exercise.file)}:(\d+)", " ".join([answer.text, *answer.lines]))
    named += re.findall(r"in line (\d+)", answer.race)
    numbers = sorted({int(number) for number in named if 0 < int(number) <= len(lines)})
    return "".join(f"\nline {number}: {lines[number - 1].strip()}" for number in numbers)


_CUDA = {
    "race": _RACE["cuda"],
    "divergent barrier": "Every thread of a block must reach the same __syncthreads: take it out of the branch.",
    "missing lane": "Every lane must take part in a shuffle: none may have left, none may stand in another branch.",
    "out of bounds": "An index leaves its array. Where there are more threads than work, test the index first.",
    "uninitialised read": "Shared memory is read before it was written: a barrier, or a part of it, is missing.",
    "write to const": "An input is written to.",
    "LaunchError": "Keep the name and the parameters of the kernel as they are in the file that you were given.",
}
_PYTHON = {
    "IndexError": "An index leaves its array: compiled, nobody would tell you.",
    "AttributeError": "",
    "RecursionError": "The function calls itself without end.",
}


def _ended(outcome: Outcome, case: Case) -> Verdict:
    text = f"input     {case.label}\n"
    if outcome.end == "time":
        return Verdict(False, "time", f"{text}{outcome.reason}.", "Is there a loop that never ends?")
    if outcome.end == "exit":
        reason = f"The program ended by itself ({outcome.reason}) before it returned a result."
        return Verdict(False, "exit", text + reason, "Return the result; do not leave the program.")
    return Verdict(False, "crash", f"{text}{outcome.reason}.")
