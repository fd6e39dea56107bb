"""The numbers of a run: averaged over steps, kept in metrics.jsonl, drawn as a learning curve."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from minitransformer.app.training.checkpoints import JsonObject
from minitransformer.app.training.checkpoints.files import replacing
from minitransformer.errors import FileError, Path, system_error

if TYPE_CHECKING:  # loaded by the first picture, and not before
    from matplotlib.axes import Axes

FILE = "metrics.jsonl"
# Okabe and Ito's palette: told apart by people with any kind of colour vision, and in grey
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"


@dataclass
class Meter:
    """Sums since the last line of metrics; saved, so that a resumed run writes the same averages."""

    steps: int = 0
    tokens: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    def add(self, tokens: int, values: Mapping[str, float]) -> None:
        self.steps += 1
        self.tokens += tokens
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def means(self) -> dict[str, float]:
        return {name: total / self.steps for name, total in self.sums.items()}


def with_perplexity(values: dict[str, float]) -> dict[str, float]:
    """exp(loss) beside the loss; infinite where float64 ends, at exp(709)."""
    if "loss" not in values:
        return values
    perplexity = math.exp(values["loss"]) if values["loss"] < 700 else math.inf
    return {"loss": values["loss"], "perplexity": perplexity, **values}


class MetricsFile:
    """metrics.jsonl: one JSON object a line, appended as training goes, cut back when a run resumes. A checkpoint notes
    how many lines were written, and resuming keeps just those.

    A line that cannot be written waits in memory for the next one, or for the next checkpoint, which needs them all."""

    def __init__(self, folder: Path):
        self.path = os.path.join(folder, FILE)
        self.lines = 0  # the waiting ones among them
        self._size = 0  # bytes that are surely in the file
        self._waiting = b""

    def restart(self, lines: int = 0, step: int = 0) -> None:
        """Keeps the first `lines` lines up to `step`: what came later will happen, and be written, again."""
        kept = [record for record in read_metrics(self.path)[:lines] if record["step"] <= step]
        content = "".join(_line(record) for record in kept).encode("utf-8")
        with replacing(self.path) as file:
            file.write(content)
        self.lines, self._size, self._waiting = len(kept), len(content), b""

    def append(self, record: JsonObject) -> FileError | None:
        """Returns why the line has to wait, if it has to."""
        self._waiting += _line(record).encode("utf-8")
        self.lines += 1
        try:
            self._write()
        except OSError as error:
            return system_error(self.path, "cannot be written", error)
        return None

    def sync(self) -> None:
        """To the disk: a checkpoint must not outlive the lines it counts."""
        try:
            self._write(sync=True)
        except OSError as error:
            raise system_error(self.path, "cannot be written", error) from error

    def _write(self, sync: bool = False) -> None:
        with open(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "wb", buffering=0) as file:
            if self._waiting:
                file.seek(self._size)  # over whatever a failed attempt left of a line
                left = memoryview(self._waiting)
                while left:
                    left = left[file.write(left) :]
                file.truncate()
                self._size, self._waiting = self._size + len(self._waiting), b""
            if sync:
                os.fsync(file.fileno())


def read_metrics(path: Path) -> list[JsonObject]:
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


def _line(record: JsonObject) -> str:
    """JSON has no infinity: exp(loss) of a bad start becomes null."""
    tidy = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}
    return json.dumps(tidy, allow_nan=False) + "\n"


def draw_curve(metrics: Iterable[JsonObject], path: Path, title: str = "") -> bool:
    """Draws training and evaluation loss over the steps and, in a second panel, accuracy if there is one.

    metrics  what `read_metrics` returns
    Returns False, and draws nothing, when there are no numbers yet. matplotlib is loaded here and not before."""
    records = list(metrics)
    panels = [name for name in ("loss", "accuracy") if any(_is_number(record.get(name)) for record in records)]
    if not panels:
        return False
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4 * len(panels), 4.2), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)  # a canvas of its own: no window, and no trace in the caller's pyplot
    for number, name in enumerate(panels, 1):
        axes = figure.add_subplot(1, len(panels), number)
        _draw_panel(axes, records, name)
    if title:
        figure.suptitle(title.replace("$", r"\$"), fontsize=12)  # a dollar sign would start a formula
    with replacing(path) as file:
        figure.savefig(file, format="png")
    return True


def _draw_panel(axes: Axes, records: list[JsonObject], name: str) -> None:
    for kind, label, colour, marker, width in (
        ("train", "training", BLUE, "", 1.4),
        ("evaluation", "evaluation", ORANGE, "o", 1.8),
    ):
        points = [(r["step"], r[name]) for r in records if r.get("kind") == kind and _is_number(r.get(name))]
        if points:
            if len(points) == 1:
                marker = "o"  # a line through one point is invisible
            axes.plot(
                *zip(*points, strict=True), color=colour, marker=marker, markersize=4, linewidth=width, label=label
            )
    axes.set_xlabel("optimizer steps")
    axes.set_ylabel("loss (nats per target)" if name == "loss" else name)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=GREY, alpha=0.2, linewidth=0.6)
    axes.legend(frameon=False)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
