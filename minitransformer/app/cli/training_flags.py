"""What pretrain, finetune and train-translator have in common: flags, their way into options, and the run itself."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from minitransformer.app import ranks
from minitransformer.app.cli import numbers
from minitransformer.app.cli.main import add_backend
from minitransformer.app.cli.namespace import named
from minitransformer.app.cli.sizes import add_sizes, given_sizes
from minitransformer.app.tasks.options import DataOptions, TokenizerOptions, TrainingOptions
from minitransformer.app.tasks.recipes import PRESETS

if TYPE_CHECKING:
    from minitransformer.app.tasks.task import Task
    from minitransformer.app.training import Result

PARTS = {"LanguageModel": "texts", "Classifier": "labelled"}  # of a fetched data set, by the kind of model
AnyOptions = TypeVar("AnyOptions", bound=TrainingOptions)


def add_training(parser: argparse.ArgumentParser, out: str, texts: str, kind: str) -> None:
    """out: the usual folder; texts: what --texts counts; kind: of the model"""
    run = parser.add_argument_group("the run")
    run.add_argument("--out", default=out, metavar="DIR", help=f"folder of the run (default: {out})")
    run.add_argument("--resume", action="store_true", help="go on with the run in that folder, bit for bit")
    presets = tuple(PRESETS[kind])
    help = "lab: the labs' sizes and settings" + ("; llama: parts of today's models" if "llama" in presets else "")
    run.add_argument("--preset", choices=presets, default="default", help=help)
    run.add_argument("--steps", type=numbers.at_least_one, metavar="N", help="stop after so many updates")
    run.add_argument("--epochs", type=numbers.at_least_one, metavar="N", help="stop after so many passes over the data")
    help = "stop after so many minutes at the latest; how far a run would go is up to --steps or --epochs"
    run.add_argument("--minutes", type=numbers.positive, metavar="M", help=help)
    run.add_argument("--batch", type=numbers.at_least_one, metavar="N", help="texts in a batch")
    help = (
        "cut each batch into N slices, a power of two, whose gradients are added in a fixed order: the same bytes for "
        "any number of ranks, and memory for one slice at a time (default: 8 under mpiexec; without it batches stay "
        "whole)"
    )
    run.add_argument("--slices", "--accumulate", type=numbers.at_least_one, metavar="N", help=help)
    help = "layers keep their inputs only and are computed again in backward: less memory, more time, the same bits"
    run.add_argument("--recompute", action="store_true", help=help)
    run.add_argument("--lr", type=numbers.positive, metavar="X", help="highest learning rate")
    help = "steps in which the learning rate rises to its highest"
    run.add_argument("--warmup", type=numbers.at_least_zero, metavar="N", help=help)
    run.add_argument("--clip", type=numbers.positive, metavar="X", help="greatest norm of the gradient")
    help = "of weights, data order and built-in text"
    run.add_argument("--seed", type=numbers.at_least_zero, default=0, metavar="N", help=help)
    run.add_argument("--texts", type=numbers.at_least_one, metavar="N", help=texts)
    add_backend(run)
    add_sizes(parser, kind)


def add_tokenizer(parser: argparse.ArgumentParser, usual: str, lab: bool = True) -> None:
    """How text of the user's own becomes ids. usual: words or pieces; lab: also by the labs' files"""
    group = parser.add_argument_group("words of your own data")
    group.add_argument("--tokenizer", choices=("words", "pieces"), help=f"(default: {usual})")
    help = "at most so many words or pieces (default: 8,000)"
    group.add_argument("--vocabulary", type=numbers.at_least_one, metavar="N", help=help)
    if lab:
        group.add_argument("--dict", metavar="FILE", help="the labs' dict.txt (default: for .spm data, beside them)")
        group.add_argument("--sentencepiece", metavar="FILE", help="a sentencepiece model to use instead of a new one")


def data_options(arguments: argparse.Namespace, part: str | None) -> DataOptions:
    """Where texts come from. A file that is missing is refused here, before anything is said about a run.
    part: of a fetched data set, if DATA is the name of one"""
    from minitransformer.app.data.readers.lines import require_file
    from minitransformer.app.data.sets import files_of

    options = DataOptions(path=arguments.data, **named(DataOptions, arguments))
    if options.path is not None and part is not None and (files := files_of(options.path, part)):
        options = replace(options, path=files[0], valid=options.valid or files[1])
    for path in (options.path, options.valid if options.path is not None else None):
        if path is not None:
            require_file(path)
    return options


def training_options(kind: type[AnyOptions], arguments: argparse.Namespace, model: str, **more: Any) -> AnyOptions:
    """What the user asked for. model: the kind that is trained; more: fields that are not as the user types them"""
    ranks.world()  # before any work is done: under mpiexec it fails here, or not at all
    parts = {
        "data": data_options(arguments, PARTS.get(model)),
        "words": TokenizerOptions(**named(TokenizerOptions, arguments)),
        "sizes": given_sizes(arguments, model),
    }
    return kind(**named(kind, arguments) | parts | more)


def carry_out(
    task: Task, options: TrainingOptions, program: str, summary: Callable[[Result], list[tuple[str, str]]]
) -> int:
    """Trains, tells the end, and returns the exit code. program: how the command line begins that is to be repeated"""
    from minitransformer.app.tasks.task import run
    from minitransformer.app.training import resume_command

    first, *rest = program.split()
    again = resume_command(first, [*rest, *sys.argv[1:]])
    everybody = ranks.world() if ranks.under_mpi() else None
    if everybody is not None:
        again = f"mpiexec -n {everybody.size} {again}"
    result = run(
        task, folder=options.out, resume=options.resume, seed=options.seed, command=again, slices=options.slices,
        recompute=options.recompute, ranks=everybody,
    )  # fmt: skip
    if result.interrupted:
        return 128 + result.signal if result.signal else 0
    if ranks.is_first():
        report(summary(result))
    return 0


def report(rows: list[tuple[str, str]]) -> None:
    """Names and values below each other, on stdout."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:{width}}  {value}", flush=True)
