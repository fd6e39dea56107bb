"""The trainings behind the results: each one is a command that anyone can type, of `minitransformer` or, where it needs
what only the results use, of `python -m lessons.results.train`.

  python -m lessons.results.runs                         which experiments there are, and what each has done so far
  python -m lessons.results.runs transfer-lab            trains what is missing of one, and goes on where it was stopped
  python -m lessons.results.runs transfer-lab --commands     only shows its commands

Every run has a folder of its own in runs/, with its metrics; `done.json` is written there when it has come to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lessons.results.record_files import environment
from minitransformer.app.cli.main import orderly
from minitransformer.app.training.checkpoints.files import replacing
from minitransformer.app.training.metrics import read_metrics
from minitransformer.errors import UserError

DONE = "done.json"


@dataclass(frozen=True)
class Run:
    """A training, by the words of its command; {data} and {runs} stand for the folders of texts and of runs."""

    name: str  # of its folder
    command: str
    measured: Mapping[str, str] | None = None  # name → a command that prints JSON about the finished run
    keep: bool = False  # the weights, once it was measured: others start from them
    module: str = "minitransformer"  # whose commands these are

    def training(self, places: Mapping[str, str]) -> list[str]:
        return [*_filled(self.command, places), "--out", os.path.join(places["runs"], self.name)]

    def measuring(self, places: Mapping[str, str]) -> dict[str, list[str]]:
        model = ["--model", os.path.join(places["runs"], self.name), "--json"]
        return {name: _filled(command, places) + model for name, command in (self.measured or {}).items()}

    def folder(self, places: Mapping[str, str]) -> Path:
        return Path(places["runs"], self.name)

    def done(self, places: Mapping[str, str]) -> bool:
        return (self.folder(places) / DONE).exists()


def _filled(command: str, places: Mapping[str, str]) -> list[str]:
    return [word.format_map(places) for word in command.split()]


# ---------------------------------------------------------------------------------------------------- one run


def train(run: Run, places: Mapping[str, str]) -> None:
    """Trains, measures and notes the end; a run that was stopped goes on, one that is done is left alone."""
    folder = run.folder(places)
    if run.done(places):
        return
    begun = folder.is_dir() and any(folder.glob("step-*.json"))
    _call(run, run.training(places) + ["--resume"] * begun)
    found = {name: json.loads(_call(run, command, read=True)) for name, command in run.measuring(places).items()}
    note = {"command": shown(run, run.training(places)), **environment()}
    note |= {"measured": {name: next(iter(values.values())) for name, values in found.items()}}
    with replacing(folder / DONE) as file:
        file.write(json.dumps(note, indent=2).encode())
    if not run.keep:
        for weights in (*folder.glob("step-*.safetensors"), *folder.glob("step-*.json")):
            weights.unlink()


def shown(run: Run, command: Sequence[str]) -> str:
    """As it is typed."""
    program = ["minitransformer"] if run.module == "minitransformer" else ["python", "-m", run.module]
    return shlex.join([*program, *command])


def _call(run: Run, command: list[str], read: bool = False) -> str:
    print(f"\n$ {shown(run, command)}", flush=True)
    # Ctrl-C reaches the command too: it saves, says how to go on, and ends by itself
    process = subprocess.Popen(
        [sys.executable, "-m", run.module, *command], stdout=subprocess.PIPE if read else None, text=True
    )
    while True:
        try:
            out, _ = process.communicate()
            break
        except KeyboardInterrupt:
            continue
    if process.returncode in (130, 143):
        raise KeyboardInterrupt
    if process.returncode:
        raise UserError(f"this command failed, see above: {shown(run, command)}")
    return out or ""


def metrics(run: Run, places: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    """The lines of metrics.jsonl by their kind, "train" or "evaluation"."""
    lines = read_metrics(run.folder(places) / "metrics.jsonl")
    return {kind: [line for line in lines if line.get("kind") == kind] for kind in ("train", "evaluation")}


def note_of(run: Run, places: Mapping[str, str]) -> dict[str, Any]:
    """What was noted at the end of a run."""
    try:
        return json.loads((run.folder(places) / DONE).read_text())
    except (OSError, ValueError):
        raise UserError(f"{run.folder(places)}: not trained yet; python -m lessons.results.runs does it") from None


def about(runs: Sequence[Run], places: Mapping[str, str]) -> dict[str, Any]:
    """How these were trained, for a record: the first one's command, machine and versions."""
    note = note_of(runs[0], places)
    return {name: note[name] for name in ("command", "machine", "backend", "versions")}


# ---------------------------------------------------------------------------------------------------- command line


def add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", default="data", metavar="DIR", help="texts (default: data)")
    parser.add_argument("--runs", default="runs", metavar="DIR", help="trained models (default: runs)")


def run_script(name: str, about: str | None, work: Callable[[str], Any], arguments: Sequence[str] | None) -> int:
    """The command line of a script that only asks where things are; `work` gets the folder of runs."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_places(parser)
    options = parser.parse_args(arguments)

    def run() -> int:
        work(options.runs)
        return 0

    return orderly(name, run)


def write_groups(runs: str, name: str, script: str, groups: Mapping[str, Any]) -> None:
    """RUNS/NAME/done.json: what a script found, and on which machine."""
    done = Path(runs, name, DONE)
    done.parent.mkdir(parents=True, exist_ok=True)
    note = {"command": f"python -m lessons.results.{script}", **environment(), "groups": groups}
    with replacing(done) as file:
        file.write(json.dumps(note).encode())


def main(arguments: Sequence[str] | None = None) -> int:
    from lessons.results.experiments import EXPERIMENTS

    parser = argparse.ArgumentParser(
        prog="runs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="EXPERIMENT", help="what to train")
    parser.add_argument("--commands", action="store_true", help="show the commands, train nothing")
    add_places(parser)
    options = parser.parse_args(arguments)
    return orderly("runs", lambda: _main(options, EXPERIMENTS))


def _main(options: argparse.Namespace, experiments: Mapping[str, Sequence[Run]]) -> int:
    places = {"data": options.data, "runs": options.runs}
    unknown = [name for name in options.names if name not in experiments]
    if unknown:
        raise UserError(f"no experiment is called {unknown[0]!r}; there are: {', '.join(experiments)}")
    for name in options.names or experiments:
        if options.commands:
            for run in experiments[name]:
                print(shown(run, run.training(places)))
        elif options.names:
            for run in experiments[name]:
                train(run, places)
        else:
            done = sum(run.done(places) for run in experiments[name])
            print(f"{name:16} {done} of {len(experiments[name])} runs done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
