"""Claims on trial: how a lesson states a claim, tests it, and proves that its test can fail.

    lesson = Lesson(__file__)

    @lesson.trial("mask-causal", "A position depends on itself and earlier ones only.", controls=[faults.mask_off])
    def mask_causal(trial):
        ...
        trial.check((above == 0.0).all(), f"all {above.size} entries above the diagonal are exactly 0.0")
        trial.show(figure, "jacobian")
        return "proved", "1,225 of 1,225 entries above the diagonal are exactly 0.0"

    lesson.finish()

A trial runs at once, on the sound engine. Then it runs again, in silence, under each of its negative controls: a
deliberately broken engine (lessons/faults has them), under which one of its checks has to fail. With `--break mask-off`
only that control is run, in the open; with `--blind` the whole lesson runs on a broken engine, and a class finds out
which (blind.py). `lesson.show(figure, "name", "caption")` shows a figure between the trials.
"""

import argparse
import contextlib
import functools
import io
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

import kernels
from lessons.harness import blind, claims, style
from lessons.harness.claims import FOLDER, VERDICTS
from lessons.harness.engine import Fault, broken
from lessons.harness.transcript import Transcript
from minitransformer.errors import UserError
from minitransformer.pretrained.fetch import fetch

NOTEBOOK = "ipykernel" in sys.modules
if NOTEBOOK:  # where a notebook has no file of its own, Lesson(__file__) must find a name all the same
    from IPython import get_ipython

    get_ipython().user_ns.setdefault("__file__", os.environ.get("JPY_SESSION_NAME", "00_notebook.py"))


class CheckFailed(Exception):
    """A check of a trial did not hold."""


class Trial:
    """What a trial is given: its checks, its notes and its figures, on the sound engine or on a broken one."""

    def __init__(self, lesson: "Lesson", claim: str, control: str | None):
        self.lesson, self.claim, self.control = lesson, claim, control
        self.checks: list[str] = []
        self.failed: list[str] = []
        self.figures: list[dict[str, str]] = []
        self.events: list[dict[str, str]] = []  # checks, notes and figures in the order in which they came

    def check(self, holds: Any, text: str) -> None:
        """The claim stands or falls with this. `text` says what was seen, with figures."""
        if not bool(holds):
            print(f"  FAILED  {text}")
            self.failed.append(text)
            if self.lesson.hidden is not None:  # whoever looks for the fault wants to see all its symptoms
                return
            raise CheckFailed(text)
        print(f"  ok      {text}")
        self.checks.append(text)
        self.events.append({"check": text})

    def note(self, text: str) -> None:
        """Something to see that proves nothing: a time, a table, an example."""
        print("          " + text.replace("\n", "\n          "))
        self.events.append({"note": text})

    def show(self, figure: Any, name: str, caption: str = "") -> None:
        """Keeps a figure as build/lessons/NN_name.png, unless the engine is broken. A path names a picture that is
        drawn already, and keeps its ending."""
        if self.control is None:
            path = self.lesson.save(figure, name)
            print(f"          -> {path}")
            self.figures.append({"file": path.name, "caption": caption})
            self.events.append({"figure": path.name, "caption": caption})
        _close(figure)


def _sound(engine: Any) -> None:
    """nothing is broken"""


def _close(figure: Any) -> None:
    if not isinstance(figure, Path):
        matplotlib.pyplot.close(figure)


class Lesson:
    """One script: its options, its trials and the record they leave in build/lessons/NN_name.json."""

    def __init__(self, file: str, needs: Sequence[str] = ()):
        """needs: models of others, which are fetched by pip where they are not in the user's cache"""
        self.file, self.name = file, Path(file).stem
        parser = argparse.ArgumentParser(description=f"lesson {self.name}")
        parser.add_argument("--backend", default=None, help="numpy, numba, emulated or cupy")
        parser.add_argument("--full", action="store_true", help="more seeds, larger sizes, real data where given")
        parser.add_argument("--data", type=Path, default=None, help="folder with real text, used with --full")
        parser.add_argument("--break", dest="broken", metavar="CONTROL", help="run on this broken engine only")
        help_ = "run on a broken engine and do not say which: that of this number, or any; with --break, that one"
        parser.add_argument("--blind", type=int, nargs="?", const=0, metavar="NUMBER", help=help_)
        parser.add_argument(
            "--reveal", action="store_true", help="with --blind NUMBER: say what is broken, run nothing"
        )
        options = parser.parse_args([] if NOTEBOOK else None)
        self.full: bool = options.full
        self.data: Path | None = options.data
        self.broken: str | None = options.broken
        self.control: str | None = None
        self.records: list[dict[str, Any]] = []
        self.controls: dict[str, str] = {}  # name → what is broken
        self.hidden = blind.asked_for(Path(file), options.blind, options.broken, options.reveal)
        self.start = time.perf_counter()
        self._remembered: dict[tuple, Any] = {}
        try:
            kernels.use(options.backend) if options.backend else kernels.current()
            FOLDER.mkdir(parents=True, exist_ok=True)
            for model in needs:
                fetch(model)  # with its progress
        except (kernels.BackendError, OSError, UserError) as error:
            print(f"{self.name}: {error}", file=sys.stderr)
            sys.exit(2)
        if self.hidden is not None:
            self.broken = self.hidden.name
            self.hidden.break_engine()
        style.apply(notebook=NOTEBOOK)
        if not NOTEBOOK:
            sys.excepthook = self._last_words
        self.transcript: Transcript | None = None
        if self.broken is None and not NOTEBOOK:
            self.options = {"backend": kernels.current().name, "full": self.full}
            self.options |= {"data": None if self.data is None else str(self.data.resolve())}
            self.key = claims.sources_key(Path(file), **self.options)
            sys.stdout = self.transcript = Transcript(file, sys.stdout)  # type: ignore[assignment]
            self._write(finished=False)

    def _last_words(self, kind: type[BaseException], error: BaseException, trace: Any) -> None:
        """Whoever presses Ctrl-C knows where: one line says what it means."""
        if issubclass(kind, KeyboardInterrupt):
            print(f"\nstopped: {self.name} is not finished", file=sys.stderr)
        elif self.hidden is not None:  # on a broken engine this is a symptom
            print(f"\nThe lesson breaks down here: {kind.__name__}: {error}")
            print(self.hidden.question(self.controls, self.records))
        else:
            sys.__excepthook__(kind, error, trace)

    def _write(self, finished: bool) -> None:
        """The record so far: a lesson that stops half-way must not leave an older run's verdicts standing."""
        if self.transcript is None:
            return
        record = {"lesson": self.name, "title": claims.title(Path(self.file)), "script": str(Path(self.file).resolve())}
        record |= self.options | {"key": self.key, "finished": finished}
        record |= {"seconds": round(time.perf_counter() - self.start, 1)}
        record |= {"claims": self.records, "output": self.transcript.parts}
        claims.write_json(FOLDER / f"{self.name}.json", record)
        with contextlib.suppress(claims.ClaimsError):  # another lesson's broken record is not this one's fault
            claims.gather()

    def remember(self, function: Callable) -> Callable:
        """Caches a costly step (a training run) until the engine is broken in another way, or put right again."""

        @functools.wraps(function)
        def remembered(*args):
            key = (self.control, function.__name__, args)
            if key not in self._remembered:
                self._remembered[key] = function(*args)
            return self._remembered[key]

        return remembered

    def show(self, figure: Any, name: str, caption: str = "") -> None:
        """Shows a figure outside of a trial, at its place in the log, the report and the book. Like `Trial.show`, it
        keeps build/lessons/NN_name.png and takes a path too; on a broken engine it is silent."""
        if self.hidden is not None:
            print(f"-> {self.save(figure, name)}")  # without its caption, which tells what a sound engine shows
        elif self.broken is None and self.control is None:
            path = self.save(figure, name)
            if self.transcript is None:  # a notebook has shown it already
                print(caption)
            else:
                self.transcript.figure(path.name, caption)
                self.transcript.stream.write(f"-> {path}: {caption}\n")  # for the log; the book shows the figure itself
        _close(figure)

    def save(self, figure: Any, name: str) -> Path:
        """Keeps a figure as build/lessons/NN_name.png (a path: with its own ending); a notebook displays it. The same
        in lines and letters, NN_name.svg, is for slides."""
        folder, stem = FOLDER, f"{self.name[:2]}_{name}"
        if self.hidden is not None:
            folder, stem = self.hidden.folder, self.hidden.figure(name)
            folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{stem}{figure.suffix if isinstance(figure, Path) else '.png'}"
        if isinstance(figure, Path):
            shutil.copyfile(figure, path)
        else:
            figure.savefig(path, dpi=160, bbox_inches="tight")
            if self.hidden is None:
                figure.savefig(path.with_suffix(".svg"), bbox_inches="tight", metadata={"Date": None})
        if NOTEBOOK:
            from IPython.display import SVG, Image, display

            display((SVG if path.suffix == ".svg" else Image)(filename=str(path)))
        return path

    def trial(self, claim: str, statement: str, controls: list[Fault], without: str | None = None):
        """Runs the decorated function as the trial of `claim`: it checks, and returns (verdict, evidence).

        without  why it cannot be run on this machine, if it cannot: the trial is left out, and that is said"""
        assert controls, f"{claim} needs a negative control: a check that cannot fail proves nothing"
        if NOTEBOOK:  # a cell may be run again
            self.records = [record for record in self.records if record["claim"] != claim]
        assert claim not in [record["claim"] for record in self.records], f"{claim} is tried twice"
        names = {control.__name__.replace("_", "-"): control for control in controls}
        self.controls |= {name: (control.__doc__ or name).strip() for name, control in names.items()}

        def decorate(run: Callable[[Trial], tuple[str, str]]):
            if without is not None:
                print(f"{claim}: left out, because {without}")
                return run
            if self.hidden is not None:
                self._run_blind(claim, statement, run, names)
                return run
            if self.broken is not None:
                if self.broken in names:
                    print(f"\n{claim}, on a broken engine: {names[self.broken].__doc__}")
                    caught = self._run_control(claim, run, self.broken, names[self.broken], silent=False)
                    self.records.append({"claim": claim, "caught": caught["caught"]})
                return run
            self._run_sound(claim, statement, run, names)
            return run

        return decorate

    def _run_sound(self, claim: str, statement: str, run: Callable, names: dict[str, Callable]) -> None:
        """Runs a trial on the engine as it is, then under each of its controls, and keeps the record."""
        print(f"\n{claim}: {statement}")
        start = time.perf_counter()
        trial = Trial(self, claim, None)
        record: dict[str, Any] = {"claim": claim, "lesson": self.name, "line": run.__code__.co_firstlineno}
        record |= {"statement": statement, "verdict": "FAILED", "evidence": "", "seconds": 0.0}
        record |= {"checks": trial.checks, "figures": trial.figures, "events": trial.events, "controls": []}
        try:
            verdict, evidence = run(trial)
            assert verdict in VERDICTS, f"{claim}: a verdict is one of {', '.join(VERDICTS)}, not {verdict!r}"
        except CheckFailed as failure:
            verdict, evidence = "FAILED", str(failure)
        except Exception as error:  # no verdict; what is known so far is kept
            self.records.append(record | {"evidence": f"stopped by {type(error).__name__}: {error}"})
            self._write(finished=False)
            raise
        print(f"  {verdict.upper() if verdict in VERDICTS else verdict}: {evidence}")
        record |= {"verdict": verdict, "evidence": evidence}
        if verdict in VERDICTS:
            record["controls"] = [self._run_control(claim, run, name, names[name]) for name in names]
        else:  # a check that fails anyway catches nothing
            by = "not run, because the claim fails on the sound engine too"
            record["controls"] = [
                {"control": name, "what": (names[name].__doc__ or name).strip(), "caught": False, "by": by}
                for name in names
            ]
        record["seconds"] = round(time.perf_counter() - start, 1)
        self.records.append(record)
        self._write(finished=False)

    def _run_blind(self, claim: str, statement: str, run: Callable, names: dict[str, Callable]) -> None:
        """Runs all checks of a trial on the hidden engine."""
        assert self.hidden is not None
        here = contextlib.nullcontext() if self.hidden.from_the_start else broken(names.get(self.hidden.name, _sound))
        print(f"\n{claim}: {statement}")
        trial = Trial(self, claim, None)
        with here:
            try:
                run(trial)
            except Exception as error:  # on a broken engine this is a symptom, too
                print(f"  BROKE DOWN  {type(error).__name__}: {error}")
                trial.failed.append(str(error))
        self.records.append(
            {"claim": claim, "checks": len(trial.checks) + len(trial.failed), "failed": len(trial.failed)}
        )

    def _run_control(self, claim: str, run: Callable, name: str, control: Callable, silent: bool = True) -> dict:
        """Runs a trial on a broken engine; it is caught when a check fails, not when something merely crashes."""
        what = (control.__doc__ or name).strip()
        self.control = name
        caught, by = False, "every check still passes"
        quiet = contextlib.redirect_stdout(io.StringIO()) if silent else contextlib.nullcontext()
        try:
            with broken(control), quiet:
                run(Trial(self, claim, name))
        except CheckFailed as failure:
            caught, by = True, str(failure)
        except Exception as error:  # a crash is no verdict
            by = f"the broken engine crashed before a check could fail: {type(error).__name__}: {error}"
        finally:
            self.control = None
            self._remembered = {key: value for key, value in self._remembered.items() if key[0] is None}
        if silent or not caught:
            print(f"  {'control' if caught else 'MISSED '}  {name} ({what}): {by}")
        return {"control": name, "what": what, "caught": caught, "by": by}

    def finish(self) -> None:
        """Writes the record; ends the process with 1 when a claim failed or a broken engine went unnoticed."""
        if self.hidden is not None:
            print(self.hidden.question(self.controls, self.records))
            sys.exit(1 if any(record["failed"] for record in self.records) else 0)
        if self.broken is not None:
            if self.broken not in self.controls:
                print(
                    f"{self.name} has no control {self.broken!r}; there are: {', '.join(self.controls)}",
                    file=sys.stderr,
                )
                sys.exit(2)
            caught = all(record["caught"] for record in self.records)
            print(f"\nthe broken engine was {'caught: the claim fails, as it must' if caught else 'NOT noticed'}")
            sys.exit(1 if caught else 0)
        failed = [record["claim"] for record in self.records if record["verdict"] not in VERDICTS]
        missed = [c["control"] for record in self.records for c in record["controls"] if not c["caught"]]
        good = not failed and not missed
        if good:
            tried = "1 claim" if len(self.records) == 1 else f"{len(self.records)} claims"
            print(f"\n{self.name}: {tried} tried, every control caught")
        self._write(finished=True)
        if not good:
            fault = f"{self.name}: failed: {', '.join(failed) or '-'}; controls not caught: {', '.join(missed) or '-'}"
            raise CheckFailed(fault) if NOTEBOOK else SystemExit("\n" + fault)
