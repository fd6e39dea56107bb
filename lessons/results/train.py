"""The commands of minitransformer, with what only the results on real text use:

  python -m lessons.results.train pretrain reviews.txt --objective bag --norm-first --out runs/bag
  python -m lessons.results.train pretrain books.txt --sampled-words 2500 --out runs/books
  python -m lessons.results.train finetune reviews.tsv --from runs/bag --word-dropout 0.2 --layer-rate 0.1 --out runs/a
  python -m lessons.results.train finetune reviews.tsv --scratch --pooling stream --quiet-start --out runs/b
  python -m lessons.results.train evaluate test.tsv --model runs/a

Each of them is the very command of minitransformer; it makes a task, which is changed here before it is carried out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lessons.results import models
from lessons.results.bag_objective import BAG
from lessons.results.layer_rates import RatedAdam
from lessons.results.word_dropout import WordDropout
from lessons.results.word_sample import WordSample
from minitransformer.app.cli import evaluate, finetune, numbers, pretrain
from minitransformer.app.cli.main import Command
from minitransformer.app.cli.main import main as minitransformer
from minitransformer.app.data import Tokenizer
from minitransformer.app.tasks import classifying, modelling, recipes
from minitransformer.app.tasks.classifying import FinetuneOptions
from minitransformer.app.tasks.objectives import OBJECTIVES
from minitransformer.app.tasks.options import TrainingOptions
from minitransformer.app.tasks.task import Task
from minitransformer.app.tasks.trained import Trained
from minitransformer.config import POOLINGS
from minitransformer.errors import UserError, make_or_refuse
from minitransformer.models import Classifier

PROGRAM = "python -m lessons.results.train"
KNOWN = {**OBJECTIVES, BAG.name: BAG}
STREAM = "stream"  # the mean of pre-norm layers before any norm, in which words can be louder than others


def _needs_norm_first(flags: str, presets: dict[str, recipes.Recipe], options: TrainingOptions) -> None:
    if not options.sizes.get("norm_first", presets[options.preset].model.norm_first):
        raise UserError(f"{flags} reads what layers with their norm first have summed up: add --norm-first")


# ---------------------------------------------------------------------------------------------------- pretrain


def add_pretrain(parser: argparse.ArgumentParser) -> None:
    pretrain.add_arguments(parser, KNOWN)
    help = (
        "score about N words in training, another sample each step, instead of the whole vocabulary: reads more "
        "text in the same time; what is measured is the whole model"
    )
    parser.add_argument("--sampled-words", type=numbers.at_least_one, metavar="N", help=help)


def run_pretrain(arguments: argparse.Namespace) -> int:
    options, sampled = pretrain.options_from(arguments, KNOWN), arguments.sampled_words
    if options.objective is BAG and options.base is None:
        _needs_norm_first("--objective bag", recipes.PRETRAIN, options)
    if sampled is not None and (options.data.path is None or options.objective is BAG):
        what = "a bag is predicted once a text" if options.data.path else "the built-in language has few words"
        raise UserError(f"--sampled-words is for predicting many words out of many: {what}; omit it")
    task = modelling.task(options)
    if sampled is not None:
        task = with_sampled_words(task, sampled, hidden=options.objective.rate is not None)
    return pretrain.carry_out(task, options, PROGRAM)


def with_sampled_words(task: Task, size: int, hidden: bool) -> Task:
    """The same with an estimated loss, of about `size` words. hidden: hidden words are predicted, not the next ones"""
    counts = predicted(task.batches.documents, task.codecs["text"].tokenizer, task.batches.max_len, hidden)
    sample = make_or_refuse(WordSample, counts, size)

    def loss(model: Any, batch: Any) -> Any:
        return models.sampled_loss(
            model, batch.ids, batch.targets, sample, ignore_index=batch.ignore, lengths=batch.lengths
        )

    return replace(task, loss_of=loss, settings=task.settings | {"sampled_words": size})


def predicted(documents: Sequence[np.ndarray], tokenizer: Tokenizer, max_len: int, hidden: bool) -> np.ndarray:
    """(V) how often each word is to be predicted: of hidden ones the ordinary, else all that follow, and the end."""
    read = [document[: max_len - hidden] for document in documents]
    counts = np.bincount(np.concatenate(read), minlength=tokenizer.vocab_size)
    if hidden:
        counts[list(tokenizer.specials.values())] = 0
    else:
        counts[tokenizer.eos] += sum(len(document) < max_len for document in documents)
    return counts


# ---------------------------------------------------------------------------------------------------- finetune


def add_finetune(parser: argparse.ArgumentParser) -> None:
    finetune.add_arguments(parser, (*POOLINGS, STREAM))
    help = "part of the words hidden while training (default: 0)"
    parser.add_argument("--word-dropout", type=numbers.below_one, metavar="P", help=help)
    help = "learning rate of the layers, as a part of that of words and head (default: 1)"
    parser.add_argument("--layer-rate", type=numbers.fraction, metavar="P", help=help)
    help = "with --scratch and a pooling of mean or stream: starts as hardly more than the mean of its words"
    parser.add_argument("--quiet-start", action="store_true", help=help)


def run_finetune(arguments: argparse.Namespace) -> int:
    options = finetune.options_from(arguments)
    if arguments.quiet_start and not options.scratch:
        raise UserError("--quiet-start is about random weights: add --scratch")
    if arguments.quiet_start and options.pooling not in ("mean", STREAM):
        raise UserError("--quiet-start is about a mean of words: add --pooling mean or --pooling stream")
    if options.pooling == STREAM and options.scratch:
        _needs_norm_first("--pooling stream", recipes.FINETUNE, options)
    base = classifying.base_of(options)
    task = finetuning(options, base, arguments.quiet_start)
    if arguments.word_dropout:
        task = with_word_dropout(task, arguments.word_dropout)
    if arguments.layer_rate is not None:
        task = with_layer_rate(task, arguments.layer_rate)
    return finetune.carry_out(task, options, PROGRAM)


def finetuning(options: FinetuneOptions, base: Trained | None, quiet: bool = False) -> Task:
    """A classifier that may read a stream: what it does on the base of a bag of words, which was trained on one."""
    bag = base is not None and isinstance(base.model, models.BagModel)
    stream = options.pooling == STREAM or (bag and options.pooling is None)
    if bag and not stream:
        raise UserError(f"{options.base}: a bag of words is read by --pooling stream; omit --pooling {options.pooling}")
    kinds: dict[tuple[bool, bool], type[Classifier]] = {
        (False, False): Classifier,
        (True, False): models.StreamClassifier,
        (False, True): models.QuietClassifier,
        (True, True): models.QuietStreamClassifier,
    }
    if stream:
        options = replace(options, pooling="mean")
    return classifying.task(options, base, kinds[stream, quiet])


def with_word_dropout(task: Task, rate: float) -> Task:
    tokenizer = task.codecs["text"].tokenizer
    hidden = tokenizer.specials.get("[MASK]", tokenizer.oov)
    batches = WordDropout(task.batches, rate, hidden)
    return replace(task, batches=batches, settings=task.settings | {"word_dropout": rate})


def with_layer_rate(task: Task, rate: float) -> Task:
    optimizer = partial(RatedAdam, rates={"base.encoder.": rate})
    return replace(task, optimizer=optimizer, settings=task.settings | {"layer_rate": rate})


# ---------------------------------------------------------------------------------------------------- command line


COMMANDS = {
    "pretrain": Command(pretrain.__doc__, add_pretrain, run_pretrain),
    "finetune": Command(finetune.__doc__, add_finetune, run_finetune),
    "evaluate": Command(evaluate.__doc__, evaluate.add_arguments, partial(evaluate.run, objectives=KNOWN)),
}


def main(arguments: Sequence[str] | None = None) -> int:
    return minitransformer(arguments, PROGRAM, COMMANDS)


if __name__ == "__main__":
    sys.exit(main())
