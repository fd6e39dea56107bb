"""Fetch real data by name, with pip, as files that pretrain and finetune take.

Without a name it lists what there is. The download is proved by its checksum and kept in the cache
(~/.cache/minitransformer/downloads, unless XDG_CACHE_HOME or MINITRANSFORMER_CACHE says otherwise); nothing of it is
installed or run. The folder appears when all is written, not before.

imdb becomes train.tsv, valid.tsv and test.tsv with the columns text and label (negative, positive), which share no
review letter for letter (a few are there twice with small changes); train-100.tsv, train-400.tsv and train-1600.tsv,
each the beginning of the next and of train.tsv; and unlabelled.txt, the texts of train.tsv, one a line. Reviews of the
same film may stand in different parts, so accuracies are not those of the data's own test set.

examples:
  minitransformer data                                         what there is, and where it lies
  minitransformer data imdb                                    into ~/.cache/minitransformer/imdb, found by its name:
  minitransformer pretrain imdb --out runs/imdb --epochs 1 --max-len 256
  minitransformer data imdb --to films
  minitransformer pretrain films/unlabelled.txt --out runs/films --epochs 1 --max-len 256
  minitransformer finetune films/train-400.tsv --valid films/valid.tsv --from runs/films --out runs/opinions
  minitransformer evaluate films/test.tsv --model runs/opinions
"""

import argparse
import shlex
from dataclasses import dataclass
from pathlib import Path

from minitransformer.app.cli.namespace import options_of
from minitransformer.errors import UserError


@dataclass(frozen=True)
class Options:
    name: str | None = None
    to: str | None = None
    force: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="the data to fetch (default: list them)")
    parser.add_argument("--to", metavar="DIR", help="new or empty folder to write to (default: NAME in the cache)")
    parser.add_argument("--force", action="store_true", help="fetch and write again what is there already")


def run(arguments: argparse.Namespace) -> int:
    options = options_of(Options, arguments)
    from minitransformer.app.data import sets as datasets
    from minitransformer.download import Line

    if options.name is None:
        if options.to is not None or options.force:
            raise UserError(f"which data? name them: {', '.join(datasets.KNOWN)}")
        for dataset in datasets.KNOWN.values():
            _describe(dataset, datasets.cache() / dataset.name)
        return 0
    if options.name not in datasets.KNOWN:
        raise UserError(f"no data are called {options.name!r}; there are: {', '.join(datasets.KNOWN)}")
    if options.to == "":
        raise UserError("--to: the name of the folder is empty")
    dataset = datasets.KNOWN[options.name]
    folder = Path(options.to) if options.to is not None else datasets.cache() / dataset.name
    record, made = datasets.fetch(dataset, folder, Line(), force=options.force)
    print(f"{'written to' if made else 'already there:'} {folder}")
    _count(record)
    _say_what_to_type(dataset, options.to)
    return 0


def _describe(dataset, folder: Path) -> None:
    from minitransformer.app.data.sets import record_of

    there = record_of(dataset, folder) is not None
    print(f"{dataset.name:8}  {dataset.title}")
    print(f"{'origin':8}  {dataset.origin}")
    print(f"{'licence':8}  {dataset.licence}")
    print(f"{'where':8}  {folder if there else f'not in the cache; fetch it by: minitransformer data {dataset.name}'}")


def _say_what_to_type(dataset, to: str | None) -> None:
    """The commands that use the data: by their name where they lie in the cache, else by their files."""

    def data(part: str) -> str:
        if to is None:
            return dataset.name
        file, valid = dataset.parts[part]
        quoted = [shlex.quote(str(Path(to) / name)) for name in (file, valid) if name is not None]
        return " --valid ".join(quoted)

    run = f"runs/{dataset.name}"
    print("next, one after the other:")
    print(f"  minitransformer pretrain {data('texts')} --out {run} --epochs 1 --max-len 256")
    print(f"  minitransformer finetune {data('labelled')} --from {run} --out {run}-labels --epochs 1")
    print(f"  minitransformer evaluate {data('test')} --model {run}-labels")


def _count(record: dict) -> None:
    """A row for each file: its texts, in all and by class, and its size."""
    from minitransformer.app.tables import table

    other = ("bytes", "sha256")
    columns = list(dict.fromkeys(key for counts in record["files"].values() for key in counts if key not in other))
    rows = []
    for name, counts in record["files"].items():
        numbers = [f"{counts[key]:,}" if key in counts else "" for key in columns]
        rows.append((name, *numbers, f"{counts['bytes'] / 1e6:.1f}"))
    print(table(("file", *columns, "MB"), rows, right=range(1, len(columns) + 2)))
    print(f"{record['duplicates']} duplicates left out")
