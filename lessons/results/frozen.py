"""Film reviews by MiniLM as it is: no weight of it is trained, only a linear read-out of the vectors that it makes.

python -m lessons.results.frozen      writes RUNS/minilm-frozen/vectors.npz (minutes, once) and, at the end, done.json

A vector is the mean over the first 128 pieces of a review, scaled to length 1. The read-out is logistic regression; how
much its weights are held back (L2) is chosen on the validation texts, for each number of labels.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lessons.results.experiments import LABELS, PIECES
from lessons.results.record_files import environment
from lessons.results.runs import DONE, add_places
from minitransformer.app.cli.main import orderly
from minitransformer.app.data import LabelledDocuments, read_labelled
from minitransformer.app.training.checkpoints.files import replacing
from minitransformer.pretrained import load
from minitransformer.pretrained.sentences import vectors

NAME = "minilm-frozen"
PARTS = (f"train-{LABELS[-1]}", "valid", "test")
HELD_BACK = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # the L2 weights that are tried


def read_out(x: np.ndarray, labels: np.ndarray, held_back: float) -> tuple[np.ndarray, float]:
    """Logistic regression by Newton's method.   x (n, C), labels (n) of 0 and 1 → weights (C), bias"""
    x = np.concatenate([x.astype(np.float64), np.ones((len(x), 1))], axis=1)
    weights, penalty = np.zeros(x.shape[1]), np.full(x.shape[1], held_back * len(x))
    penalty[-1] = 1e-9  # the bias is free
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ weights))
        slope = x.T @ (p - labels) + penalty * weights
        step = np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x + np.diag(penalty), slope)
        weights -= step
        if np.abs(step).max() < 1e-8:
            break
    return weights[:-1], weights[-1]


def scores(parts: dict[str, LabelledDocuments], made: dict[str, np.ndarray]) -> dict[str, Any]:
    """number of labels → accuracy on the test texts, and the L2 weight that was best on the validation texts"""
    names = parts["test"].names
    answers = {part: np.array(data.labels) for part, data in parts.items()}
    assert all(data.names == names for data in parts.values())
    found = {}
    for n in LABELS:
        x, y = made[PARTS[0]][:n], answers[PARTS[0]][:n]  # smaller sets are beginnings of the largest
        fits = {held_back: read_out(x, y, held_back) for held_back in HELD_BACK}

        def right(part: str, fit: tuple[np.ndarray, float]) -> float:
            return float(((made[part] @ fit[0] + fit[1] > 0) == answers[part]).mean())

        best = max(fits, key=lambda held_back: right("valid", fits[held_back]))
        found[str(n)] = {"accuracy": right("test", fits[best]), "held_back": best}
    return found


def work(runs: str) -> int:
    folder = Path(runs, NAME)
    folder.mkdir(parents=True, exist_ok=True)
    first = read_labelled(os.path.join(runs, "imdb", "test.tsv"))
    parts = {part: read_labelled(os.path.join(runs, "imdb", f"{part}.tsv"), labels=first.names) for part in PARTS}
    kept = folder / "vectors.npz"
    made = dict(np.load(kept)) if kept.exists() else {}
    model, tokenizer = load("minilm")
    for part, data in parts.items():
        if part not in made:
            print(f"reading {len(data.texts):,} reviews of {part}.tsv", flush=True)
            made[part] = vectors(model.eval(), tokenizer, data.texts, longest=PIECES)
            with replacing(kept) as file:  # after each part: what was read is not read again
                np.savez(file, **made)
    found = scores(parts, made)
    with replacing(folder / DONE) as file:
        file.write(
            json.dumps({"command": "python -m lessons.results.frozen", **environment(), "labels": found}).encode()
        )
    for labels, score in found.items():
        print(f"{labels} labels: {score['accuracy']:.1%} of the test texts (L2 {score['held_back']:g})")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_places(parser)
    options = parser.parse_args(arguments)
    return orderly("frozen", lambda: work(options.runs))


if __name__ == "__main__":
    sys.exit(main())
