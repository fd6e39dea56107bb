"""What a student is told: the input, what went wrong with it, and what can be said before any number is compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lessons.exercises.compare import SHOWN, Difference, indented, is_list, show
from lessons.exercises.exercise import Case, Exercise
from lessons.exercises.sandbox import MEGABYTES, Answer, Outcome

STEP = 1e-5  # of the central difference shown beside a wrong gradient: its error is near 1e-10


@dataclass(frozen=True)
class Verdict:
    """kind says in a word or two what is wrong ("" if nothing is); text explains; mistake is the likely cause."""

    passed: bool
    kind: str = ""
    text: str = ""
    mistake: str = ""
    printed: str = ""
    right: int = 0  # inputs that passed before the first that did not; later ones may be right, too
    of: int = 0

    @property
    def reached(self) -> str:
        return f"{self.right} of {self.of} inputs pass before the first that fails"


RACE = {
    "numba": "Threads run the iterations of a prange at the same time: each must own the elements that it writes.",
    "cuda": "Threads run in any order: what one of them needs from another must be separated by a barrier.",
}


def copies(arguments: tuple) -> tuple:
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)


def named_arguments(exercise: Exercise, case: Case) -> Mapping[str, Any]:
    return dict(zip(exercise.parameters, case.arguments, strict=False)) if not case.call else {}


def _size(value: Any) -> str:
    if is_list(value):
        return f" (a list of {len(value)})"
    if np.ndim(value):
        return f" {np.shape(value)}"
    return f"={value:.6g}" if isinstance(value, float) else f"={value}"


def shown_input(exercise: Exercise, case: Case) -> str:
    """The input in words, its sizes, and its numbers if they are few."""
    given, parts = named_arguments(exercise, case), dict[str, Any]()
    for name, value in given.items():
        each = isinstance(value, dict) and all(isinstance(one, np.ndarray) for one in value.values())
        parts |= {f"{name}[{key!r}]": one for key, one in value.items()} if each else {name: value}
    sizes = ", ".join(f"{name}{_size(value)}" for name, value in parts.items())
    lines = [f"input     {case.label}" + (f": {sizes}" if sizes else "")]
    if sum(np.size(value) for value in given.values()) <= 2 * SHOWN:
        for name, value in given.items():
            if is_list(value) or np.ndim(value):
                lines += indented(f"          {name} = ", show(value))
    return "\n".join(lines)


def by_differences(exercise: Exercise, case: Case, found: Difference) -> list[str]:
    """The derivative at the wrong entry by differences of the forward function: no rule has to be believed."""
    from autograd import Tensor, no_grad

    assert exercise.forward
    dy, *inputs = copies(case.arguments)
    index = list(exercise.results).index(found.name) if found.name in exercise.results else 0
    values = []
    with no_grad():
        for step in (STEP, -STEP):
            moved = [one.copy() for one in inputs]
            moved[index][found.place] += step
            values.append(float((exercise.forward(*map(Tensor, moved)).numpy() * dy).sum()))
    return [f"by differences of the forward function, without any rule: {(values[0] - values[1]) / (2 * STEP):.6g}"]


NOT_ALLOWED = "not allowed: "  # what follows is neither a mistake nor a crash: the answer was stopped, or never run
_NOT_THE_TASK = "The task is to write the function, not to call one that has it."
# how the fence of worker.py ends its sentence → what the answer does
_FENCE = {
    "no other programs here": "calls the system",
    "no network here": "uses the network",
    "cannot be read here": "reads files of the system",
    "only the folder of this run can": "writes files elsewhere",
    "only in the folder of this run": "changes files elsewhere",
}


def refused(exercise: Exercise, source: str) -> Verdict | None:
    """What can be seen before anything runs: calls of the very function that is to be written, foreign includes."""
    cuda = exercise.kind == "cuda"
    bare = re.sub(r"//[^\n]*|/\*.*?\*/" if cuda else r"#[^\n]*", "", source, flags=re.DOTALL)
    for number, line in enumerate(bare.splitlines(), start=1):
        for name in exercise.forbidden:
            if re.search(rf"(?<![\w]){re.escape(name)}\s*\(", line) and not re.search(r"__device__|\bdef ", line):
                text = f"line {number}: {line.strip()}\n{name} is the task itself."
                return Verdict(False, f"{NOT_ALLOWED}calls {name}", text, _NOT_THE_TASK)
        include = re.match(r"\s*#\s*include\s*(\S+)", line) if cuda else None
        if include and include[1] != '"common.cuh"':
            text = f"line {number}: {line.strip()}\nonly common.cuh is at hand in this exercise."
            return Verdict(False, f"{NOT_ALLOWED}includes {include[1]}", text, _NOT_THE_TASK)
    return None


def raised(exercise: Exercise, case: Case, answer: Answer, source: str) -> Verdict:
    where = f"line {answer.line}: {answer.code}\n" if answer.line else ""
    start = "" if answer.before else f"{shown_input(exercise, case)}\n"
    if answer.error == "NotImplementedError":
        return Verdict(False, "not begun", "The body is still to be written.")
    if answer.error == "no value":
        return Verdict(False, "wrong result", f"{start}got       {answer.text}\nNumbers, arrays or text are expected.")
    what, found, _ = answer.text.partition(" is not at hand in this exercise")
    if found:
        text = f"{where}{answer.text}: NumPy and Python's own library are."
        more = {"numba": "Numba", "engine": "autograd"}.get(exercise.kind)
        if more:
            text = text.replace("NumPy", f"NumPy, {more}")
        package = what.partition(".")[0]
        does = "reads files of the project" if answer.error == "PermissionError" else f"imports {package}"
        return Verdict(False, NOT_ALLOWED + does, text, _NOT_THE_TASK)
    does = next((does for end, does in _FENCE.items() if answer.text.endswith(end)), "")
    if answer.error == "PermissionError" and does:
        return Verdict(False, NOT_ALLOWED + does, where + answer.text, "A function computes from its inputs alone.")
    if answer.error == "MemoryError":
        text = f"{start}{where}The answer needs more memory than it may have ({MEGABYTES} MB)."
        return Verdict(False, "too much memory", text)
    if exercise.kind == "cuda":
        text = answer.text + quoted(exercise, answer, source)
        mistake = _CUDA.get(answer.error, "")
        if answer.error == "CompilerError":
            return Verdict(False, "does not compile", re.sub(r"^.*?cannot compile .*?: (?=\S+\.cu)", "", text))
        if answer.error == "race" and "another block" in text:
            mistake = "Blocks run in any order, and no barrier holds them all: each must own what it writes."
        return Verdict(False, answer.error if mistake else f"error: {answer.error}", f"{start}{text}", mistake)
    if answer.error == "SystemExit":
        return Verdict(
            False, "leaves the program", f"{start}{where}The answer ends the program instead of returning a result."
        )
    said = f"{answer.error}: {answer.text}" if answer.text else answer.error
    return Verdict(
        False,
        f"error: {answer.error}",
        f"{start}{where}{said}",
        (_PYTHON | (_NUMBA if exercise.kind == "numba" else {})).get(answer.error, ""),
    )


def quoted(exercise: Exercise, answer: Answer, source: str) -> str:
    """The student's own lines that the emulator, the compiler or the watch over a prange names."""
    lines = source.splitlines()
    named = re.findall(rf"{re.escape(exercise.file)}:(\d+)", " ".join([answer.text, *answer.lines]))
    named += re.findall(r"in line (\d+)", answer.race)
    numbers = sorted({int(number) for number in named if 0 < int(number) <= len(lines)})
    return "".join(f"\nline {number}: {lines[number - 1].strip()}" for number in numbers)


_CUDA = {
    "race": RACE["cuda"],
    "divergent barrier": "Every thread of a block must reach the same __syncthreads: take it out of the branch.",
    "missing lane": "Every lane must take part in a shuffle: none may have left, none may stand in another branch.",
    "out of bounds": "An index leaves its array. Where there are more threads than work, test the index first.",
    "uninitialised read": "Shared memory is read before it was written: a barrier, or a part of it, is missing.",
    "write to const": "An input is written to.",
    "LaunchError": "Keep the name and the parameters of the kernel as they are in the file that you were given.",
}
_PYTHON = {"RecursionError": "The function calls itself without end."}
_NUMBA = {"IndexError": "An index leaves its array: compiled, nobody would tell you."}


def ended(outcome: Outcome, case: Case) -> Verdict:
    text = f"input     {case.label}\n"
    if outcome.end == "time":
        return Verdict(
            False, "too slow", f"{text}{outcome.reason}.", "Is there a loop that never ends, or one of too many rounds?"
        )
    if outcome.end == "exit":
        reason = f"The program ended by itself ({outcome.reason}) before it returned a result."
        return Verdict(False, "leaves the program", text + reason, "Return the result; do not leave the program.")
    return Verdict(False, "crash", f"{text}{outcome.reason}.")
