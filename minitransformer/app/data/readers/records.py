"""Records of tables: TSV, CSV and JSON lines, one `Record` a row with the line it came from."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from minitransformer.app.data.readers.lines import Path, numbered_lines, require_text
from minitransformer.app.data.tokenizers.json_files import parse_json
from minitransformer.errors import DataError, excerpt

Column = str | int

SUFFIXES = {
    ".txt": "lines",
    ".spm": "spm",
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


class Record(NamedTuple):
    line: int
    text: str
    label: str | None


def choose_format(path: Path, format: str | None, *, default: str | None, known: Sequence[str]) -> str:
    """The format asked for, or the one the suffix says, or `default`; None as default makes that an error."""
    if format is not None:
        if format not in known:
            raise ValueError(f"format {format!r} is unknown here; choose one of {', '.join(known)}")
        return format
    suffix = os.path.splitext(os.fspath(path))[1].lower()
    kind = SUFFIXES.get(suffix, default)
    if kind in known:
        return str(kind)
    suffixes = ", ".join(sorted(suffix for suffix, kind in SUFFIXES.items() if kind in known))
    raise DataError(
        path,
        0,
        f"the suffix {suffix!r}",
        f"one of {suffixes}",
        f"rename it or give format= ({', '.join(known)})",
    )


def iterate_records(
    path: Path, format: str, *, text: Column | None, label: Column | None, header: bool, max_bytes: int
) -> Iterator[Record]:
    """Yield the records of a table. With a header (and in JSON lines) columns have names, by default "text"
    and "label"; without one they are counted from 0. `label=None` leaves labels out."""
    if format == "jsonl":
        yield from _json_records(path, "text" if text is None else text, label, max_bytes)
        return
    rows = _tsv_rows(path, max_bytes) if format == "tsv" else _csv_rows(path, max_bytes)
    if header:
        first = next(rows, None)
        if first is None:
            return
        text_at = _named_column(path, first, "text" if text is None else text)
        label_at = None if label is None else _named_column(path, first, label)
    else:
        text_at = _counted_column(0 if text is None else text)
        label_at = None if label is None else _counted_column(label)
    for number, row in rows:
        needed = max(text_at, -1 if label_at is None else label_at) + 1
        if len(row) < needed:
            raise DataError(
                path,
                number,
                f"{len(row)} column(s)",
                f"at least {needed}",
                "complete the row, or choose other columns (--text-column, --label-column; text=, label=)",
            )
        yield Record(number, row[text_at], None if label_at is None else row[label_at].strip())


def _named_column(path: Path, first: tuple[int, list[str]], column: Column) -> int:
    number, names = first
    if isinstance(column, int):
        return _counted_column(column)
    stripped = [name.strip() for name in names]
    if column not in stripped:
        found = f"the columns {', '.join(excerpt(name) for name in stripped[:6])}"
        advice = "choose columns by name, or by number if line 1 is a document (--text-column; text=, header=)"
        raise DataError(path, number, found, f"a column {column!r}", advice)
    return stripped.index(column)


def _counted_column(column: Column) -> int:
    if not isinstance(column, int) or column < 0:
        raise ValueError(f"column {column!r}: without a header, columns are counted from 0")
    return column


def _tsv_rows(path: Path, max_bytes: int) -> Iterator[tuple[int, list[str]]]:
    """Cells are what stands between tabs: no quoting, so a cell holds neither a tab nor a line break."""
    for number, line in numbered_lines(path, max_bytes):
        if line.strip():
            yield number, line.split("\t")


def _csv_rows(path: Path, max_bytes: int) -> Iterator[tuple[int, list[str]]]:
    """Comma-separated cells, quoted with `"` where they hold commas, line breaks or (doubled) quotes."""
    reader = csv.reader((line + "\n" for _, line in numbered_lines(path, max_bytes)), strict=True)
    while True:
        number = reader.line_num + 1  # where this row begins: a quoted cell may span lines
        try:
            with _cell_limit(max_bytes):
                row = next(reader, None)
        except csv.Error as error:
            advice = "check the quotes from this line on: a cell with a quote in it needs them doubled"
            raise DataError(path, number, f"malformed CSV ({error})", "comma-separated cells", advice) from None
        if row is None:
            return
        if any(cell.strip() for cell in row):
            yield number, row


@contextmanager
def _cell_limit(limit: int) -> Iterator[None]:
    """The csv module's own limit is one number for the whole process and too small for long documents:
    raise it for the length of one row and put it back."""
    before = csv.field_size_limit(limit)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _json_records(path: Path, text: Column, label: Column | None, max_bytes: int) -> Iterator[Record]:
    for number, line in numbered_lines(path, max_bytes):
        if not line.strip():
            continue
        value = parse_json(path, number, line)
        if not isinstance(value, dict):
            found = f"a JSON {type(value).__name__}"
            raise DataError(path, number, found, "a JSON object", 'write {"text": ..., "label": ...}')
        for key in (text,) if label is None else (text, label):
            if key not in value:
                advice = "complete the line, or choose other keys (--text-column, --label-column; text=, label=)"
                raise DataError(path, number, f"no key {key!r}", f"a key {key!r}", advice)
        document = value[text]
        if not isinstance(document, str):
            found = f"{text!r} of type {type(document).__name__}"
            raise DataError(path, number, found, "a string", "write the text in quotes")
        require_text(path, number, document, f"{text!r}")
        yield Record(number, document, None if label is None else _json_label(path, number, label, value[label]))


def _json_label(path: Path, number: int, key: Column, label: object) -> str:
    # bool is a subclass of int: "true" as a label would silently become "True".
    if isinstance(label, bool) or not isinstance(label, (str, int)):
        found = f"the label {excerpt(label)} of type {type(label).__name__} at {key!r}"
        raise DataError(path, number, found, "a string or an integer", "write the label's name or number")
    return require_text(path, number, str(label).strip(), "the label")
