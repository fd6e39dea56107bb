"""Numbered lines of a UTF-8 text file, read with a bound on memory.

A line ends with "\\n" or "\\r\\n" and with nothing else. Python's `str.splitlines` also cuts at U+2028,
U+0085 and vertical tabs, which do occur inside reviews: every label after them would shift by one line.
"""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import BinaryIO

from minitransformer.errors import DataError, excerpt

Path = str | os.PathLike[str]

MAX_LINE_BYTES = 4 * 2**20
MAX_FILE_BYTES = 512 * 2**20  # for files that must be held whole: JSON and sentencepiece models


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open for reading; every failure of the operating system becomes a DataError, also while reading."""
    with _refusing(path), open(path, "rb") as file:
        yield file


def require_file(path: Path) -> None:
    """Refuse what is not there, without opening it: a pipe can be opened only once."""
    check_path(path)
    with _refusing(path):
        os.stat(path)


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        if os.path.isdir(path):  # not every system says so by itself
            raise IsADirectoryError
        yield
    except FileNotFoundError:
        raise DataError(path, 0, "no such file", "an existing file", "check the name") from None
    except IsADirectoryError:
        raise DataError(path, 0, "a directory", "a file", "name a file inside it") from None
    except PermissionError:
        raise DataError(path, 0, "a file you may not read", "a readable file", "change its mode") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(path, 0, f"an error of the system ({reason})", "a readable file", "check it") from None


def check_path(path: Path) -> None:
    """Refuse names that no system call accepts, before `open` answers with a ValueError of its own."""
    name = os.fspath(path)
    if not name or "\0" in name:
        raise DataError(path, 0, "an empty name or a NUL in it", "the name of a file", "check the name")


def numbered_lines(
    path: Path, max_bytes: int = MAX_LINE_BYTES, content: BinaryIO | None = None
) -> Iterator[tuple[int, str]]:
    """Yield `(number, text)` for each line, numbered from 1, without its end. A byte order mark is dropped.
    `content`: what the file holds, where it is open already or no file at all; then `path` is for errors only.

    Raises DataError for bytes that are not UTF-8, for NUL bytes and for a line over `max_bytes`. An empty
    file yields nothing: whether that is an error is for the caller to say (see `require_some`).
    """
    if content is None:
        check_path(path)
    with open_bytes(path) if content is None else nullcontext(content) as file:
        number = 0
        # Two bytes more than allowed, so that the line end does not count as content.
        while raw := file.readline(max_bytes + 2):
            number += 1
            yield number, _line(path, number, raw, max_bytes)


def lines_as_they_come(path: Path, stream: io.BufferedReader) -> Iterator[list[tuple[int, str]]]:
    """The same from a pipe: whatever lines one reading brings, together, without waiting for more."""
    number, begun = 0, b""  # lines so far, and the beginning of the next one
    while chunk := stream.read1(64 * 1024):
        *ended, rest = chunk.split(b"\n")
        lines = []
        for raw in ended:
            number, begun, raw = number + 1, b"", begun + raw
            lines.append((number, _line(path, number, raw, MAX_LINE_BYTES)))
        if lines:
            yield lines
        begun += rest
        if len(begun) > MAX_LINE_BYTES + 1:
            _line(path, number + 1, begun, MAX_LINE_BYTES)  # raises
    if begun:
        yield [(number + 1, _line(path, number + 1, begun, MAX_LINE_BYTES))]


def _line(path: Path, number: int, raw: bytes, max_bytes: int) -> str:
    """The text of a line, without its end."""
    if number == 1 and raw.startswith(codecs.BOM_UTF8):
        raw = raw[len(codecs.BOM_UTF8) :]
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    if len(raw) > max_bytes:
        raise DataError(
            path,
            number,
            f"a line of more than {max_bytes} bytes",
            "shorter lines",
            "check that this is a text file and cut its documents into lines",
        )
    return decode_line(path, number, raw)


def decode_line(path: Path, number: int, raw: bytes) -> str:
    """One line's bytes as text, or a DataError that names the first bad byte."""
    if b"\0" in raw:
        raise DataError(
            path,
            number,
            f"a NUL byte at byte {raw.index(0) + 1} of the line",
            "text",
            "check that this is a text file in UTF-8 (UTF-16 must be converted)",
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"byte 0x{raw[error.start]:02x} that is not UTF-8 at byte {error.start + 1} of the line"
        raise DataError(path, number, found, "UTF-8 text", "convert the file to UTF-8") from None


def require_text(path: Path, number: int, text: str, what: str) -> str:
    """Refuse characters that a JSON escape can smuggle past the decoder: NUL and half a surrogate pair."""
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text if c > "\ud7ff"):
        raise DataError(
            path,
            number,
            f"a NUL or half a surrogate pair in {what} {excerpt(text)}",
            "valid text",
            "remove that character",
        )
    return text


def require_some(path: Path, count: int, what: str) -> None:
    """Raise the error for an empty file unless something was read."""
    if not count:
        raise DataError(path, 1, "an empty file", f"at least one {what}", "check how the file was made")


def read_bytes(path: Path, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """A whole file, refused beyond `max_bytes`."""
    check_path(path)
    with open_bytes(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise DataError(path, 0, f"more than {max_bytes} bytes", "a smaller file", "check which file this is")
    require_some(path, len(data), "byte")
    return data
