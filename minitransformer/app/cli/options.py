"""Options and numbers that several commands share."""

from __future__ import annotations

import argparse
import math
import sys
from typing import Any

from minitransformer.app.cli.main import add_backend
from minitransformer.app.training import Result, resume_command
from minitransformer.errors import UserError


def whole(text: str) -> int:
    """A whole number from 1 on."""
    return _number(text, int, 1, "a whole number from 1 on")


def count(text: str) -> int:
    """A whole number from 0 on."""
    return _number(text, int, 0, "a whole number from 0 on")


def positive(text: str) -> float:
    """A number above 0."""
    return _number(text, float, math.ulp(0.0), "a number above 0")


def part(text: str) -> float:
    """A number above 0 and at most 1."""
    value = positive(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number above 0 and at most 1")
    return value


def dropout(text: str) -> float:
    value = _number(text, float, 0.0, "a number from 0 to below 1")
    if value >= 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from 0 to below 1")
    return value


def _number(text: str, kind: Any, least: float, expected: str) -> Any:
    try:
        value = kind(text)
        if least <= value < math.inf and value < 2**63:
            return value
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r}: give {expected}")


def add_training(parser: argparse.ArgumentParser, out: str, built_in: str, tied: bool = False) -> None:
    """What pretrain, finetune and train-translator have in common. tied: the head may share the embedding."""
    run = parser.add_argument_group("the run")
    run.add_argument("--out", default=out, metavar="DIR", help=f"folder of the run (default: {out})")
    run.add_argument("--resume", action="store_true", help="go on with the run in that folder, bit for bit")
    run.add_argument(
        "--preset", choices=("default", "lab"), default="default", help="lab: the labs' sizes and settings"
    )
    run.add_argument("--steps", type=whole, metavar="N", help="stop after so many updates")
    run.add_argument("--epochs", type=whole, metavar="N", help="stop after so many passes over the data")
    help = "stop after so many minutes at the latest; how far a run would go is up to --steps or --epochs"
    run.add_argument("--minutes", type=positive, metavar="M", help=help)
    run.add_argument("--batch", type=whole, metavar="N", help="texts in a batch")
    run.add_argument("--lr", type=positive, metavar="X", help="highest learning rate")
    run.add_argument("--warmup", type=count, metavar="N", help="steps in which the learning rate rises to its highest")
    run.add_argument("--clip", type=positive, metavar="X", help="greatest norm of the gradient")
    run.add_argument("--seed", type=count, default=0, metavar="N", help="of weights, data order and built-in text")
    run.add_argument("--texts", type=whole, metavar="N", help=built_in)
    add_backend(run)  # type: ignore[arg-type]
    sizes = parser.add_argument_group("sizes of the model")
    sizes.add_argument("--width", dest="d_model", type=whole, metavar="C", help="width of the network")
    sizes.add_argument("--heads", dest="n_heads", type=whole, metavar="H", help="attention heads")
    sizes.add_argument("--layers", dest="n_layers", type=whole, metavar="N", help="layers (of each stack)")
    sizes.add_argument("--ff", dest="d_ff", type=whole, metavar="F", help="width inside the feed-forward layers")
    sizes.add_argument("--max-len", type=whole, metavar="T", help="longest text, in words or pieces")
    sizes.add_argument("--dropout", type=dropout, metavar="P", help="part of the activations dropped while training")
    sizes.add_argument("--activation", choices=("relu", "gelu", "tanh"), help="inside the feed-forward layers")
    sizes.add_argument(
        "--norm-first", action=argparse.BooleanOptionalAction, help="norm before each sublayer, not after it"
    )
    if tied:
        help = "the head uses the words' embedding as its weight"
        sizes.add_argument("--tie-weights", action="store_true", default=None, help=help)


def refuse_sizes(arguments: argparse.Namespace, advice: str) -> None:
    """A model that starts from another one has its sizes; only dropout may differ, for it has no weights."""
    fixed = ("d_model", "n_heads", "n_layers", "d_ff", "max_len", "activation", "norm_first", "tie_weights")
    if any(getattr(arguments, name, None) is not None for name in fixed):
        raise UserError(f"the sizes are those of the language model: {advice}")


def add_tokenizer(parser: argparse.ArgumentParser, kind: str, vocabulary: int, lab: bool = True) -> None:
    """How text of the user's own becomes ids."""
    group = parser.add_argument_group("words of your own data")
    group.add_argument("--tokenizer", choices=("words", "pieces"), help=f"(default: {kind})")
    help = f"at most so many words or pieces (default: {vocabulary:,})"
    group.add_argument("--vocabulary", type=whole, metavar="N", help=help)
    parser.set_defaults(usual_words=(kind, vocabulary))
    if lab:
        group.add_argument("--dict", metavar="FILE", help="the labs' dict.txt (default: for .spm data, beside them)")
        group.add_argument("--sentencepiece", metavar="FILE", help="a sentencepiece model to use instead of a new one")


WORDS = ("tokenizer", "vocabulary", "dict", "sentencepiece")


def settle_data(arguments: argparse.Namespace, based: bool = False) -> None:
    """Refuses what would do nothing, and fills in how words are made unless told otherwise.
    based: on a language model, whose words it has"""
    own = given(arguments, "valid", "text_column", "label_column", *WORDS)
    if own and arguments.data is None:
        raise UserError(f"{own[0]} is about data of your own: give DATA, or leave it away")
    if arguments.texts is not None and arguments.data is not None:
        raise UserError("--texts counts built-in texts: leave it away, or do without DATA")
    words = given(arguments, *WORDS)
    if words and based:
        raise UserError(f"{words[0]}: the words are those of the language model; leave it away")
    kind, vocabulary = arguments.usual_words
    arguments.tokenizer = arguments.tokenizer or kind
    arguments.vocabulary = arguments.vocabulary or vocabulary


def given(arguments: argparse.Namespace, *names: str) -> list[str]:
    """Those of these options that the user gave, as they are typed."""
    return [f"--{name.replace('_', '-')}" for name in names if getattr(arguments, name, None) is not None]


def go_on() -> str:
    """The command line that resumes this one."""
    return resume_command("minitransformer", sys.argv[1:])


def exit_code(result: Result) -> int:
    return 128 + result.signal if result.interrupted and result.signal else 0


def report(rows: list[tuple[str, str]]) -> None:
    """Names and values below each other, on stdout."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:{width}}  {value}", flush=True)
