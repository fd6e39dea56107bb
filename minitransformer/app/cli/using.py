"""What the commands that use a trained model have in common."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from minitransformer.app.cli.main import add_backend
from minitransformer.app.cli.text_input import TextOptions, groups_from

if TYPE_CHECKING:
    from minitransformer.app.tasks.text_codec import TextCodec
    from minitransformer.app.tasks.trained import Trained


def add_model(parser: argparse.ArgumentParser, folder: str, more: str = "") -> None:
    help = f"folder of a run, or one of its step-*.json files{more} (default: {folder})"
    parser.add_argument("--model", metavar="RUN", help=help)
    add_backend(parser)


def opened(options: TextOptions, kind: str) -> tuple[Trained, list[str], Iterator[list[str]]]:
    """The model, the first texts to answer to and those still to come. Texts are looked at before the model is read: a
    mistake in them costs no waiting."""
    from minitransformer.app.tasks.trained import open_model

    groups = groups_from(options)
    first = next(groups, [])
    trained = open_model(options.model, kind)
    announce(trained)
    return trained, first, groups


def announce(trained: Trained) -> None:
    """Which checkpoint is used, on stderr: the result alone goes down a pipe."""
    print(f"using {trained.path} ({trained.checkpoint.step:,} steps)", file=sys.stderr, flush=True)


def note_unknown(codec: TextCodec, texts: Sequence[str]) -> bool:
    """Words the model cannot know are worth a warning: its answer does not depend on them. Whether there are some"""
    unknown = list(dict.fromkeys(word for text in texts for word in codec.unknown(text)))
    if unknown:
        shown = ", ".join(unknown[:8]) + (f" and {len(unknown) - 8} more" if len(unknown) > 8 else "")
        print(f"note: the model has never seen: {shown}", file=sys.stderr, flush=True)
    return bool(unknown)


def compile_first(model: Any) -> None:
    """Has kernels compiled that the second word of a text is the first to need. What is said of it would else stand in
    the middle of a line."""
    from minitransformer.decoding import generate

    if model.config.max_len > 2:
        generate(model, [[0]], max_new_tokens=2)


def tell_rate(pieces: int, started: float) -> None:
    """How fast a text was written since time.monotonic() was `started`, on stderr."""
    rate = pieces / max(time.monotonic() - started, 1e-9)
    print(f"({pieces} pieces, {rate:.1f} a second)", file=sys.stderr, flush=True)
