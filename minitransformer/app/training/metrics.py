"""metrics.jsonl: one JSON object a line, appended as training goes, cut back when a run resumes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

from minitransformer.app.training.checkpoints.files import replacing
from minitransformer.errors import Path, system_error

FILE = "metrics.jsonl"


class MetricsFile:
    """The lines written so far are counted: a checkpoint notes the count, and resuming keeps just those lines."""

    def __init__(self, folder: Path):
        self.path = os.path.join(folder, FILE)
        self.lines = 0

    def restart(self, lines: int = 0, step: int = 0) -> None:
        """Keeps the first `lines` lines up to `step`: what came later will happen, and be written, again."""
        kept = [record for record in read_metrics(self.path)[:lines] if record["step"] <= step]
        with replacing(self.path) as file:
            file.write("".join(_line(record) for record in kept).encode("utf-8"))
        self.lines = len(kept)

    def append(self, record: Mapping[str, Any]) -> None:
        try:
            with open(self.path, "ab") as file:
                file.write(_line(record).encode("utf-8"))
        except OSError as error:
            raise system_error(self.path, "cannot be written", error) from error
        self.lines += 1

    def sync(self) -> None:
        """To the disk: a checkpoint must not outlive the lines it counts."""
        try:
            with open(self.path, "ab") as file:
                os.fsync(file.fileno())
        except OSError as error:
            raise system_error(self.path, "cannot be written", error) from error


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All complete lines; a last line that a kill cut short is left out, and so is whatever is no record of ours."""
    records = []
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if line.endswith("\n") and isinstance(record, dict) and type(record.get("step")) is int:
                    records.append(record)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise system_error(path, "cannot be read", error) from error
    return records


def _line(record: Mapping[str, Any]) -> str:
    """JSON has no infinity: exp(loss) of a bad start becomes null."""
    tidy = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}
    return json.dumps(tidy, allow_nan=False) + "\n"
