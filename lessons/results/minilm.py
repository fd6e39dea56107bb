"""Film reviews by MiniLM, which others trained: two of its layers fine-tuned; and the same network from scratch.

python -m lessons.results.minilm --kinds inner scratch    trains what is missing of these
python -m lessons.results.minilm --kinds inner --labels 400 --seeds 1                          only this one
python -m lessons.results.minilm --kinds inner --labels 400 --seeds 1 --lr 3e-4 --epochs 4 --try   validation texts only

Of a review the first and the last 127 pieces are read, in two windows (all of it, if it is no longer), as MiniLM was
trained on texts of up to 128. Layers 5 and 6 are left out: what a linear read-out finds of praise and blame is lost
there again (frozen.py). The head reads the mean over all words after layer 4. It comes first: it begins as the linear
read-out of the network as it is, so that training starts from there; a random head would first pull all layers about.
In each step half of the words are left out, by chance: that saves half of the work, and the validation texts were
judged no worse for it.

A cell is one kind, 100, 400 or 1,600 labels and one of three seeds; it judges the test texts once, by its last weights,
and is recorded in RUNS/minilm-cells: its figures, and what it said of every review (joined.py goes on from there).

inner    layers 1 and 2 stay as they are: what they make of a text is computed once and kept in RUNS/minilm-states
         (float16, 1.2 GB). Layers 3 and 4 are trained on it. That is what a busy machine has time for
read     the same, after MiniLM has read the reviews by hidden words
         (python -m lessons.results.runs real-weights, hours)
scratch  layers 1 to 4 and the vectors of the words are trained, from random weights
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import autograd.functional as F
from autograd import Tensor, no_grad
from lessons.results.experiments import LABELS, MINILM_READ
from lessons.results.read_out import read_out, spread_of
from lessons.results.record_files import environment
from lessons.results.runs import add_places
from minitransformer.app.cli import numbers
from minitransformer.app.cli.main import orderly
from minitransformer.app.data import read_labelled
from minitransformer.app.data.batches.ordering import batch_order
from minitransformer.app.tasks.borrowed import base_at
from minitransformer.app.tasks.trained import Trained
from minitransformer.app.training.checkpoints.files import replacing
from minitransformer.models import Classifier
from minitransformer.models.base import mean_of_rows
from minitransformer.optim import Adam, clip_grad_norm, warmup_cosine

STATES, CELLS = "minilm-states", "minilm-cells"
PARTS = (f"train-{LABELS[-1]}", "valid", "test")
WINDOW = 128  # pieces, <sos> included
KEPT, DEPTH = 2, 4  # MiniLM's layers that stay as they are, and where all kinds end; it has six
BATCH, DROPOUT, SEEDS = 16, 0.1, range(3)
HELD_BACK = 1e-2  # L2 of the read-out that the head begins as


@dataclass(frozen=True)
class Recipe:
    name: str  # in the table
    lr: float
    epochs: dict[int, int]  # by the number of labels


EPOCHS = {100: 10, 400: 6, 1600: 4}
KINDS = {
    "inner": Recipe("MiniLM, layers 3 and 4 fine-tuned", 2e-4, EPOCHS),
    "scratch": Recipe("the same four layers from scratch", 2e-4, EPOCHS),
    "read": Recipe("MiniLM, fine-tuned after reading reviews", 2e-4, EPOCHS),
}


# ---------------------------------------------------------------------------------------------------- what is read


@dataclass(frozen=True)
class Windows:
    """Of each review one or two windows, the words of all of them one after the other."""

    words: np.ndarray  # (N,) their ids, or (N, C) float16: what layer KEPT made of them
    starts: np.ndarray  # (M + 1,) where the words of each window begin
    owner: np.ndarray  # (M,) the review that each window is of, rising
    labels: np.ndarray  # (n,)
    means: np.ndarray | None = None  # (M, layers, C) the mean over a window's words, after each layer

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def order(self, reviews: int | None = None, **options: Any) -> list[np.ndarray]:
        """Batches of the first so many reviews, alike in length. options: of batch_order"""
        sizes = np.bincount(self.owner, weights=self.lengths).astype(np.int64)
        return batch_order(sizes[:reviews], **options)

    def batch(self, reviews: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """words (M, T) or (M, T, C), padded on the right; lengths (M); shares (B, M) of each window in its review"""
        rows = [np.flatnonzero(self.owner == review) for review in reviews]
        windows = np.concatenate(rows)
        lengths = self.lengths[windows]
        ids = self.words.ndim == 1
        words = np.zeros((len(windows), lengths.max(), *self.words.shape[1:]), np.int64 if ids else np.float32)
        for row, window in enumerate(windows):
            words[row, : lengths[row]] = self.words[self.starts[window] : self.starts[window + 1]]
        owner = np.repeat(np.arange(len(reviews)), [len(row) for row in rows])
        shares = np.zeros((len(reviews), len(windows)), np.float32)
        shares[owner, np.arange(len(windows))] = lengths / np.bincount(owner, weights=lengths)[owner]
        return words, lengths, shares


def ends(ids: np.ndarray, start: int) -> list[np.ndarray]:
    """The first and the last WINDOW - 1 pieces of a text, or its two halves; one window, if it is short."""
    if len(ids) < WINDOW:
        parts = [ids]
    elif len(ids) <= 2 * (WINDOW - 1):
        parts = np.array_split(ids, 2)
    else:
        parts = [ids[: WINDOW - 1], ids[1 - WINDOW :]]
    return [np.concatenate(([start], part)) for part in parts]


def start(runs: str, kind: str) -> Trained:
    """MiniLM as others left it, or after it has read the reviews."""
    return base_at(str(MINILM_READ.folder({"runs": runs})) if kind == "read" else "minilm")


def labelled(runs: str, part: str) -> Any:
    """The reviews of a file and their verdicts, 0 and 1 by the order of the test texts."""
    names = read_labelled(os.path.join(runs, "imdb", "test.tsv")).names
    return read_labelled(os.path.join(runs, "imdb", f"{part}.tsv"), labels=names)


def pieces(runs: str, part: str, minilm: Trained) -> Windows:
    """The reviews of a file as ids."""
    data, codec = labelled(runs, part), minilm.codecs["text"]
    texts = [ends(np.asarray(codec.encode(text), np.int64), codec.tokenizer.sos) for text in data.texts]
    owner = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    windows = [window for text in texts for window in text]
    starts = np.concatenate(([0], np.cumsum([len(window) for window in windows])))
    return Windows(np.concatenate(windows), starts, owner, np.array(data.labels))


def states(runs: str, part: str, kind: str = "inner") -> Windows:
    """What MiniLM's layers make of the reviews of a file: read once, then kept."""
    kept = Path(runs, STATES if kind == "inner" else f"{STATES}-{kind}", f"{part}-layer-{KEPT}.npz")
    if not kept.exists():
        minilm = start(runs, kind)
        made = read(minilm.model.eval(), pieces(runs, part, minilm), part)
        kept.parent.mkdir(parents=True, exist_ok=True)
        with replacing(kept) as file:
            np.savez(file, **made.__dict__)
    return Windows(**np.load(kept))


def read(model: Any, given: Windows, part: str) -> Windows:
    words = np.empty((len(given.words), model.config.d_model), np.float16)
    means = np.empty((len(given.owner), model.config.n_layers, model.config.d_model), np.float32)
    order = given.order(rows=16, shuffle=False)
    print(f"reading {len(given.labels):,} reviews of {part}.tsv: {len(words):,} pieces", flush=True)
    for number, reviews in enumerate(order, start=1):
        ids, lengths, _ = given.batch(reviews)
        windows = np.concatenate([np.flatnonzero(given.owner == review) for review in reviews])
        with no_grad():
            x = model.base.embedding(ids)
            for depth, layer in enumerate(model.base.encoder.layers, start=1):
                x = layer(x, key_lengths=lengths)
                means[windows, depth - 1] = mean_of_rows(x, lengths).numpy()
                if depth == KEPT:
                    for window, row, length in zip(windows, x.numpy(), lengths, strict=True):
                        words[given.starts[window] : given.starts[window + 1]] = row[:length]
        if number % 20 == 0:
            print(f"  {number} of {len(order)} batches", flush=True)
    return Windows(words, given.starts, given.owner, given.labels, means)


# ---------------------------------------------------------------------------------------------------------- one cell


def network(kind: str, minilm: Trained, seed: int) -> Classifier:
    model = Classifier.from_language_model(minilm.model, 2, pooling="mean", seed=seed, dropout=DROPOUT)
    if kind == "scratch":
        model = Classifier(model.config)
    model.base.encoder.layers = model.base.encoder.layers[0 if kind == "scratch" else KEPT : DEPTH]
    return model


def vectors(model: Classifier, words: np.ndarray, lengths: np.ndarray, shares: np.ndarray) -> Tensor:
    """The mean over the words of each review   (B, C)"""
    if words.ndim == 2:
        x = model.base(words, lengths=lengths)
    else:
        x = model.base.encoder(Tensor(words, backend=model.backend), key_lengths=lengths)
    return Tensor(shares, backend=model.backend) @ mean_of_rows(x, lengths)


def logits(model: Classifier, words: np.ndarray, lengths: np.ndarray, shares: np.ndarray) -> Tensor:
    """(B, classes)"""
    return model.head(vectors(model, words, lengths, shares))


def head_first(model: Classifier, known: Windows, labels: int) -> Classifier:
    """The head becomes the linear read-out of the network as it is."""
    answers, model = known.labels[:labels], model.eval()
    rows = np.empty((len(answers), model.config.d_model), np.float32)
    with no_grad():
        for reviews in known.order(labels, rows=16, shuffle=False):
            rows[reviews] = vectors(model, *known.batch(reviews)).numpy()
    mean, spread = spread_of(rows)
    weights, bias = read_out((rows - mean) / spread, answers, HELD_BACK)
    weights /= spread
    bias -= mean @ weights
    halves = np.array([[-0.5], [0.5]])  # of the scores of two classes only the difference counts
    head = {"weight": halves * weights, "bias": halves[:, 0] * bias}
    model.head.load_state_dict({name: array.astype(np.float32) for name, array in head.items()})
    return model.train()


def thinned(words: np.ndarray, lengths: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Half of the words of each window, in their order, the first always among them.   words (M, T) or (M, T, C)"""
    stays = rng.random(words.shape[:2]) < 0.5
    stays[:, 0] = True
    stays &= np.arange(words.shape[1]) < lengths[:, None]
    lengths = stays.sum(axis=1)
    first = np.argsort(~stays, axis=1, kind="stable")[:, : lengths.max()]
    return words[np.arange(len(words))[:, None], first], lengths


def train(model: Classifier, known: Windows, labels: int, seed: int, lr: float, epochs: int) -> Classifier:
    """On the first `labels` reviews: every larger set begins with the smaller ones."""
    weights = dict(head_first(model, known, labels).named_parameters())
    if known.words.ndim == 2:  # the words have been read already
        weights = {name: weight for name, weight in weights.items() if not name.startswith("base.embedding.")}
    optimizer = Adam(weights.items(), lr=lr)
    steps = [rows for epoch in range(epochs) for rows in known.order(labels, rows=BATCH, seed=seed, epoch=epoch)]
    schedule, rng = warmup_cosine(len(steps) // 10, len(steps)), np.random.default_rng(seed)
    for number, reviews in enumerate(steps, start=1):
        optimizer.lr = lr * schedule(number)
        optimizer.zero_grad()
        words, lengths, shares = known.batch(reviews)
        scores = logits(model, *thinned(words, lengths, rng), shares)
        loss = F.cross_entropy(scores, known.labels[reviews])
        loss.backward()
        clip_grad_norm(weights.values(), 1.0)
        optimizer.step()
        if number % 20 == 0:
            print(f"  step {number} of {len(steps)}, loss {float(loss):.3f}", flush=True)
    return model.eval()


def said(model: Classifier, unseen: Windows) -> np.ndarray:
    """How much more the second class fits each review than the first: above 0 it is meant.   → (n)"""
    found = np.empty(len(unseen.labels), np.float32)
    with no_grad():
        for reviews in unseen.order(rows=16, shuffle=False):
            scores = logits(model, *unseen.batch(reviews)).numpy()
            found[reviews] = scores[:, 1] - scores[:, 0]
    return found


def accuracy(scores: np.ndarray, labels: np.ndarray) -> float:
    return float(((scores > 0) == labels).mean())


# ---------------------------------------------------------------------------------------------------- command line


def cell(kind: str, labels: int, seed: int, options: argparse.Namespace) -> None:
    recipe, path = KINDS[kind], Path(options.runs, CELLS, f"{kind}-{labels}-{seed}.json")
    if path.exists() and not options.tried:
        return
    runs, minilm = options.runs, start(options.runs, kind)

    def part(number: int) -> Windows:
        return pieces(runs, PARTS[number], minilm) if kind == "scratch" else states(runs, PARTS[number], kind)

    lr, epochs = options.lr or recipe.lr, options.epochs or recipe.epochs[labels]
    print(f"{kind}, {labels} labels, seed {seed}, rate {lr:g}, {epochs} epochs", flush=True)
    known, began = part(0), time.process_time()
    model = train(network(kind, minilm, seed), known, labels, seed, lr, epochs)
    minutes = (time.process_time() - began) / 60
    valid = part(1)
    scores = {"valid": said(model, valid)}
    found = {"lr": lr, "epochs": epochs, "valid": accuracy(scores["valid"], valid.labels), "cpu_minutes": minutes}
    print(f"  {found['valid']:.1%} of the validation texts, {minutes:.1f} minutes of one core", flush=True)
    if options.tried:
        return
    test = part(2)
    scores["test"] = said(model, test)
    found["accuracy"] = accuracy(scores["test"], test.labels)
    print(f"  {found['accuracy']:.1%} of the test texts", flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    command = f"python -m lessons.results.minilm --kinds {kind} --labels {labels} --seeds {seed}"
    with replacing(path.with_suffix(".npz")) as file:
        np.savez(file, **scores)
    with replacing(path) as file:  # last: with this file a cell is done
        file.write(json.dumps({"command": command, **environment(), **found}, indent=2).encode())


def work(options: argparse.Namespace) -> int:
    for seed in options.seeds:
        for kind in options.kinds:
            for labels in options.labels:
                cell(kind, labels, seed, options)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS], help="(default: all)")
    parser.add_argument("--labels", type=int, nargs="+", choices=LABELS, default=LABELS, help="(default: all)")
    parser.add_argument("--seeds", type=int, nargs="+", choices=SEEDS, default=SEEDS, help="(default: 0 1 2)")
    parser.add_argument("--lr", type=numbers.positive, metavar="X", help="highest learning rate (default: the kind's)")
    parser.add_argument("--epochs", type=numbers.at_least_one, metavar="N", help="(default: the kind's)")
    help = "judge the validation texts only, and record nothing"
    parser.add_argument("--try", dest="tried", action="store_true", help=help)
    add_places(parser)
    options = parser.parse_args(arguments)
    if (options.lr or options.epochs) and not options.tried:
        parser.error("a cell is recorded by its own recipe only: add --try, or omit --lr and --epochs")
    return orderly("minilm", lambda: work(options))


if __name__ == "__main__":
    sys.exit(main())
