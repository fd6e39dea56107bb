"""The learning curve of a run as a picture, from its metrics.jsonl."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

# Okabe and Ito's palette: told apart by people with any kind of colour vision, and in grey
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"


def draw_curve(metrics: Iterable[Mapping[str, Any]], path: str | os.PathLike[str], title: str = "") -> bool:
    """Draws training and evaluation loss over the steps and, in a second panel, accuracy if there is one.

    metrics  what `training.metrics.read_metrics` returns
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
        _panel(axes, records, name)
    if title:
        figure.suptitle(title.replace("$", r"\$"), fontsize=12)  # a dollar sign would start a formula

    from minitransformer.app.training.checkpoints.files import replacing

    with replacing(path) as file:
        figure.savefig(file, format="png")
    return True


def _panel(axes: Any, records: list[Mapping[str, Any]], name: str) -> None:
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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
