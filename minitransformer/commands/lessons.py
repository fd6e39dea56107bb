"""Run the lessons: scripts that explain a piece of a transformer and check, against the engine, what they say.

Each lesson runs in a process of its own; what it prints is kept in build/lessons/NAME.log beside its figures. Exit code
1 if any lesson fails.

examples:
  minitransformer lessons                 all of them
  minitransformer lessons 01              those whose name starts so
  minitransformer lessons --list
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from minitransformer.cli import UserError, add_backend
from minitransformer.tables import table

FOLDER = Path(__file__).parents[2] / "lessons"
LOGS = Path("build/lessons")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="*", help="lessons to run, by the beginning of their names (default: all)")
    parser.add_argument("--list", action="store_true", help="list the lessons and stop")
    parser.add_argument("--full", action="store_true", help="more seeds and larger sizes")
    add_backend(parser)


def chosen_lessons(names: list[str]) -> list[Path]:
    """The scripts NN_name.py in order, or those whose names start with what was asked for."""
    scripts = sorted(FOLDER.glob("[0-9][0-9]_*.py"))
    if not scripts:
        raise UserError(f"no lessons in {FOLDER}; install from a clone of the project (pip install --editable .)")
    for name in names:
        if not any(script.stem.startswith(name) for script in scripts):
            raise UserError(f"no lesson is called {name!r}; there are: {', '.join(s.stem for s in scripts)}")
    return [script for script in scripts if not names or any(script.stem.startswith(n) for n in names)]


def title(script: Path) -> str:
    """The first Markdown heading of a lesson."""
    for line in script.read_text(encoding="utf-8").splitlines():
        if line.startswith("# # "):
            return line.removeprefix("# # ").partition(". ")[2] or line.removeprefix("# # ")
    return script.stem


def run(arguments: argparse.Namespace) -> int:
    scripts = chosen_lessons(arguments.name)
    if arguments.list:
        print(table(("lesson", "subject"), [(script.stem, title(script)) for script in scripts]))
        return 0
    try:
        LOGS.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {LOGS}: {error.strerror}; run from a folder you may write to") from None
    rows, failed = [], 0
    for script in scripts:
        start = time.perf_counter()
        code, log = _run_lesson(script, arguments)
        failed += code != 0
        seconds = f"{time.perf_counter() - start:.0f} s"
        rows.append((script.stem, title(script), seconds, "checked" if code == 0 else "FAILED"))
        if code != 0:
            print(f"\n{script.name} failed; the end of {log}:", file=sys.stderr)
            print("\n".join(log.read_text(errors="replace").splitlines()[-15:]), file=sys.stderr)
    print("\n" + table(("lesson", "subject", "time", "verdict"), rows, right=(2,)))
    print(f"\nfigures and logs: {LOGS}")
    return 1 if failed else 0


def _run_lesson(script: Path, arguments: argparse.Namespace) -> tuple[int, Path]:
    """Runs one script, showing its latest line on a terminal and keeping all of them in a log."""
    command = [sys.executable, "-u", str(script)]
    command += ["--full"] if arguments.full else []
    command += ["--backend", arguments.backend] if arguments.backend else []
    log = LOGS / f"{script.stem}.log"
    live = sys.stdout.isatty()
    width = os.get_terminal_size().columns if live else 0
    print(f"{script.stem} ...", end="" if live else "\n", flush=True)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with (
        log.open("w") as kept,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            kept.write(line)
            if live:
                print(f"\r\033[K{script.stem}: {line.rstrip()}"[: width + 3], end="", flush=True)
            else:
                print(f"    {line}", end="", flush=True)
    if live:
        print(f"\r\033[K{script.stem}: {'checked' if process.returncode == 0 else 'FAILED'}", flush=True)
    return process.returncode, log
