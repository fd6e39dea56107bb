"""Measure a trained model on data it has not seen.

A language model: loss and perplexity, of hidden words if it was trained on those. A classifier: accuracy with its 95 %
interval (Wilson). A translator: loss, BLEU (sacrebleu) and how many sentences are exactly right. With no DATA, a model
of the built-in language is measured on fresh text and held against the best that is possible at all; with no model
named, every default run there is.

examples:
  minitransformer evaluate
  minitransformer evaluate --model runs/scratch
  minitransformer evaluate test.tsv --model runs/opinions
"""

import argparse
import json
import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from minitransformer.app.cli import numbers
from minitransformer.app.cli import using as _using
from minitransformer.app.cli.namespace import named, options_of
from minitransformer.app.cli.training_flags import data_options, report
from minitransformer.app.tasks.evaluating import EvaluateOptions, evaluation
from minitransformer.app.tasks.objectives import OBJECTIVES, Objective
from minitransformer.app.tasks.options import DataOptions, flag
from minitransformer.app.tasks.trained import COMMANDS, FOLDERS, NAMES, Trained, exists, open_model
from minitransformer.errors import UserError

# option → the kinds of models that have use for it
USES = {"beam": ("Translator",), "text_column": ("LanguageModel", "Classifier"), "label_column": ("Classifier",)}
MERELY_PRINTS = True


@dataclass(frozen=True)
class Options:
    """Of the command; those of a measurement are EvaluateOptions."""

    model: str | None = None
    last: bool = False
    json: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", nargs="?", metavar="DATA", help="a file like the one it was trained on, or imdb")
    parser.add_argument("--texts", type=numbers.at_least_one, metavar="N", help="fresh built-in ones (default: 1000)")
    parser.add_argument("--seed", type=numbers.at_least_zero, metavar="N", help="of the fresh text (default: 0)")
    parser.add_argument("--beam", type=numbers.at_least_one, metavar="K", help="of a translator (default: greedy)")
    parser.add_argument("--text-column", metavar="NAME", help="of a table (default: text); a number: no header")
    parser.add_argument("--label-column", metavar="NAME", help="of a table (default: label); a number: no header")
    parser.add_argument("--last", action="store_true", help="the last weights of the run, not those best on validation")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    _using.add_model(parser, "every run in runs/pretrain, runs/finetune and runs/translator")


def run(arguments: argparse.Namespace, objectives: Mapping[str, Objective] = OBJECTIVES) -> int:
    command, data = options_of(Options, arguments), data_options(arguments, "test")
    options = EvaluateOptions(**named(EvaluateOptions, arguments) | {"data": data})
    paths = [command.model] if command.model else [FOLDERS[kind] for kind in FOLDERS if exists(kind)]
    if not paths:
        commands = ", ".join(f"`minitransformer {command}`" for command in COMMANDS.values())
        raise UserError(f"there is no trained model in runs/ yet: make one with {commands}, or name one with --model")
    if data.path is not None and len(paths) > 1:
        raise UserError(f"which model is {data.path} for? name it with --model: {', '.join(paths)}")
    if command.last and command.model and not os.path.isdir(command.model):
        raise UserError(f"--last chooses among the weights of a run, and {command.model} names some: omit it")
    models = [open_model(path, None, which="latest" if command.last else "best") for path in paths]
    if not command.model and data.path is None:
        others = [trained for trained in models if not trained.builtin]
        if len(others) < len(models):
            models = [trained for trained in models if trained.builtin]
            for trained in others:
                print(f"left out: {trained.path}, which needs data of its own (DATA --model RUN)", file=sys.stderr)
    for trained in models:
        _refuse_idle(named(EvaluateOptions, arguments) | named(DataOptions, arguments), data.path, command, trained)
    reports = {}
    for number, trained in enumerate(models):
        if not command.json:
            print("\n" * bool(number), end="", flush=True)
            _using.announce(trained)
        measured = evaluation(trained, options, objectives)
        reports[trained.path] = measured.values
        if not command.json:
            report(measured.lines)
    if command.json:
        print(json.dumps(reports, indent=2))
    return 0


def _refuse_idle(given: Collection[str], path: str | None, command: Options, trained: Trained) -> None:
    """Options that would do nothing for this model, if it is the only one."""
    for name in given:
        if name in ("texts", "seed") and path is not None:
            raise UserError(f"{flag(name)} is about fresh built-in text: omit it, or do without DATA")
        if name in ("text_column", "label_column") and path is None:
            raise UserError(f"{flag(name)} is about data of your own: give DATA, or omit it")
    if not command.model and path is None:
        return  # each has some use for one of the models
    for name, kinds in USES.items():
        if name in given and trained.kind not in kinds:
            raise UserError(f"{flag(name)} is nothing that {NAMES[trained.kind]} has use for: omit it")
