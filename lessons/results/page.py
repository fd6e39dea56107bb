"""Puts the tables of the records into the page: python -m lessons.results.page

README.md says where: between <!-- NAME --> and <!-- end -->, NAME being one of TABLES.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from lessons.results import real_weights
from lessons.results.films import with_seeds
from lessons.results.record_files import load_record
from lessons.results.transfer import accuracy_text
from lessons.results.translation import any_case
from minitransformer.app.cli.main import orderly
from minitransformer.app.training.checkpoints.files import replacing
from minitransformer.errors import UserError

FOLDER = Path(__file__).parent
PLACE = re.compile(r"(<!-- ([\w ]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', ' ') for cell in line)} |\n" for line in lines)


def block(runs: Iterable[Mapping[str, Any]]) -> str:
    """The exact command of each run, to be copied."""
    return "```\n" + "".join(f"{summary['command']}\n" for summary in runs) + "```\n"


def commands(record: Mapping[str, Any]) -> str:
    return block(record["runs"].values())


def same_curve(record: Mapping[str, Any]) -> str:
    names = {"pytorch": "PyTorch", "pytorch_double_norm": "PyTorch, gradient norm summed in double",
             "perturbed": "this engine, last bits of the weights changed"}  # fmt: skip
    rows = [
        [label, *(f"{record['figures'][name][f'loss_{what}']:.1e}" for what in ("first_step", "median", "largest"))]
        for name, label in names.items() if name in record["figures"]
    ]  # fmt: skip
    return table(["against this engine", "first step", "median", "largest"], rows)


def pretraining(record: Mapping[str, Any]) -> str:
    rows = []
    for name, summary in record["runs"].items():
        tokens, values = summary["curve"]["tokens"][-1], summary["curve"]["perplexity"]
        rows.append([name, f"{tokens / 1e6:.1f} M", f"{summary['cpu_minutes'][-1]:.0f}", f"{values[-1]:.0f}"])
    return table(["", "pieces read", "minutes of one core", "perplexity on held-out novels"], rows)


def transfer(record: Mapping[str, Any]) -> str:
    bayes = record["naive_bayes"].items()
    rows = [[f"Naive Bayes, {kind}", "", "", f"{found['accuracy']:.1%}", ""] for kind, found in bayes]
    for recipe, groups in record["recipes"].items():
        for name, summary in groups.items():
            first, last = (accuracy_text([one[at] for one in summary["accuracy"]]) for at in (0, -1))
            seeds, minutes = len(summary["accuracy"]), sum(summary["cpu_minutes"]) / len(summary["cpu_minutes"])
            rows.append([f"{recipe}: {name}", str(seeds), first, last, f"{minutes:.1f}"])
    return table(["", "seeds", "after one epoch", "at the end", "minutes of one core to fine-tune, a seed"], rows)


def transfer_commands(record: Mapping[str, Any]) -> str:
    groups = [summary for groups in record["recipes"].values() for summary in groups.values()]
    return block([*record["bases"].values(), *groups])


def films(record: Mapping[str, Any]) -> str:
    groups = record["groups"]
    rows = []
    for labels, bayes in record["naive_bayes"].items():
        row = [f"{int(labels):,}", f"{bayes:.1%}"]
        for by_labels in groups.values():
            found = by_labels.get(labels, {}).get("accuracy")
            row.append(with_seeds(found) if found else "")
        rows.append(row)
    return table(["labels", "Naive Bayes", *groups], rows)


def films_commands(record: Mapping[str, Any]) -> str:
    return block([*record["bases"].values(), *(summary for by in record["groups"].values() for summary in by.values())])


def real_weights_table(record: Mapping[str, Any]) -> str:
    return table(real_weights.HEADS, real_weights.rows(record, load_record(FOLDER / "films.json")))


def translation(record: Mapping[str, Any]) -> str:
    rows = []
    for name, summary in record["runs"].items():
        greedy, beam = (summary["measured"][how] for how in ("greedy", "beam"))
        minutes = f"{summary['cpu_minutes']:.0f}"
        scores = [
            f"{greedy['loss'] * summary['tokens_a_word']:.2f}",
            f"{any_case(greedy):.1f}",
            f"{any_case(beam):.1f}",
            f"{beam['exact']:.0%}",
        ]
        rows.append([name, f"{summary['weights'] / 1e6:.1f} M", minutes, *scores])
    heads = ["", "weights", "minutes of one core", "nats a word", "BLEU, greedy", "BLEU, beam of 5", "word for word"]
    return table(heads, rows)


def sentences(record: Mapping[str, Any]) -> str:
    runs = record["runs"]
    rows = [
        [said[0]["english"] + " (trained on)" * said[0]["trained_on"], *(one["beam"] for one in said)]
        for said in zip(*(summary["sentences"] for summary in runs.values()), strict=True)
    ]
    return table(["English", *runs], rows)


def faulty(record: Mapping[str, Any]) -> str:
    rows = []
    for name, summary in record["faults"].items():
        last, said = summary["losses"][-50:], next(iter(summary["said"].values()))
        cut = said if len(said) <= 60 else f"{said[:60]} ..."
        losses = [f"{sum(last) / len(last):.2f}", f"{summary['valid_loss']:.2f}"]
        rows.append([name, *losses, f"{summary['bleu']:.1f}", f"{summary['stutter']:.0%}", cut])
    english = next(iter(next(iter(record["faults"].values()))["said"]))
    return table(
        ["", "training loss", "loss on unseen pairs", "BLEU", "words that repeat the one before", english], rows
    )


# name in the page → record, and what is made of it
TABLES: dict[str, tuple[str, Callable[[Mapping[str, Any]], str]]] = {
    "same curve": ("same_curve", same_curve),
    "pretraining": ("pretraining", pretraining),
    "pretraining commands": ("pretraining", commands),
    "transfer": ("transfer", transfer),
    "transfer commands": ("transfer", transfer_commands),
    "films": ("films", films),
    "films commands": ("films", films_commands),
    "real weights": ("real_weights", real_weights_table),
    "translation": ("translation", translation),
    "translation commands": ("translation", commands),
    "sentences": ("translation", sentences),
    "faulty": ("faulty", faulty),
}


def filled(text: str, folder: Path = FOLDER) -> str:
    """The page with every table made anew from its record."""

    def fill(found: re.Match[str]) -> str:
        start, name, _, end = found.groups()
        if name not in TABLES:
            raise UserError(f"the page asks for a table {name!r}; there are: {', '.join(TABLES)}")
        record, make = TABLES[name]
        return f"{start}{make(load_record(folder / f'{record}.json'))}{end}"

    return PLACE.sub(fill, text)


def main() -> int:
    path = FOLDER / "README.md"
    text = filled(path.read_text(encoding="utf-8"))
    with replacing(path) as file:
        file.write(text.encode())
    print(f"written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(orderly("page", main))
