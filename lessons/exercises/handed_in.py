"""What a class has handed in: a folder for each student, with answers in it or in its `exercises/`, the folder that
`exercise start` makes. Nobody is left out, and of every file that is not judged it is known why."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from lessons.exercises.exercise import KINDS, Exercise
from minitransformer.errors import UserError

INSIDE = "exercises"  # where `exercise start` puts answers
OURS = ("progress.json", "__pycache__")  # what `exercise` and Python leave there


class Submission(NamedTuple):
    student: str
    exercise: Exercise
    path: Path


class Left(NamedTuple):
    """What is not judged: a file or a folder, by its path in the folder of the class."""

    student: str  # "" if it lies beside the students' folders
    path: str
    why: str


@dataclass
class HandedIn:
    students: list[str] = field(default_factory=list)
    answers: list[Submission] = field(default_factory=list)
    not_due: list[Submission] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)


def handed_in(
    folder: Path, among: Sequence[Exercise], due: Sequence[Exercise] = (), but: Path | None = None
) -> HandedIn:
    """All students, their answers in the order of the exercises, and what is left over.

    due  the exercises that count (default: all)
    but  a file that is none of the students' (the table of marks)"""
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; give one with a subfolder for each student")
    found = HandedIn()
    for one in _entries(folder):
        if one.is_dir():
            found.students.append(one.name)
            _student(found, one, among, due)
        elif but is None or one.resolve() != but.resolve():
            found.left.append(Left("", one.name, "it is in no student's folder"))
    expected = f"expected are files like {folder}/STUDENT/{(*due, *among)[0].file}, a folder a student"
    if not (found.answers or found.not_due):
        first = next((f"; not judged: {left.path}: {left.why}" for left in found.left), "")
        raise UserError(f"{folder}: no answers there; {expected}{first}")
    return found


def _student(found: HandedIn, folder: Path, among: Sequence[Exercise], due: Sequence[Exercise]) -> None:
    student, answers = folder.name, dict[str, list[Path]]()
    for path in _files(found, folder):
        exercise, why = _meant(path, among)
        if exercise is None:
            found.left.append(Left(student, _shown(path, folder), why))
        else:
            answers.setdefault(exercise.name, []).append(path)
    for exercise in among:
        # the name that `start` gave comes first, the student's own folder before `exercises/`
        paths = sorted(
            answers.get(exercise.name, []), key=lambda p: (p.parent != folder, p.name != exercise.file, p.name)
        )
        if due and exercise not in due:
            found.not_due += [Submission(student, exercise, path) for path in paths]
            continue
        found.answers += [Submission(student, exercise, path) for path in paths[:1]]
        for path in paths[1:]:
            same = "the same text" if _same(path, paths[0]) else f"a second answer to {exercise.name}"
            found.left.append(Left(student, _shown(path, folder), f"{same}; judged was {_shown(paths[0], folder)}"))


def _files(found: HandedIn, folder: Path) -> Iterator[Path]:
    """The files of a student's folder and of `exercises/` in it; other folders are not read, and that is said."""
    for path in _listed(found, folder, folder):
        if not path.is_dir():
            yield path
            continue
        for inner in _listed(found, folder, path) if path.name == INSIDE else [path]:
            if inner.is_dir():
                files = sum(one.is_file() for one in inner.rglob("*"))
                where = f"{folder.name}/ and {folder.name}/{INSIDE}/"
                why = f"a folder with {counted_as(files, 'file')}; answers are looked for in {where}"
                found.left.append(Left(folder.name, f"{_shown(inner, folder)}/", why))
            else:
                yield inner


def _listed(found: HandedIn, student: Path, folder: Path) -> list[Path]:
    try:
        return _entries(folder)
    except OSError as error:  # of one student: the others still get their marks
        why = f"it cannot be read: {error.strerror or error}"
        found.left.append(Left(student.name, f"{_shown(folder, student)}/", why))
        return []


def _entries(folder: Path) -> list[Path]:
    return sorted(one for one in folder.iterdir() if not one.name.startswith(".") and one.name not in OURS)


def _shown(path: Path, student: Path) -> str:
    return path.relative_to(student.parent).as_posix()


def _meant(path: Path, among: Sequence[Exercise]) -> tuple[Exercise | None, str]:
    """The exercise that a file answers, or why there is none. Capitals, underscores and blanks do no harm."""
    name = path.stem.lower().replace("_", "-").replace(" ", "-")
    for one in among:
        if name == one.name.lower():
            ending = KINDS[one.kind]
            return (one, "") if path.suffix.lower() == ending else (None, f"an answer to {one.name} is a {ending} file")
    if path.suffix.lower() not in KINDS.values():
        return None, f"no answer: those end in {' or '.join(sorted(set(KINDS.values()), reverse=True))}"
    names = [one.name for one in among]
    inside = sorted((one for one in names if one in name), key=len)[-1:]  # "greedy (1).py", "ada-greedy.py"
    near = inside or difflib.get_close_matches(name, names, n=1)
    return None, "no exercise has this name" + (f" (did you mean {near[0]}?)" if near else "")


def _same(a: Path, b: Path) -> bool:
    try:
        return a.read_bytes() == b.read_bytes()
    except OSError:
        return False


def counted_as(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
