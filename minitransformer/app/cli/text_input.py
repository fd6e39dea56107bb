"""Texts from the command line, a file or a pipe."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from minitransformer.app.data import DataError, read_documents
from minitransformer.app.data.readers.lines import lines_as_they_come
from minitransformer.errors import UserError

STDIN = "<stdin>"
TOGETHER = 32  # lines of a pipe that are answered at a time
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
    given = _given(options)
    if given is not None:
        return given
    texts: list[str] = []
    letters = 0
    for group in piped():  # an endless pipe is refused before memory is full
        texts += group
        letters += sum(map(len, group))
        if letters > MOST_LETTERS:
            advice = "give them in parts (split -l), or in a file by --file"
            raise DataError(STDIN, len(texts), f"more than {MOST_LETTERS:,} letters", "fewer texts", advice)
    return texts


def groups_from(options: TextOptions) -> Iterator[list[str]]:
    """The same for commands that answer text by text: all at once, or the lines of a pipe as they come, a few at a
    time. Nothing at all is no group."""
    given = _given(options)
    if given is None:
        yield from piped()
    elif given:
        yield given


def _given(options: TextOptions) -> list[str] | None:
    """Texts of the command line or of a file; None for those of a pipe."""
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
    return [] if sys.stdin is None or sys.stdin.isatty() else None


def checked(text: str) -> str:
    """Python smuggles bytes that are not UTF-8 through the command line as lone surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UserError(f"{text!r} is not UTF-8: set your terminal to UTF-8, or use --file") from None
    return text


def piped() -> Iterator[list[str]]:
    """Lines from a pipe as they come, a few at a time. An endless line is refused before memory is full."""
    if sys.stdin is None:  # closed by whoever started the program
        return
    for lines in lines_as_they_come(STDIN, cast(io.BufferedReader, sys.stdin.buffer)):
        texts = [text.strip() for _, text in lines if text.strip()]
        for first in range(0, len(texts), TOGETHER):
            yield texts[first : first + TOGETHER]
