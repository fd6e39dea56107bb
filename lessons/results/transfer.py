"""From a language model to a judge of book reviews: accuracy after each epoch, pretrained and from scratch.

python -m lessons.results.runs transfer-lab      trains those of the labs' recipe (hours), or goes on where it stopped
python -m lessons.results.runs transfer-ours     and those of ours
python -m lessons.results.transfer               reads the runs, writes transfer.json and draws transfer.png
python -m lessons.results.transfer --draw        draws it again, from transfer.json
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lessons.results import experiments
from lessons.results.record_files import save_figure
from lessons.results.reporting import require_any, script, summaries
from lessons.results.runs import Run, about, metrics
from lessons.results.word_for_word import plain
from minitransformer.app.data import LabTokenizer, Tokenizer, WordTokenizer, read_labelled
from minitransformer.app.tasks.measures import wilson

NAME = "transfer"
KINDS = {"The labs' recipe": "pieces"}  # what a recipe's models read, if it is not words
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}  # 97.5 % quantile of Student's t, by the number of seeds


def naive_bayes(documents: Sequence[Any], labels: Sequence[int], others: Sequence[Any], words: int) -> np.ndarray:
    """The classes of `others`, by which words occur in them: binarised Naive Bayes, one imagined occurrence a word."""
    counts = np.ones((2, words))
    for ids, label in zip(documents, labels, strict=True):
        counts[label][np.unique(ids)] += 1
    seen = counts.sum(axis=0) > 2  # a word that was never met says nothing
    evidence = np.where(seen, np.diff(np.log(counts / counts[:, seen].sum(axis=1, keepdims=True)), axis=0)[0], 0.0)
    prior = math.log(np.mean(labels) / (1 - np.mean(labels)))
    return np.array([evidence[np.unique(ids)].sum() + prior > 0 for ids in others], dtype=int)


def baselines(places: Mapping[str, str]) -> dict[str, Any]:
    """Naive Bayes on the same reviews, in the labs' pieces and in whole words."""
    folder = os.path.join(places["data"], "cls-books-fr")
    known, held = (read_labelled(os.path.join(folder, f"{name}.review.spm")) for name in ("train", "valid"))
    pieces = LabTokenizer.from_files(os.path.join(folder, "dict.txt"))
    texts = [[plain(text) for text in data.texts] for data in (known, held)]
    words = WordTokenizer.train(texts[0], max_size=1_000_000, lower=True)
    return {
        "pieces": _judged(
            [pieces.encode_all(data.texts, in_pieces=True) for data in (known, held)], known, held, pieces
        ),
        "words": _judged([[words.encode(text) for text in side] for side in texts], known, held, words),
    }


def _judged(ids: Sequence[Any], known: Any, held: Any, tokenizer: Tokenizer) -> dict[str, Any]:
    found = naive_bayes(ids[0], known.labels, ids[1], tokenizer.vocab_size)
    right = int((found == np.array(held.labels)).sum())
    count = len(held.labels)
    return {"accuracy": right / count, "interval": wilson(right, count), "texts": count}


def summarize(runs: Sequence[Run], places: Mapping[str, str]) -> dict[str, Any]:
    """One recipe, all its seeds."""
    lines = [metrics(run, places)["evaluation"] for run in runs]
    return {
        **about(runs, places),
        "accuracy": [[line["accuracy"] for line in one] for one in lines],  # (seeds, epochs)
        "cpu_minutes": [one[-1]["cpu_seconds"] / 60 for one in lines],
    }


def base(runs: Sequence[Run], places: Mapping[str, str]) -> dict[str, Any]:
    """A model that others start from."""
    last = metrics(runs[0], places)["evaluation"][-1]
    found = {name: last[name] for name in ("tokens", "perplexity")} | {"cpu_minutes": last["cpu_seconds"] / 60}
    return found | about(runs, places)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean over the seeds, and half the width of its 95 % interval; one seed has none."""
    n = len(values)
    return float(np.mean(values)), STUDENT[n] * float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else 0.0


def accuracy_text(values: Sequence[float]) -> str:
    """Accuracies of several seeds as one text."""
    mean, half = interval(values)
    return f"{mean:.1%} ± {half:.1%}" if len(values) > 1 else f"{mean:.1%}, one seed"


# ---------------------------------------------------------------------------------------------------------- the figure


def draw(record: Mapping[str, Any], folder: Path) -> list[Path]:
    import matplotlib.pyplot as plt

    from lessons.harness import style

    style.apply()
    recipes, bayes = record["recipes"], record["naive_bayes"]
    longest = [
        max(len(one) for summary in groups.values() for one in summary["accuracy"]) for groups in recipes.values()
    ]
    figure, axes = plt.subplots(
        1, len(recipes), sharey=True, figsize=(3.8 * len(recipes), 4.4), squeeze=False,
        width_ratios=[4 + epochs for epochs in longest],  # an epoch is about as wide on each side
    )  # fmt: skip
    for axis, (recipe, groups) in zip(axes[0], recipes.items(), strict=True):
        for (name, summary), colour, dashes in zip(groups.items(), style.COLOURS, style.DASHES, strict=False):
            means, halves = np.array([interval(values) for values in zip(*summary["accuracy"], strict=True)]).T
            epochs = np.arange(1, len(means) + 1)
            axis.plot(epochs, 100 * means, color=colour, linestyle=dashes, label=name)
            axis.fill_between(epochs, 100 * (means - halves), 100 * (means + halves), color=colour, alpha=0.18, lw=0)
        kind = KINDS.get(recipe, "words")
        height = 100 * bayes[kind]["accuracy"]
        axis.axhline(height, color=style.GREY, linewidth=1.5, linestyle=":", label=f"Naive Bayes, {kind}")
        axis.set_title(recipe, loc="left")
        axis.set_xlabel("epochs over 1,600 reviews")
        axis.set_xticks(range(1, len(epochs) + 1, 1 + len(epochs) // 10))
        axis.legend(loc="lower right")
    axes[0][0].set_ylabel(f"accuracy on {bayes['words']['texts']} other reviews, %")
    return [save_figure(figure, folder / f"{NAME}.png")]


# ---------------------------------------------------------------------------------------------------- the command line


def gather(places: Mapping[str, str], former: Mapping[str, Any]) -> dict[str, Any]:
    before = former.get("recipes", {})
    recipes = {
        recipe: summaries(groups, summarize, places, before.get(recipe, {}))
        for recipe, groups in experiments.TRANSFER.items()
    }
    recipes = {recipe: groups for recipe, groups in recipes.items() if groups}
    bases = {name: [run] for name, run in experiments.TRANSFER_BASES.items()}
    pretrained = summaries(bases, base, places, former.get("bases", {}))
    return {"naive_bayes": baselines(places), "bases": pretrained, "recipes": require_any(recipes, "transfer-lab")}


def tell(record: Mapping[str, Any]) -> None:
    for kind, bayes in record["naive_bayes"].items():
        low, high = bayes["interval"]
        print(f"Naive Bayes, {kind}: {bayes['accuracy']:.1%} of {bayes['texts']} reviews ({low:.1%} to {high:.1%})")
    for recipe, groups in record["recipes"].items():
        for name, summary in groups.items():
            first, last = (accuracy_text([one[epoch] for one in summary["accuracy"]]) for epoch in (0, -1))
            print(f"{recipe}, {name}: {first} after one epoch, {last} at the end ({len(summary['accuracy'])} seeds)")


def main(arguments: Sequence[str] | None = None) -> int:
    return script(NAME, __doc__, gather, draw, tell, arguments)


if __name__ == "__main__":
    sys.exit(main())
