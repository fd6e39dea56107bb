"""Run the lessons: scripts that put claims about transformers on trial, on the sound engine and on broken ones.

Each lesson runs in a process of its own. What it prints is kept in build/lessons/NAME.log beside its figures; the
claims go to build/claims.json, and a report to build/lessons.html. Exit code 1 if any lesson fails.

examples:
  minitransformer lessons                 all of them
  minitransformer lessons 01 05           those whose names start so
  minitransformer lessons --changed       those that have not passed since something changed
  minitransformer lessons --list
"""

import argparse
import os
import queue
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

from lessons.harness import claims, report
from lessons.harness.verdicts import claims_table, columns, printable, summary
from minitransformer.app.cli.main import add_backend
from minitransformer.app.progress import duration
from minitransformer.app.tables import table
from minitransformer.errors import UserError

SUMMARY = "run the lessons, each of which checks what it says"
SCRIPTS = Path(__file__).parents[1]
REPORT = Path("build/lessons.html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="*", help="lessons to run, by the beginning of their names (default: all)")
    parser.add_argument("--list", action="store_true", help="list the lessons and stop")
    parser.add_argument("--full", action="store_true", help="more seeds, larger sizes, real text where given")
    parser.add_argument("--data", metavar="DIR", help="folder with real text, used with --full")
    parser.add_argument("--changed", action="store_true", help="skip what has passed on the present sources")
    add_backend(parser)


def chosen_lessons(names: list[str]) -> list[Path]:
    """The scripts NN_name.py in order, or those whose names start with what was asked for."""
    scripts = sorted(SCRIPTS.glob("[0-9][0-9]_*.py"))
    if not scripts:
        raise UserError(f"no lessons in {SCRIPTS}; install from a clone of the project (pip install --editable .)")
    for name in names:
        if not any(script.stem.startswith(name) for script in scripts):
            raise UserError(f"no lesson is called {name!r}; there are: {', '.join(s.stem for s in scripts)}")
    return [script for script in scripts if not names or any(script.stem.startswith(n) for n in names)]


def run(arguments: argparse.Namespace) -> int:
    scripts = chosen_lessons(arguments.name)
    if arguments.list:
        print(table(("lesson", "subject"), [(script.stem, claims.title(script)) for script in scripts]))
        return 0
    if arguments.data is not None and not Path(arguments.data).is_dir():
        raise UserError(f"--data {arguments.data}: there is no such folder")
    arguments.data = str(Path(arguments.data).resolve()) if arguments.data else None
    try:
        claims.FOLDER.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {claims.FOLDER}: {error.strerror}; run where you may write") from None
    failed = []
    for number, script in enumerate(scripts, start=1):
        place = f"[{number}/{len(scripts)}] {script.stem}"
        if arguments.changed and claims.up_to_date(script, _backend(arguments), arguments.full, arguments.data):
            print(f"{place}: passed already on the present sources", flush=True)
        elif not _run_lesson(script, arguments, place):
            failed.append(script.stem)
    return _conclude([script.stem for script in scripts], failed)


def _conclude(names: list[str], failed: list[str]) -> int:
    """The verdicts of the lessons just run, on the terminal; those of all lessons, in the report."""
    try:
        record = claims.gather()
        report.write(REPORT, claims.lesson_records())
    except (claims.ClaimsError, OSError) as error:
        raise UserError(str(error)) from None
    tried = [claim for claim in record["claims"] if claim["lesson"] in names]
    print("\n" + printable(claims_table(tried, columns())))
    print("\n" + summary(tried))
    print(f"lessons passed: {len(names) - len(failed)} of {len(names)}")
    print(f"report: {REPORT}, figures and logs: {claims.FOLDER}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _backend(arguments: argparse.Namespace) -> str:
    import kernels

    return arguments.backend or kernels.current().name


def _run_lesson(script: Path, arguments: argparse.Namespace, place: str) -> bool:
    """Runs one script and keeps its log; True if it passed."""
    command = [sys.executable, "-u", str(script)]
    command += ["--full"] if arguments.full else []
    command += ["--data", arguments.data] if arguments.data else []
    command += ["--backend", arguments.backend] if arguments.backend else []
    claims.forget(script)  # whatever happens next, no older verdict may stand
    log = claims.FOLDER / f"{script.stem}.log"
    start = time.perf_counter()
    with (
        log.open("w", encoding="utf-8") as kept,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8", errors="replace",
            env={**os.environ, "PYTHONIOENCODING": "utf-8", "MPLBACKEND": "Agg"},
        ) as process,
    ):  # fmt: skip
        progress = _Progress(place, start)
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_pump, args=(process.stdout, lines), daemon=True).start()
        while True:
            try:
                line = lines.get(timeout=1.0)
            except queue.Empty:
                progress.tick()
                continue
            if line is None:
                break
            kept.write(line)
            progress.line(line.rstrip())
    good = process.returncode == 0
    progress.end(good)
    if not good:
        print(f"{script.name} failed (exit code {process.returncode}); the end of {log}:", file=sys.stderr)
        tail = log.read_text(encoding="utf-8").splitlines()[-15:]
        print(printable("\n".join(f"    {line}" for line in tail)), file=sys.stderr, flush=True)
    return good


def _pump(stream, lines: "queue.Queue[str | None]") -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


class _Progress:
    """One line a claim; on a terminal also the latest line and the seconds so far, which come and go."""

    def __init__(self, place: str, start: float):
        self.place, self.start, self.claim, self.latest = place, start, "", ""
        self.live = sys.stdout.isatty()
        print(f"{place}" if not self.live else "", end="\n" if not self.live else "", flush=True)
        self.tick()

    def tick(self) -> None:
        if self.live:
            text = f"{self.place} {duration(time.perf_counter() - self.start)}  {self.latest.strip()}"
            print(f"\r\033[K{printable(text[: columns() - 1])}", end="", flush=True)

    def line(self, text: str) -> None:
        if header := re.match(r"([a-z][a-z0-9-]*): \S", text):
            self.claim = header[1]
        if verdict := re.match(r"  (PROVED|REFUTED|SHARPENED|FAILED|MISSED)\b", text):
            self._say(f"    {self.claim}: {verdict[1].lower() if verdict[1][0] in 'PRS' else verdict[1]}")
        self.latest = text or self.latest
        self.tick()

    def end(self, good: bool) -> None:
        self._say(f"{self.place}: {'passed' if good else 'FAILED'}, {duration(time.perf_counter() - self.start)}")

    def _say(self, text: str) -> None:
        print(("\r\033[K" if self.live else "") + text[: columns()], flush=True)
