"""Exercises that follow the lessons, with a judge that says what is wrong and why.

  exercise                 lists them, with your progress
  exercise start NAME      writes exercises/NAME.py (or .cu): the task, and a body to fill in
  exercise check NAME      judges it: the first input that fails, what was expected, the likely mistake
  exercise NAME            starts it, or checks it if you have begun
  exercise hint NAME       the next of three hints
  exercise solution NAME   a commented solution, after one try (or with --anyway)
  exercise next            proposes one
  exercise grade FOLDER    for teachers: judges a folder with a subfolder for each student, with answers like
                           STUDENT/NAME.py or STUDENT/exercises/NAME.py (attention_by_hand.py will do);
                           lists every student, and every file that was not judged, with the reason;
                           --due NAME,NAME,...: only these count, also where nothing was handed in
  exercise wrong NAME 3    for teachers: a wrong answer to show, by number, without comments; without a number:
                           how many there are, and which only test the judge; with --tell also the mistake

Your answers are never overwritten. CUDA exercises run in the emulator: they need g++, and no GPU. The judge runs an
answer in a process of its own with limits on time and memory; that keeps out accidents, not attackers, so grade
strangers' answers in a container. Exit codes: 0, also of `grade` whatever the marks; 1 if the answer that `check`
judges is not yet right; 2 if there is nothing to judge, or a name or a file is not right.

examples:
  minitransformer exercise start product
  minitransformer exercise check product
  minitransformer exercise grade submissions --csv marks.csv --due causal-mask,padding-mask
  minitransformer exercise --more my_exercises         with those of a folder of your own, two files each
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

import kernels
from lessons.exercises import catalogue, grading, projector
from lessons.exercises.exercise import Exercise
from lessons.exercises.judge import Judge
from lessons.exercises.progress import Progress
from lessons.exercises.sandbox import Sandbox
from lessons.exercises.verdict import NOT_ALLOWED, Verdict
from minitransformer.app.cli.namespace import options_of
from minitransformer.app.tables import table
from minitransformer.errors import FileError, UserError, one_line, system_error

SUMMARY = "exercises that follow the lessons, with a judge that explains"
LEVELS = {1: "easy", 2: "medium", 3: "hard"}


@dataclass(frozen=True)
class Options:
    action: str = "list"
    name: str | None = None
    number: int | None = None
    folder: str = "exercises"
    more: tuple[str, ...] = ()
    anyway: bool = False
    tell: bool = False
    csv: str | None = None
    due: str | None = None
    jobs: int | None = None
    track: str | None = None
    backend: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", default="list", metavar="ACTION", help="list, start, check, hint, ...")
    parser.add_argument("name", nargs="?", metavar="NAME", help="of the exercise; for grade: the folder")
    parser.add_argument("number", nargs="?", type=int, metavar="NUMBER", help="wrong: which of the wrong answers")
    parser.add_argument("--folder", metavar="DIR", help="where your answers are (default: exercises)")
    parser.add_argument("--track", metavar="TRACK", help="list or propose only those of one track")
    parser.add_argument("--anyway", action="store_true", help="show the solution without a try")
    parser.add_argument("--tell", action="store_true", help="wrong: name the mistake too")
    parser.add_argument("--csv", metavar="FILE", help="grade: write every verdict to this file")
    parser.add_argument("--due", metavar="NAMES", help="grade: the exercises that count, as in greedy,beam-search")
    parser.add_argument("--jobs", type=int, metavar="N", help="grade: judges at the same time (default: all cores)")
    help = "exercises of your own: a folder with NAME.py and NAME.toml for each; also $MINITRANSFORMER_EXERCISES"
    parser.add_argument("--more", action="append", metavar="DIR", help=help)
    help = "where the judge's own numbers come from (default: $MINITRANSFORMER_BACKEND, else numpy)"
    parser.add_argument("--backend", metavar="NAME", help=help)


def run(arguments: argparse.Namespace) -> int:
    options = options_of(Options, arguments)
    given = os.environ.get("MINITRANSFORMER_EXERCISES")
    more = [Path(folder) for folder in (*options.more, *(given.split(os.pathsep) if given else ()))]
    # The judge's own numbers are few and small: NumPy has them before a compiler would have started.
    with kernels.use(options.backend or os.environ.get("MINITRANSFORMER_BACKEND") or "numpy"):
        known = catalogue.exercises(more)
        if options.number is not None and options.action != "wrong":
            raise UserError(f"{options.number}: only `exercise wrong NAME NUMBER` takes a number")
        if options.action in ACTIONS:
            return ACTIONS[options.action](options, known)
        if options.name is not None or options.action not in {one.name for one in known}:
            actions = ", ".join(ACTIONS)
            raise UserError(f"{options.action!r} is neither an action ({actions}) nor an exercise; see `exercise list`")
        named = replace(options, name=options.action)
        begun = (Path(options.folder) / _asked(named, known).file).exists()
        return (check if begun else start)(named, known)


# ---------------------------------------------------------------------------------------------------- students


def list_all(options: Options, among: list[Exercise]) -> int:
    progress = Progress(Path(options.folder))
    chosen = _of_track(options, among)
    rows, before = [], None
    for one in chosen:
        rows.append((one.track if one.track != before else "", one.name, LEVELS.get(one.level, one.level), one.minutes,
                     progress[one.name].state(), one.title))  # fmt: skip
        before = one.track
    print(table(("track", "exercise", "level", "minutes", "you", "what"), rows, right=(3,)))
    passed = sum(bool(progress[one.name].passed) for one in chosen)
    print(f"\n{passed} of {len(chosen)} passed")
    if any(one.kind == "cuda" for one in chosen) and (missing := kernels.reasons()["emulated"]):
        print(f"the CUDA exercises cannot be judged here: {missing}")
    if (following := _following(chosen, progress)) is not None:
        print(f"next: minitransformer exercise start {following.name}")
    return 0


def start(options: Options, among: list[Exercise]) -> int:
    exercise = _asked(options, among)
    path = Path(options.folder) / exercise.file
    if path.exists():
        print(f"{path} is there already and was left as it is.")
    else:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(exercise.start)
        except OSError as error:
            raise system_error(path, "cannot be written", error, FileError) from None
        print(f"{path}: {exercise.title}, {LEVELS.get(exercise.level, exercise.level)}, {exercise.minutes} minutes.")
    if exercise.lesson:
        print(f"It belongs to lesson {exercise.lesson}.")
    print(f"Open it, read, fill in the body, then: minitransformer exercise check {exercise.name}")
    return 0


def check(options: Options, among: list[Exercise]) -> int:
    exercise = _asked(options, among)
    _need_compiler(exercise)
    path = Path(options.folder) / exercise.file
    try:
        source = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        advice = f"minitransformer exercise start {exercise.name}"
        raise FileError(path, "there is no such file", f"begin with: {advice}") from None
    except UnicodeDecodeError:
        raise FileError(path, "is not text in UTF-8", "save it as UTF-8") from None
    except OSError as error:
        raise system_error(path, "cannot be read", error, FileError) from None
    progress = Progress(Path(options.folder))
    if exercise.kind in ("numba", "cuda"):
        print(f"judging {path} (a compiler takes part: some seconds) ...", file=sys.stderr, flush=True)
    with Sandbox() as sandbox:
        verdict = Judge(sandbox).judge(exercise, source)
    if verdict.kind != "not begun":
        progress.tried(exercise.name, verdict.passed)
    print(report(exercise, verdict, progress[exercise.name].hints))
    if verdict.passed:
        print(f"compare with ours: minitransformer exercise solution {exercise.name}")
        if (following := _following(among, progress, exercise)) is not None:
            print(f"next: minitransformer exercise start {following.name}")
    return 0 if verdict.passed else 1


def report(exercise: Exercise, verdict: Verdict, hints: int = 0) -> str:
    """A verdict as a student reads it."""
    width = min(120, shutil.get_terminal_size((100, 24)).columns)
    if verdict.passed:
        lines = [f"{exercise.name}: right, on all {verdict.of} inputs."]
    else:
        first = "" if verdict.kind.startswith(NOT_ALLOWED) else "not yet right: "
        lines = [f"{exercise.name}: {first}{verdict.kind} ({verdict.reached})", ""]
        for line in verdict.text.splitlines():  # arrays and code stay as they are, sentences are wrapped
            sentence = len(line) > width - 2 and not line.startswith((" ", "expected", "got", "line "))
            lines += (
                textwrap.wrap(line, width, initial_indent="  ", subsequent_indent="  ") if sentence else [f"  {line}"]
            )
        if verdict.mistake:
            lines += ["", *textwrap.wrap(verdict.mistake, width, initial_indent="  → ", subsequent_indent="    ")]
    if verdict.printed.strip():
        printed = verdict.printed.rstrip().splitlines()[:12]
        lines += ["", "  your program printed:", *(f"    {one_line(line, width)}" for line in printed)]
    if not verdict.passed and hints < len(exercise.hints):
        lines += ["", f"a hint: minitransformer exercise hint {exercise.name}"]
    return "\n".join(lines)


def hint(options: Options, among: list[Exercise]) -> int:
    exercise = _asked(options, among)
    progress = Progress(Path(options.folder))
    given = progress[exercise.name].hints
    for number, text in enumerate(exercise.hints[: given + 1], start=1):
        print(f"hint {number} of {len(exercise.hints)}: {text}")
    if given >= len(exercise.hints):
        print(f"There are no more. The solution: minitransformer exercise solution {exercise.name}")
    else:
        progress.hinted(exercise.name)
    return 0


def solution(options: Options, among: list[Exercise]) -> int:
    exercise = _asked(options, among)
    progress = Progress(Path(options.folder))
    if not (progress[exercise.name].tries or options.anyway):
        raise UserError(f"first try it yourself (minitransformer exercise check {exercise.name}), or ask with --anyway")
    progress.shown(exercise.name)
    print(exercise.solution)
    return 0


def propose(options: Options, among: list[Exercise]) -> int:
    progress = Progress(Path(options.folder))
    following = _following(_of_track(options, among), progress)
    if following is None:
        print("All are passed.")
        return 0
    state = progress[following.name].state()
    print(f"{following.name} ({following.track}, {following.minutes} minutes): {following.title}")
    doing = "check" if state or (Path(options.folder) / following.file).exists() else "start"
    print(f"minitransformer exercise {doing} {following.name}")
    return 0


def grade(options: Options, among: list[Exercise]) -> int:
    if options.name is None:
        raise UserError("which folder? minitransformer exercise grade FOLDER, with a subfolder for each student")
    if options.jobs is not None and options.jobs < 1:
        raise UserError(f"--jobs {options.jobs}: at least 1 is needed")
    due = _due(options.due, among) if options.due is not None else ()
    target = Path(options.csv) if options.csv else None
    print(grading.grade(Path(options.name), among, target, options.jobs, due))
    return 0


def _due(text: str, among: list[Exercise]) -> list[Exercise]:
    names = dict.fromkeys(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise UserError(f"--due {text!r}: name the exercises that count, with commas between them")
    try:
        return list({one.name: one for one in (catalogue.named(name, among) for name in names)}.values())
    except UserError as error:
        raise UserError(f"--due: {error}") from None


def wrong(options: Options, among: list[Exercise]) -> int:
    """For the projector: the program alone, so that a class can look for the mistake."""
    exercise = _asked(options, among)
    answers = list(exercise.wrong.items())
    if options.number is None:
        print(f"{exercise.name} has the wrong answers 1 to {len(answers)}")
        tests = [number for number, (_, answer) in enumerate(answers, start=1) if not answer.projector]
        if options.tell:
            rows = [
                (number, mistake, "" if answer.projector else "only tests the judge")
                for number, (mistake, answer) in enumerate(answers, start=1)
            ]
            print(table(("number", "mistake", "remark"), rows, right=(0,)))
        elif tests:
            print(f"not for a projector, since they only test the judge: {', '.join(map(str, tests))}")
        first = next((number for number in range(1, len(answers) + 1) if number not in tests), 1)
        print(f"to see one: minitransformer exercise wrong {exercise.name} {first}")
        return 0
    if not 1 <= options.number <= len(answers):
        raise UserError(f"{exercise.name} has the wrong answers 1 to {len(answers)}, not {options.number}")
    mistake, answer = answers[options.number - 1]
    program = projector.shown(exercise, answer)
    print(program.rstrip())
    if options.tell:
        print(f"\n{mistake}: {answer.tell or _told(exercise, program)}")
    return 0


def _told(exercise: Exercise, program: str) -> str:
    """What the judge says of a wrong answer for which nobody wrote a sentence."""
    if exercise.kind == "cuda" and (missing := kernels.reasons()["emulated"]) is not None:
        return f"the judge would say more, but cannot run it here: {missing}"
    with Sandbox() as sandbox:
        verdict = Judge(sandbox).judge(exercise, program)
    if verdict.passed:
        return "the judge takes it for right"
    if verdict.mistake:
        return f"{verdict.mistake} ({verdict.kind}; {verdict.reached})"
    return f"the judge finds this ({verdict.kind}; {verdict.reached}):\n{textwrap.indent(verdict.text, '  ')}"


ACTIONS = {
    "list": list_all, "start": start, "check": check, "hint": hint, "solution": solution, "next": propose,
    "grade": grade, "wrong": wrong,
}  # fmt: skip


def _asked(options: Options, among: list[Exercise]) -> Exercise:
    if options.name is None:
        raise UserError(
            f"which one? minitransformer exercise {options.action} NAME; `minitransformer exercise` lists them"
        )
    return catalogue.named(options.name, among)


def _of_track(options: Options, among: list[Exercise]) -> list[Exercise]:
    chosen = [one for one in among if options.track in (None, one.track)]
    if not chosen:
        tracks = ", ".join(dict.fromkeys(one.track for one in among))
        raise UserError(f"no track is called {options.track!r}; there are: {tracks}")
    return chosen


def _following(among: list[Exercise], progress: Progress, after: Exercise | None = None) -> Exercise | None:
    """The first that is not passed: of the same lesson if possible, else of the same track, else of all."""
    left = [one for one in among if not progress[one.name].passed]
    if after is not None:  # sorting keeps the order among equals; an exercise of one's own may have no lesson
        left.sort(key=lambda one: (not after.lesson or one.lesson != after.lesson, one.track != after.track))
    return left[0] if left else None


def _need_compiler(exercise: Exercise) -> None:
    if exercise.kind == "cuda" and (missing := kernels.reasons()["emulated"]) is not None:
        raise UserError(f"{exercise.name} runs in the emulator, which cannot be used here: {missing}")
