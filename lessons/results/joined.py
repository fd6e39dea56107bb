"""Two voices on a film review: a network that was trained on its pieces (minilm.py), and the mere words (frozen.py).

python -m lessons.results.joined      writes RUNS/minilm-joined/done.json, of all cells with MiniLM that are done

Each voice is divided by its spread over the validation texts, so that neither is the louder; then the words have a
third of the say. The third was chosen on the validation texts, once, for all numbers of labels.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from lessons.results.experiments import LABELS
from lessons.results.frozen import best_of, of_words
from lessons.results.minilm import CELLS, KINDS, PARTS, accuracy, labelled
from lessons.results.runs import run_script, write_groups

NAME, SHARE = "minilm-joined", 1 / 3
NAMES = {kind: f"{recipe.name}, and the words" for kind, recipe in KINDS.items() if kind != "scratch"}


def joined(network: Mapping[str, np.ndarray], words: Mapping[str, np.ndarray], part: str) -> np.ndarray:
    """What both say of the reviews of a part   (n)"""
    voices = (voice[part] / voice["valid"].std() for voice in (network, words))
    return sum(share * voice for share, voice in zip((1 - SHARE, SHARE), voices, strict=True))


def work(runs: str) -> None:
    right, rows = {part: np.array(labelled(runs, part).labels) for part in PARTS}, of_words(runs)
    found: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for labels in LABELS:
        words = best_of({"words": lambda labels: rows}, labels, right)[1]
        for path in sorted(Path(runs, CELLS).glob(f"*-{labels}-*.npz")):
            kind, _, seed = path.stem.split("-")
            if kind not in NAMES:
                continue
            network = np.load(path)
            cell = {part: accuracy(joined(network, words, part), right[part]) for part in PARTS[1:]}
            print(f"{NAMES[kind]}, {labels} labels, seed {seed}: {cell['test']:.1%} of the test texts", flush=True)
            cell["accuracy"] = cell.pop("test")
            found.setdefault(NAMES[kind], {}).setdefault(str(labels), {})[seed] = cell
    write_groups(runs, NAME, "joined", found)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_script("joined", __doc__, work, arguments)


if __name__ == "__main__":
    sys.exit(main())
