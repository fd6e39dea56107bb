"""What the lessons leave behind: build/lessons/NAME.json each, and build/claims.json with every claim of the last runs.

A lesson that runs alone replaces its own part only. A lesson that stopped half-way leaves an unfinished record, so that
nothing of an older run passes for new."""

import ast
import hashlib
import json
import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path("build/lessons")
CLAIMS = Path("build/claims.json")
VERDICTS = ("proved", "refuted", "sharpened")
ROOT = Path(__file__).parents[2]


class ClaimsError(Exception):
    """The record is missing or unreadable; the message says what to do."""


def sources_key(script: Path, backend: str, full: bool, data: str | None) -> str:
    """A number that changes with anything a lesson's result can depend on: sources, versions, options."""
    digest = hashlib.sha256()
    digest.update(f"{platform.python_version()} {version('numpy')} {version('numba')} {backend} {full} {data}".encode())
    files = [file for package in ("kernels", "autograd", "minitransformer") for file in (ROOT / package).rglob("*")]
    lessons = ROOT / "lessons"
    files += [*lessons.glob("[!0-9]*.py"), *lessons.glob("harness/*.py"), *lessons.glob("faults/*.py"), script]
    beside = [lessons / folder / f"{script.stem[3:]}.py" for folder in ("figures", "evidence")]  # of NN_name.py
    files += [file for file in beside if file.exists()]
    for file in sorted(files):
        if file.suffix in (".py", ".cu", ".cuh"):
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def title(script: Path) -> str:
    """The first Markdown heading of a lesson, without its number."""
    for line in script.read_text(encoding="utf-8").splitlines() if script.exists() else []:
        if line.startswith("# # "):
            return line.removeprefix("# # ").partition(". ")[2] or line.removeprefix("# # ")
    return script.stem


def needs(script: Path) -> tuple[str, ...]:
    """The models of others that a lesson says it needs: Lesson(__file__, needs=("minilm",)). pip brings them."""
    try:
        tree = ast.parse(script.read_text(encoding="utf-8"))
    except SyntaxError:  # which its run will tell
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Lesson":
            return next((ast.literal_eval(word.value) for word in node.keywords if word.arg == "needs"), ())
    return ()


def write_json(path: Path, value: Any) -> None:
    """Whole or not at all: the file is renamed into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)


def lesson_records() -> list[dict[str, Any]]:
    """The records of all lessons that still exist, in order."""
    found = []
    for file in sorted(FOLDER.glob("[0-9][0-9]_*.json")):
        record = _load(file)
        if not isinstance(record, dict) or not {"lesson", "script", "claims", "finished", "key"} <= record.keys():
            raise ClaimsError(f"{file} is not the record of a lesson; run minitransformer lessons {file.stem} again")
        if Path(record["script"]).exists():
            found.append(record)
    return found


def gather() -> dict[str, Any]:
    """Joins the records of the lessons into build/claims.json."""
    records = lesson_records()
    about = ("lesson", "title", "backend", "full", "finished", "seconds", "left_out")
    claims = [claim for record in records for claim in record["claims"]]
    caught, of = score(claims)
    summary = {
        "lessons": [
            {name: record.get(name) for name in about} | {"passed": passed(record), "state": state(record)}
            for record in records
        ],
        "claims": [{name: part for name, part in claim.items() if name != "events"} for claim in claims],
        "controls": {"caught": caught, "of": of},
    }
    write_json(CLAIMS, summary)
    return summary


# what a command prints, with the type it must have: people edit the file by hand
_CLAIM = {"claim": str, "lesson": str, "statement": str, "verdict": str, "evidence": str, "checks": list,
          "figures": list, "controls": list}  # fmt: skip
_CONTROL = {"control": str, "what": str, "caught": bool, "by": str}
_LESSON = {"lesson": str, "title": str, "state": str}


def _holds(value: Any, entries: dict[str, type]) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), kind) for name, kind in entries.items())


def read() -> dict[str, Any]:
    """build/claims.json, or an error that says what to do."""
    if not CLAIMS.exists():
        raise ClaimsError(f"there is no {CLAIMS} here; run minitransformer lessons first")
    summary = _load(CLAIMS)
    complete = _holds(summary, {"lessons": list, "claims": list, "controls": dict})
    complete = complete and all(_holds(claim, _CLAIM) for claim in summary["claims"])
    complete = complete and all(_holds(c, _CONTROL) for claim in summary["claims"] for c in claim["controls"])
    complete = complete and all(_holds(lesson, _LESSON) for lesson in summary["lessons"])
    if not complete:
        raise ClaimsError(f"{CLAIMS} is not a record of claims; run minitransformer lessons again")
    return summary


def score(claims: Iterable[dict[str, Any]]) -> tuple[int, int]:
    """How many of the deliberately broken engines were caught, and how many there were."""
    controls = [control for claim in claims for control in claim["controls"]]
    return sum(bool(control["caught"]) for control in controls), len(controls)


def sound(claim: dict[str, Any]) -> bool:
    """A verdict was reached, and every broken engine was caught."""
    return claim["verdict"] in VERDICTS and all(control["caught"] for control in claim["controls"])


def passed(record: dict[str, Any]) -> bool:
    return bool(record["finished"]) and all(sound(claim) for claim in record["claims"])


def state(record: dict[str, Any]) -> str:
    """passed; failed, if a claim is not sound; not finished, if the lesson was interrupted or crashed elsewhere; left
    out, if a model that it needs was not there."""
    if passed(record):
        return "passed"
    if record.get("left_out"):
        return "left out"
    return "not finished" if all(sound(claim) for claim in record["claims"]) else "failed"


def forget(script: Path, left_out: str = "") -> None:
    """An unfinished record in place of the last one: should the script not even start, that is what remains.
    left_out: why it is not run at all"""
    write_json(FOLDER / f"{script.stem}.json", blank(script, left_out))


def blank(script: Path, left_out: str = "") -> dict[str, Any]:
    """The record of a lesson of which nothing is known."""
    record: dict[str, Any] = {"lesson": script.stem, "title": title(script), "script": str(script.resolve())}
    record |= {"backend": None, "full": None, "data": None, "key": "", "finished": False, "seconds": 0.0}
    return record | {"claims": [], "output": [], "left_out": left_out}


def up_to_date(script: Path, backend: str, full: bool, data: str | None) -> bool:
    """Whether the lesson's last run passed, on these very sources and options."""
    try:
        record = _load(FOLDER / f"{script.stem}.json")
        return passed(record) and record["key"] == sources_key(script, backend, full, data)
    except (ClaimsError, KeyError, TypeError):
        return False


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ClaimsError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ClaimsError(f"{path} is broken ({error}); run minitransformer lessons again") from None
