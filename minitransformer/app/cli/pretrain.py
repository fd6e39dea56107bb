"""Train a language model: it reads text and learns to predict the next word, or words hidden in it.

With no data it learns the built-in language of book reviews, whose best possible loss is known. DATA has one document
a line (.txt, .spm with its dict.txt) or a text column (.tsv, .csv, .jsonl); imdb stands for what `minitransformer data
imdb` has fetched.

examples:
  minitransformer pretrain                                     built-in reviews, about a minute
  minitransformer pretrain books.txt --out runs/books --epochs 3 --max-len 256
  minitransformer pretrain imdb --out runs/imdb --epochs 1 --max-len 256
  minitransformer pretrain imdb.review.spm --dict dict.txt --preset lab
  minitransformer pretrain --objective masked --out runs/masked   hidden words, read from both sides: for finetune
  minitransformer pretrain reviews.txt --from runs/books --out runs/reviews   go on with text of another kind
  minitransformer pretrain --resume                            after Ctrl-C
"""

import argparse
import math
from collections.abc import Mapping

from minitransformer.app.cli import numbers
from minitransformer.app.cli import training_flags as _training
from minitransformer.app.tasks import modelling
from minitransformer.app.tasks.modelling import PretrainOptions
from minitransformer.app.tasks.objectives import OBJECTIVES, Objective
from minitransformer.app.tasks.task import Task
from minitransformer.app.training import Result

OUT = "runs/pretrain"


def add_arguments(parser: argparse.ArgumentParser, objectives: Mapping[str, Objective] = OBJECTIVES) -> None:
    parser.add_argument(
        "data", nargs="?", metavar="DATA", help="text to learn from, or imdb (default: the built-in language)"
    )
    parser.add_argument("--valid", metavar="FILE", help="text to validate on (default: a twentieth of DATA)")
    parser.add_argument("--text-column", metavar="NAME", help="of a table (default: text); a number: no header")
    parser.add_argument("--from", dest="base", metavar="RUN", help="language model to start from, with its words")
    told = "; ".join(f"{one.name}: {one.help}" for one in objectives.values())
    parser.add_argument("--objective", choices=tuple(objectives), default="next", help=f"{told} (default: next)")
    rates = ", ".join(f"{one.rate} ({one.name})" for one in objectives.values() if one.rate)
    help = f"part of the words hidden (default: {rates})"
    parser.add_argument("--mask-rate", type=numbers.fraction, metavar="P", help=help)
    _training.add_training(parser, OUT, "built-in reviews in an epoch", "LanguageModel")
    _training.add_tokenizer(parser, "pieces")


def options_from(arguments: argparse.Namespace, objectives: Mapping[str, Objective] = OBJECTIVES) -> PretrainOptions:
    objective = objectives[arguments.objective]
    return _training.training_options(PretrainOptions, arguments, "LanguageModel", objective=objective)


def run(arguments: argparse.Namespace) -> int:
    options = options_from(arguments)
    return carry_out(modelling.task(options), options, arguments.program)


def carry_out(task: Task, options: PretrainOptions, program: str) -> int:
    """Trains, with words about it before and after."""
    size = task.codecs["text"].tokenizer.vocab_size
    weights = task.model.num_parameters()
    print(f"{options.objective.title}, {size:,} words or pieces, {weights:,} weights", flush=True)
    if task.starts_from:
        print(f"starts from {task.starts_from}", flush=True)
    return _training.carry_out(task, options, program, lambda result: _summary(task, result, options, program))


def _summary(task: Task, result: Result, options: PretrainOptions, program: str) -> list[tuple[str, str]]:
    objective, rows = options.objective, []
    if result.best:
        loss = result.best["value"]
        perplexity = f"{math.exp(min(loss, 700)):.2f}"
        rows.append(("loss", f"{loss:.3f} nats a {objective.word} (perplexity {perplexity}) on unseen text"))
    if options.data.path is None and objective.rate is None:
        from minitransformer.app.language import reviews

        floor = reviews().best_loss()
        rows.append(("best possible", f"{floor:.3f} (perplexity {math.exp(floor):.2f}): the language's own entropy"))
    rows += objective.examples(task.model, task.codecs["text"], task.held_back)
    command, flag = objective.try_next.split()
    rows.append(("try", f"{program} {command}" + ("" if options.out == OUT else f" {flag} {options.out}")))
    return rows
