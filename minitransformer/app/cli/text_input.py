"""Texts from the command line, a file or a pipe."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from minitransformer.app.data import DataError, read_documents
from minitransformer.app.data.readers.lines import numbered_lines
from minitransformer.errors import UserError

STDIN = "<stdin>"
MOST_LETTERS = 64 * 2**20  # from a pipe: what they become in ids takes some gigabytes


@dataclass(frozen=True)
class TextOptions:
    """Of the commands that answer to texts."""

    text: Sequence[str] = ()
    file: str | None = None
    model: str | None = None
    beam: int = 1


def add_input(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("text", nargs="*", help=f"{what}, each in quotes (default: lines from a pipe)")
    parser.add_argument("--file", metavar="FILE", help="read them from a file: lines, .tsv, .csv, .jsonl or .spm")


def texts_from(options: TextOptions) -> list[str]:
    """What the user gave, one way or another; nothing at all is an empty list."""
    if options.file is not None:
        if options.text:
            raise UserError("texts on the command line and --file: give one or the other")
        return read_documents(options.file)
    if options.text:
        for number, text in enumerate(options.text, 1):
            if not text.strip():
                which = f"text {number} of {len(options.text)}" if len(options.text) > 1 else "the text"
                raise UserError(f"{which} is empty: write something between the quotes, or leave it out")
        return [checked(text) for text in options.text]
    return [] if sys.stdin is None or sys.stdin.isatty() else piped()


def checked(text: str) -> str:
    """Python smuggles bytes that are not UTF-8 through the command line as lone surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UserError(f"{text!r} is not UTF-8: set your terminal to UTF-8, or use --file") from None
    return text


def piped() -> list[str]:
    """Lines from a pipe, read one by one: an endless one, or endless lines, are refused before memory is full."""
    lines, total = [], 0
    for number, text in numbered_lines(STDIN, content=sys.stdin.buffer):
        total += len(text)
        if total > MOST_LETTERS:
            advice = "give them in parts (split -l), or in a file by --file"
            raise DataError(STDIN, number, f"more than {MOST_LETTERS:,} letters", "fewer texts", advice)
        if text.strip():
            lines.append(text.strip())
    return lines
