"""Labelled documents: TSV, CSV, JSON lines, and the labs' pair of files `.spm` + `.label`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from minitransformer.app.data.readers.lines import MAX_LINE_BYTES, Path, numbered_lines, require_some
from minitransformer.app.data.readers.records import Column, Record, choose_format, iterate_records
from minitransformer.errors import DataError, excerpt

MAX_LABELS = 100  # more different labels than this means that the wrong column was read


@dataclass(frozen=True)
class LabelledDocuments:
    """`texts[i]` has the class `labels[i]`, a number whose name is `names[labels[i]]`.

    `in_pieces` says that the texts are already cut into pieces separated by spaces (the labs' `.spm`)."""

    texts: list[str]
    labels: list[int]
    names: tuple[str, ...]
    in_pieces: bool = False

    def __len__(self) -> int:
        return len(self.texts)


def read_labelled(
    path: Path,
    format: str | None = None,
    *,
    text: Column | None = None,
    label: Column | None = None,
    header: bool = True,
    labels: Sequence[str] | None = None,
    label_path: Path | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> LabelledDocuments:
    """Documents with their classes. The suffix chooses between "tsv", "csv", "jsonl" and "spm".

    `text`, `label`: columns, by name ("text", "label") with a header, by number (0, 1) with `header=False`.
    `labels`: the names of the classes, in order; any other label in the file is an error. Pass the training
    set's `names` when reading a test set. Without it, labels that are small whole numbers keep their value
    as class, other labels are numbered in alphabetical order; `.spm` files have the labels 0 and 1.
    `label_path`: the labels of an `.spm` file; by default `x.label` for `x.review.spm` or `x.spm`.
    An empty text is kept, because its label counts.
    """
    kind = choose_format(path, format, default=None, known=("tsv", "csv", "jsonl", "spm"))
    if kind == "spm":
        where = _label_file(path) if label_path is None else label_path
        records = _spm_records(path, where, max_line_bytes)
        names = ("0", "1") if labels is None else tuple(labels)
    else:
        where = path
        column: Column = label if label is not None else ("label" if header or kind == "jsonl" else 1)
        records = list(iterate_records(path, kind, text=text, label=column, header=header, max_bytes=max_line_bytes))
        require_some(path, len(records), "labelled document")
        names = _find_names(path, records) if labels is None else tuple(labels)
    number_of = {name: index for index, name in enumerate(names)}
    if len(number_of) != len(names):
        raise ValueError(f"labels={list(names)}: each class needs a name of its own")
    classes: list[int] = []
    for record in records:
        name = record.label or ""
        if name not in number_of:
            expected = f"one of {', '.join(excerpt(name) for name in names[:10])}"
            advice = "correct the label, or name the classes with labels="
            raise DataError(where, record.line, f"the label {excerpt(name)}", expected, advice)
        classes.append(number_of[name])
    return LabelledDocuments([record.text for record in records], classes, names, in_pieces=kind == "spm")


def _find_names(path: Path, records: list[Record]) -> tuple[str, ...]:
    seen: dict[str, int] = {}
    for record in records:
        name = record.label or ""
        if not name:
            raise DataError(path, record.line, "an empty label", "a label", "complete the row")
        seen.setdefault(name, record.line)
        if len(seen) > MAX_LABELS:
            found = f"more than {MAX_LABELS} different labels"
            raise DataError(path, record.line, found, "few classes", "check the label column (label=)")
    # A file whose labels are all "1" must not call that class 0: whole numbers stay what they are.
    numbers = {str(value): value for value in range(MAX_LABELS)}
    if seen.keys() <= numbers.keys():
        return tuple(numbers)[: 1 + max(numbers[name] for name in seen)]
    return tuple(sorted(seen))


def _label_file(path: Path) -> str:
    name = os.fspath(path)
    for suffix in (".review.spm", ".spm"):
        if name.endswith(suffix):
            return name[: -len(suffix)] + ".label"
    raise ValueError(f"{name}: cannot tell where its labels are; give label_path=")


def _spm_records(path: Path, label_path: Path, max_bytes: int) -> list[Record]:
    """Line i of one file belongs to line i of the other, so empty lines count too."""
    records: list[Record] = []
    texts, labels = numbered_lines(path, max_bytes), numbered_lines(label_path, max_bytes)
    for number, (text, label) in enumerate(zip_longest(texts, labels), start=1):
        if text is None or label is None:
            ended, longer = (path, label_path) if text is None else (label_path, path)
            raise DataError(
                ended,
                number,
                f"the end of the file after {number - 1} line(s)",
                f"a line for line {number} of {os.fspath(longer)}",
                "give both files one line a document",
            )
        records.append(Record(number, text[1].strip(), label[1].strip()))
    require_some(path, len(records), "document")
    return records
