"""Train a classifier: the base of a language model gets a new head and learns from labelled texts.

With no data it learns to tell praise from blame in built-in book reviews. DATA is a table with the columns text and
label (.tsv, .csv, .jsonl), or the labs' x.review.spm beside x.label.

examples:
  minitransformer finetune                                     on the language model in runs/pretrain
  minitransformer finetune --scratch --out runs/scratch        the same without pretraining, to compare
  minitransformer finetune reviews.tsv --from runs/books --out runs/opinions
  minitransformer finetune --from runs/masked --out runs/both   after pretrain --objective masked
  minitransformer finetune train.review.spm --valid test.review.spm --from runs/imdb --preset lab
"""

import argparse

from minitransformer.app.cli import options as _options
from minitransformer.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", nargs="?", metavar="DATA", help="labelled texts (default: the built-in language)")
    parser.add_argument("--valid", metavar="FILE", help="labelled texts to validate on (default: a twentieth of DATA)")
    start = parser.add_mutually_exclusive_group()
    start.add_argument(
        "--from", dest="base", metavar="RUN", help="language model to start from (default: runs/pretrain)"
    )
    start.add_argument("--scratch", action="store_true", help="start from random weights")
    parser.add_argument("--text-column", metavar="NAME", help="of a table (default: text); a number: no header")
    parser.add_argument("--label-column", metavar="NAME", help="of a table (default: label); a number: no header")
    parser.add_argument(
        "--pooling",
        choices=("last", "mean", "last_column", "stream"),
        help="what the head reads (default: last; mean after --objective masked, stream after bag); stream: the mean "
        "of pre-norm layers before any norm, in which words can be louder than others",
    )
    parser.add_argument(
        "--word-dropout",
        type=_options.dropout,
        metavar="P",
        help="part of the words hidden while training (default: 0)",
    )
    help = "learning rate of the layers, as a part of that of words and head (default: 1)"
    parser.add_argument("--layer-rate", type=_options.part, metavar="P", help=help)
    help = "with --scratch and a pooling of mean or stream: starts as hardly more than the mean of its words"
    parser.add_argument("--quiet-start", action="store_true", help=help)
    _options.add_training(parser, "runs/finetune", "built-in labelled reviews to learn from")
    _options.add_tokenizer(parser, "pieces", 8000)


def run(arguments: argparse.Namespace) -> int:
    from minitransformer.app.tasks import classifying, recipes, runs
    from minitransformer.app.tasks.trained import open_model

    recipe = recipes.choose(recipes.FINETUNE, arguments)
    if recipe.model["max_len"] < 2:
        raise UserError("--max-len 1: there is no room for a word; give at least 2")
    former = runs.former_run(arguments.out, arguments.resume, "Classifier")
    base = None
    if arguments.quiet_start and not arguments.scratch:
        raise UserError("--quiet-start is about random weights: add --scratch")
    if arguments.quiet_start and arguments.pooling not in ("mean", "stream"):
        raise UserError("--quiet-start is about a mean of words: add --pooling mean or --pooling stream")
    if arguments.pooling == "stream" and arguments.scratch and not recipe.model.get("norm_first"):
        raise UserError("--pooling stream reads what layers with their norm first have summed up: add --norm-first")
    if not arguments.scratch:
        _options.refuse_sizes(arguments, "give them to pretrain, or add --scratch")
        base = open_model(arguments.base, "LanguageModel", ", or add --scratch to do without")
    _options.settle_data(arguments, based=base is not None)
    task = classifying.task(recipe, arguments, former, base)
    classes = ", ".join(task.settings["labels"][:6])
    print(f"classifier ({classes}), {task.model.num_parameters():,} weights")
    print(f"starts from {base.path if base else 'random weights'}", flush=True)
    result = runs.run(
        task, recipe, folder=arguments.out, resume=arguments.resume, seed=arguments.seed, command=_options.go_on()
    )
    if not result.interrupted:
        _options.report(_summary(task, result, arguments))
    return _options.exit_code(result)


def _summary(task, result, arguments) -> list[tuple[str, str]]:
    rows = []
    if result.best:
        rows.append(("accuracy", f"{result.best['value']:.1%} on texts held back, at best"))
    if arguments.data is None:
        from minitransformer.app.language import reviews

        rows.append(("best possible", f"{reviews().best_accuracy():.1%}: some reviews never commit themselves"))
    where = "" if arguments.out == "runs/finetune" else f" --model {arguments.out}"
    rows.append(("try", f"minitransformer classify{where}"))
    return rows
