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

from minitransformer.cli import UserError

from . import _options, _using


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", nargs="?", metavar="DATA", help="a file like the one it was trained on")
    parser.add_argument("--texts", type=_options.whole, default=1000, metavar="N", help="fresh built-in ones (1000)")
    parser.add_argument("--seed", type=_options.count, default=0, metavar="N", help="of the fresh text (default: 0)")
    parser.add_argument("--beam", type=_options.whole, default=1, metavar="K", help="of a translator (default: greedy)")
    parser.add_argument("--text-column", metavar="NAME", help="of a table (default: text); a number: no header")
    parser.add_argument("--label-column", metavar="NAME", help="of a table (default: label); a number: no header")
    parser.add_argument("--last", action="store_true", help="the last weights of the run, not those best on validation")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    _using.add_model(parser, "every run in runs/pretrain, runs/finetune and runs/translator")


def run(arguments: argparse.Namespace) -> int:
    from minitransformer.tasks.evaluating import evaluation
    from minitransformer.tasks.trained import COMMANDS, FOLDERS, exists, open_model

    paths = [arguments.model] if arguments.model else [FOLDERS[kind] for kind in FOLDERS if exists(kind)]
    if not paths:
        commands = ", ".join(f"`minitransformer {command}`" for command in COMMANDS.values())
        raise UserError(f"there is no trained model in runs/ yet: make one with {commands}, or name one with --model")
    if arguments.data is not None and len(paths) > 1:
        raise UserError(f"which model is {arguments.data} for? name it with --model: {', '.join(paths)}")
    reports = {}
    for number, path in enumerate(paths):
        trained = open_model(path, None, which="latest" if arguments.last else "best")
        if not arguments.json:
            print("\n" * bool(number), end="", flush=True)
            _using.announce(trained)
        measured = evaluation(trained, arguments)
        reports[trained.path] = measured.values
        if not arguments.json:
            _options.report(measured.lines)
    if arguments.json:
        import json

        print(json.dumps(reports, indent=2))
    return 0
