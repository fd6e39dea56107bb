"""What a student has tried, kept as progress.json beside the answers."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from minitransformer.errors import FileError, system_error

FILE = "progress.json"


@dataclass(frozen=True)
class Record:
    """Of one exercise."""

    tries: int = 0
    hints: int = 0
    solution: bool = False  # has been shown
    passed: str = ""  # when, or "" if not yet

    def state(self) -> str:
        if self.passed:
            return "passed"
        return f"{self.tries} {'try' if self.tries == 1 else 'tries'}" if self.tries else ""


class Progress:
    """progress = Progress(folder); progress["product"].tries; progress.note("product", passed=True)"""

    def __init__(self, folder: Path):
        self.path = folder / FILE
        self.records: dict[str, Record] = {}
        if not self.path.exists():
            return
        try:
            kept = json.loads(self.path.read_text(encoding="utf-8"))
            self.records = {str(name): Record(**fields) for name, fields in kept.items()}
        except OSError as error:
            raise system_error(self.path, "cannot be read", error, FileError) from None
        except (ValueError, TypeError, AttributeError):
            advice = "move it away to begin a new one (your answers are not touched)"
            raise FileError(self.path, "is damaged", advice) from None

    def __getitem__(self, name: str) -> Record:
        return self.records.get(name, Record())

    def tried(self, name: str, passed: bool) -> None:
        record = self[name]
        when = record.passed or (time.strftime("%Y-%m-%d %H:%M") if passed else "")
        self._keep(name, replace(record, tries=record.tries + 1, passed=when))

    def hinted(self, name: str) -> None:
        self._keep(name, replace(self[name], hints=self[name].hints + 1))

    def shown(self, name: str) -> None:
        self._keep(name, replace(self[name], solution=True))

    def _keep(self, name: str, record: Record) -> None:
        self.records[name] = record
        text = json.dumps({name: asdict(one) for name, one in self.records.items()}, indent=1) + "\n"
        part = self.path.with_suffix(".part")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(text, encoding="utf-8")
            os.replace(part, self.path)  # all or nothing
        except OSError as error:
            raise system_error(self.path, "cannot be written", error, FileError) from None
