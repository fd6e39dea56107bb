"""Film reviews by MiniLM as it is: no weight of it is trained, only a linear read-out of the vectors that it makes.

python -m lessons.results.frozen      writes RUNS/minilm-frozen/done.json

What is read of a review, and where it is kept, is told in minilm.py. A vector is the mean over all words that were
read: after the last layer, after an inner one, or after each of the six, side by side. To see what it adds to the mere
words of a review, these are read out, too: which of 10,000 occur in it, rare ones louder (by how many of the 18,901
reviews without labels have them); alone, and beside all layers.

The read-out is logistic regression. How much its weights are held back (L2), and which inner layer is read, is chosen
on the validation texts, for each number of labels.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lessons.results.experiments import LABELS
from lessons.results.minilm import PARTS, Windows, accuracy, states
from lessons.results.read_out import read_out, spread_of
from lessons.results.runs import DONE, run_script, write_groups
from minitransformer.app.data import WordTokenizer, read_documents, read_labelled

NAME = "minilm-frozen"
HELD_BACK = (1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 1.0)  # the L2 weights that are tried
LAST, INNER, ALL = "MiniLM, frozen", "MiniLM, frozen, an inner layer", "MiniLM, frozen, all layers"
WORDS, BOTH = "the words alone", "MiniLM, frozen, all layers, and the words"
NAMES = (WORDS, LAST, INNER, ALL, BOTH)
Rows = dict[str, np.ndarray]  # part → a vector for each review


def of_layers(parts: Mapping[str, Windows], layers: Sequence[int]) -> Rows:
    """The mean over the words of each review, after these layers, from 1 on.   → (n, layers · C)"""
    made = {}
    for part, read in parts.items():
        assert read.means is not None
        shares = read.lengths / np.bincount(read.owner, weights=read.lengths)[read.owner]
        rows = np.zeros((len(read.labels), len(layers), read.means.shape[2]))
        np.add.at(rows, read.owner, read.means[:, np.array(layers) - 1] * shares[:, None, None])
        made[part] = rows.reshape(len(rows), -1).astype(np.float32)
    return made


def of_words(runs: str, size: int = 10_000) -> Rows:
    """Which words a review has, each by log(reviews / reviews that have it), as a vector of length 1.   → (n, size)"""
    folder = os.path.join(runs, "imdb")
    others = read_documents(os.path.join(folder, "unlabelled.txt"))
    tokenizer = WordTokenizer.train(others, max_size=size, lower=True)
    having = np.zeros(tokenizer.vocab_size)
    for text in others:
        having[np.unique(tokenizer.encode(text))] += 1
    weights = np.log(len(others) / np.maximum(having, 1)) * (having > 0)
    weights[tokenizer.oov] = 0
    made = {}
    for part in PARTS:
        texts = read_labelled(os.path.join(folder, f"{part}.tsv")).texts
        rows = np.zeros((len(texts), tokenizer.vocab_size), np.float32)
        for row, text in zip(rows, texts, strict=True):
            seen = np.unique(tokenizer.encode(text))
            row[seen] = weights[seen]
        made[part] = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return made


def scaled(rows: Rows, labels: int) -> Rows:
    """Every column of mean 0 and spread 1 over the labelled reviews, and vectors about 1 long."""
    mean, spread = spread_of(rows[PARTS[0]][:labels])
    return {part: (one - mean) / spread for part, one in rows.items()}


def turned(rows: Rows, labels: int) -> Rows:
    """The same in the space that the labelled vectors span, which has at most as many dimensions as there are of them.
    The best weights lie in it, so that nothing is lost; and where labels are few, much work is saved."""
    known = rows[PARTS[0]][:labels]
    if known.shape[1] <= labels:
        return rows
    sizes, axes = np.linalg.eigh((known @ known.T).astype(np.float64))
    kept = sizes > 1e-6 * sizes[-1]  # below that, rounding
    turn = known.T @ (axes[:, kept] / np.sqrt(sizes[kept]))  # (C, D) with columns of length 1, at right angles
    return {part: one @ turn for part, one in rows.items()}


def best_of(
    choices: Mapping[str, Callable[[int], Rows]], labels: int, answers: Mapping[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """choices: name → vectors, for a number of labels
    → what was best on the validation texts; what it says of them and of the test texts, above 0 for the second class"""
    best: dict[str, Any] = {"valid": 0.0}
    for name, made in choices.items():
        rows = turned(made(labels), labels)
        for held_back in HELD_BACK:  # larger sets of labels begin with the smaller ones
            weights, bias = read_out(rows[PARTS[0]][:labels], answers[PARTS[0]][:labels], held_back)
            scores = {part: rows[part] @ weights + bias for part in PARTS[1:]}
            right = accuracy(scores["valid"], answers["valid"])
            if right > best["valid"]:
                best, said = {"valid": right, "read": name, "held_back": held_back}, scores
    return best | {"accuracy": accuracy(said["test"], answers["test"])}, said


def groups(parts: Mapping[str, Windows], words: Rows) -> dict[str, dict[str, Callable[[int], Rows]]]:
    """What is read out: name in the table → choices, of which the validation texts take one"""
    layers = range(1, 7)
    each, every = {layer: of_layers(parts, [layer]) for layer in layers}, of_layers(parts, layers)

    def both(labels: int) -> Rows:
        return {part: np.concatenate([one, words[part]], axis=1) for part, one in scaled(every, labels).items()}

    return {
        LAST: {"layer 6": partial(scaled, each[6])},
        INNER: {f"layer {layer}": partial(scaled, each[layer]) for layer in layers[:-1]},
        ALL: {"all layers": partial(scaled, every)},
        WORDS: {"words": lambda labels: words},
        BOTH: {"all layers and words": both},
    }


def work(runs: str) -> None:
    """Each group is noted when it is done, and not read out again."""
    done = Path(runs, NAME, DONE)
    found = json.loads(done.read_text())["groups"] if done.exists() else {}
    parts = {part: states(runs, part) for part in PARTS}
    answers = {part: read.labels for part, read in parts.items()}
    for name, choices in groups(parts, of_words(runs)).items():
        found[name] = found.get(name) or {str(n): best_of(choices, n, answers)[0] for n in LABELS}
        for labels, score in found[name].items():
            how = f"{score['read']}; L2 {score['held_back']:g}; {score['valid']:.1%} of the validation texts"
            print(f"{name}, {labels} labels: {score['accuracy']:.1%} of the test texts ({how})", flush=True)
        write_groups(runs, NAME, "frozen", found)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_script("frozen", __doc__, work, arguments)


if __name__ == "__main__":
    sys.exit(main())
