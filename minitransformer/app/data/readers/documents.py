"""Unlabelled text: one document a line, or sections of paragraphs separated by empty lines."""

from __future__ import annotations

from minitransformer.app.data.readers.lines import MAX_LINE_BYTES, Path, numbered_lines, require_some
from minitransformer.app.data.readers.records import Column, choose_format, iterate_records
from minitransformer.errors import DataError


def read_documents(
    path: Path,
    format: str | None = None,
    *,
    text: Column | None = None,
    header: bool = True,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> list[str]:
    """The documents of a file, in order.

    `format` is "lines" (`.txt`), "spm" (`.spm`, pieces separated by spaces), "tsv", "csv" or "jsonl"; by
    default the suffix decides, and an unknown suffix means "lines". Tables give their text column, see
    `read_labelled`. Empty lines separate nothing here and are skipped.
    """
    kind = choose_format(path, format, default="lines", known=("lines", "spm", "tsv", "csv", "jsonl"))
    if kind in ("lines", "spm"):
        documents = [line.strip() for _, line in numbered_lines(path, max_line_bytes) if line.strip()]
    else:
        records = iterate_records(path, kind, text=text, label=None, header=header, max_bytes=max_line_bytes)
        documents = [record.text for record in records if record.text.strip()]
    require_some(path, len(documents), "document")
    return documents


def read_sections(path: Path, max_line_bytes: int = MAX_LINE_BYTES) -> list[list[str]]:
    """Groups of consecutive non-empty lines: for a file with one paragraph a line, and empty lines between
    books, each book is one list of paragraphs. Next-sentence pairs need to know where a book ends."""
    sections: list[list[str]] = [[]]
    for _, line in numbered_lines(path, max_line_bytes):
        if line.strip():
            sections[-1].append(line.strip())
        else:
            sections.append([])
    sections = [section for section in sections if section]
    require_some(path, len(sections), "paragraph")
    return sections


def read_pairs(
    path: Path, *, source: int = 0, target: int = 1, max_line_bytes: int = MAX_LINE_BYTES
) -> list[tuple[str, str]]:
    """`(source, target)` for each line `english<TAB>french`; further columns, such as an attribution, are
    ignored. `source` and `target` choose the columns, so `source=1, target=0` turns the direction round.
    Empty lines are skipped; a line with an empty side is an error, for there is nothing to learn from it."""
    if source < 0 or target < 0 or source == target:
        raise ValueError(f"source={source} and target={target}: give two different columns, counted from 0")
    pairs: list[tuple[str, str]] = []
    for number, line in numbered_lines(path, max_line_bytes):
        if not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) <= max(source, target):
            raise DataError(
                path,
                number,
                f"{len(columns)} column(s)",
                f"at least {max(source, target) + 1} with tabs between",
                "write source<TAB>target on each line",
            )
        pair = columns[source].strip(), columns[target].strip()
        if not all(pair):
            raise DataError(path, number, "an empty side", "text on both sides", "complete or remove the line")
        pairs.append(pair)
    require_some(path, len(pairs), "pair")
    return pairs
