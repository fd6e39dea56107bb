"""Language models on French novels: perplexity on novels that were held out, by words read and by work spent.

python -m lessons.results.runs pretraining       trains them (hours), or goes on where that was stopped
python -m lessons.results.pretraining            reads the runs, writes pretraining.json and draws pretraining.png
python -m lessons.results.pretraining --draw     draws it again, from pretraining.json
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lessons.results import experiments
from lessons.results.record_files import save_figure
from lessons.results.reporting import require_any, script, summaries
from lessons.results.runs import Run, about, metrics

NAME = "pretraining"
TICKS = (60, 80, 100, 150, 200, 300)  # of perplexity


def summarize(runs: Sequence[Run], places: Mapping[str, str]) -> dict[str, Any]:
    (run,) = runs
    lines = metrics(run, places)["evaluation"]
    return {
        **about(runs, places),
        "curve": {name: [line[name] for line in lines] for name in ("step", "tokens", "perplexity")},
        "cpu_minutes": _cpu_minutes(lines),
    }


def _cpu_minutes(lines: Sequence[Mapping[str, Any]]) -> list[float]:
    """Work of the processor up to each line, at the pace of the lines that counted it: an older beginning did not."""
    counted = [line for line in lines if line.get("cpu_seconds", 0)]
    first, last = counted[0], counted[-1]
    pace = (last["cpu_seconds"] - first["cpu_seconds"]) / (last["tokens"] - first["tokens"])
    return [line["tokens"] * pace / 60 for line in lines]


def draw(record: Mapping[str, Any], folder: Path) -> list[Path]:
    import matplotlib.pyplot as plt

    from lessons.harness import style

    style.apply()
    figure, (left, right) = plt.subplots(1, 2, sharey=True, figsize=(9, 4.2))
    for (name, summary), colour, dashes in zip(record["runs"].items(), style.COLOURS, style.DASHES, strict=False):
        values, look = summary["curve"]["perplexity"], {"color": colour, "linestyle": dashes, "label": name}
        left.plot(np.array(summary["curve"]["tokens"]) / 1e6, values, **look)
        right.plot(summary["cpu_minutes"], values, **look)
    left.set(xlabel="million pieces read", ylabel="perplexity on held-out novels", yscale="log")
    right.set(xlabel="minutes of one core")
    left.set_yticks(TICKS, [str(tick) for tick in TICKS])
    left.minorticks_off()
    left.set_title("Learning French from novels", loc="left")
    right.legend(loc="upper right")
    return [save_figure(figure, folder / f"{NAME}.png")]


def gather(places: Mapping[str, str], former: Mapping[str, Any]) -> dict[str, Any]:
    runs = {name: [run] for name, run in experiments.PRETRAINING.items()}
    return {"runs": require_any(summaries(runs, summarize, places, former.get("runs", {})), NAME)}


def tell(record: Mapping[str, Any]) -> None:
    for name, found in record["runs"].items():
        perplexity, minutes = found["curve"]["perplexity"][-1], found["cpu_minutes"][-1]
        print(f"{name}: perplexity {perplexity:.1f} on held-out novels after {minutes:.0f} minutes of one core")


def main(arguments: Sequence[str] | None = None) -> int:
    return script(NAME, __doc__, gather, draw, tell, arguments)


if __name__ == "__main__":
    sys.exit(main())
