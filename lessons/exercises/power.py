"""How good is the judge? Every right answer and every wrong answer of every exercise, judged.

python -m lessons.exercises.power [--more FOLDER] [NAME ...]    the table; exit code 1 if the judge is wrong somewhere
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import kernels
from lessons.exercises import catalogue
from lessons.exercises.exercise import Exercise
from lessons.exercises.judge import Judge
from lessons.exercises.sandbox import Sandbox
from lessons.exercises.verdict import Verdict
from minitransformer.app.progress import counted
from minitransformer.app.tables import table

RECORD = Path("build/exercise_power.json")


@dataclass(frozen=True)
class Power:
    """What the judge made of one exercise's answers."""

    name: str
    track: str
    rejected: int
    wrong: int
    accepted: int
    right: int
    faults: list[str] = field(default_factory=list)  # what the judge got wrong, or explained differently

    @property
    def sound(self) -> bool:
        return not self.faults


def explained(exercise: Exercise, name: str, verdict: Verdict) -> str:
    """What is not as it should be about the verdict on a wrong answer; "" if all is well."""
    wrong = exercise.wrong[name]
    if verdict.passed:
        return f"{exercise.name}: the wrong answer {name!r} gets through"
    wanted = wrong.tell or wrong.says
    if wanted not in f"{verdict.text} {verdict.mistake}":
        return f"{exercise.name}: {name!r} is explained by {verdict.mistake or verdict.text!r}, not by {wanted!r}"
    return ""


def right_answers(exercise: Exercise) -> dict[str, str]:
    return {"solution": exercise.solution, "another": exercise.another}


def measured(exercise: Exercise, judge: Judge) -> Power:
    faults = []
    accepted = 0
    for name, source in right_answers(exercise).items():
        verdict = judge.judge(exercise, source)
        accepted += verdict.passed
        if not verdict.passed:
            faults.append(f"{exercise.name}: the right answer {name!r} is rejected: {verdict.text} {verdict.mistake}")
    rejected = 0
    for name, wrong in exercise.wrong.items():
        verdict = judge.judge(exercise, wrong.source(exercise.solution))
        rejected += not verdict.passed
        if fault := explained(exercise, name, verdict):
            faults.append(fault)
    return Power(exercise.name, exercise.track, rejected, len(exercise.wrong), accepted, 2, faults)


def runnable(among: Sequence[Exercise]) -> list[Exercise]:
    """Those that can be judged here: CUDA needs a compiler."""
    missing = kernels.reasons()["emulated"]
    return [one for one in among if one.kind != "cuda" or missing is None]


def measure(among: Sequence[Exercise]) -> list[Power]:
    with Sandbox() as sandbox, kernels.use("numpy"):
        judge = Judge(sandbox)
        return [measured(exercise, judge) for exercise in counted(runnable(among), "exercises measured")]


def recorded() -> list[Power]:
    """The table for all exercises of the project, measured again only if one of their files has changed."""
    files = sorted(file for ending in ("py", "toml") for file in catalogue.FOLDER.rglob(f"*.{ending}"))
    key = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    if RECORD.is_file():
        kept = json.loads(RECORD.read_text(encoding="utf-8"))
        if kept["key"] == key:
            return [Power(**fields) for fields in kept["power"]]
    found = measure(catalogue.ours())
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps({"key": key, "power": [asdict(one) for one in found]}, indent=1), encoding="utf-8")
    return found


def lines(found: Sequence[Power]) -> list[tuple[str, str, str, str]]:
    """(exercise, track, wrong answers rejected, right ones accepted), and their sums."""
    rows = [(one.name, one.track, f"{one.rejected} of {one.wrong}", f"{one.accepted} of {one.right}") for one in found]
    sums = [sum(getattr(one, name) for one in found) for name in ("rejected", "wrong", "accepted", "right")]
    return [*rows, ("all", "", f"{sums[0]} of {sums[1]}", f"{sums[2]} of {sums[3]}")]


HEADER = ("exercise", "track", "wrong answers rejected", "right ones accepted")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", help="exercises (default: all)")
    parser.add_argument("--more", action="append", default=[], type=Path, metavar="FOLDER")
    given = parser.parse_args(arguments)
    known = catalogue.exercises(given.more)
    found = measure([catalogue.named(name, known) for name in given.name] or known)
    print(table(HEADER, lines(found), right=(2, 3)))
    for one in found:
        for fault in one.faults:
            print(fault, file=sys.stderr)
    return 0 if all(one.sound for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
