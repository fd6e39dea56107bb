"""Train a classifier: the base of a language model gets a new head and learns from labelled texts.

With no data it learns to tell praise from blame in built-in book reviews. DATA is a table with the columns text and
label (.tsv, .csv, .jsonl), or the labs' x.review.spm beside x.label; imdb stands for what `minitransformer data imdb`
has fetched: its train.tsv, and valid.tsv to validate on.

examples:
  minitransformer finetune                                     on the language model in runs/pretrain
  minitransformer finetune --scratch --out runs/scratch        the same without pretraining, to compare
  minitransformer finetune reviews.tsv --from runs/books --out runs/opinions
  minitransformer finetune imdb --from runs/imdb --out runs/opinions --epochs 1
  minitransformer finetune --from runs/masked --out runs/both   after pretrain --objective masked
  minitransformer finetune reviews.tsv --from minilm --out runs/opinions    on a model of others, fetched by pip
  minitransformer finetune train.review.spm --valid test.review.spm --from runs/imdb --preset lab
"""

import argparse
from collections.abc import Sequence

from minitransformer.app.cli import training_flags as _training
from minitransformer.app.tasks import classifying
from minitransformer.app.tasks.classifying import FinetuneOptions
from minitransformer.app.tasks.task import Task
from minitransformer.app.training import Result
from minitransformer.config import POOLINGS

OUT = "runs/finetune"


def add_arguments(parser: argparse.ArgumentParser, poolings: Sequence[str] = POOLINGS) -> None:
    parser.add_argument(
        "data", nargs="?", metavar="DATA", help="labelled texts, or imdb (default: the built-in language)"
    )
    parser.add_argument("--valid", metavar="FILE", help="labelled texts to validate on (default: a twentieth of DATA)")
    start = parser.add_mutually_exclusive_group()
    start.add_argument(
        "--from",
        dest="base",
        metavar="RUN",
        help="language model to start from, or a BERT: minilm, or a folder of its files (default: runs/pretrain)",
    )
    start.add_argument("--scratch", action="store_true", help="start from random weights")
    parser.add_argument("--text-column", metavar="NAME", help="of a table (default: text); a number: no header")
    parser.add_argument("--label-column", metavar="NAME", help="of a table (default: label); a number: no header")
    help = "what the head reads (default: last; mean after --objective masked)"
    parser.add_argument("--pooling", choices=poolings, help=help)
    _training.add_training(parser, OUT, "built-in labelled reviews to learn from", "Classifier")
    _training.add_tokenizer(parser, "pieces")


def options_from(arguments: argparse.Namespace) -> FinetuneOptions:
    return _training.training_options(FinetuneOptions, arguments, "Classifier")


def run(arguments: argparse.Namespace) -> int:
    options = options_from(arguments)
    return carry_out(classifying.task(options, classifying.base_of(options)), options, arguments.program)


def carry_out(task: Task, options: FinetuneOptions, program: str) -> int:
    """Trains, with words about it before and after."""
    classes = ", ".join(task.settings["labels"][:6])
    print(f"classifier ({classes}), {task.model.num_parameters():,} weights")
    print(f"starts from {task.starts_from or 'random weights'}", flush=True)
    return _training.carry_out(task, options, program, lambda result: _summary(result, options, program))


def _summary(result: Result, options: FinetuneOptions, program: str) -> list[tuple[str, str]]:
    rows = []
    if result.best and result.best["metric"] == "accuracy":
        rows.append(("accuracy", f"{result.best['value']:.1%} on texts held back, at best"))
    elif result.best:
        rows.append(("loss", f"{result.best['value']:.3f} nats a text on the few texts held back, at best"))
    if options.data.path is None:
        from minitransformer.app.language import reviews

        rows.append(("best possible", f"{reviews().best_accuracy():.1%}: some reviews never commit themselves"))
    where = "" if options.out == OUT else f" --model {options.out}"
    rows.append(("try", f"{program} classify{where}"))
    return rows
