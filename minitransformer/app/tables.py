"""Aligned text tables: as wide as a terminal allows, and whole in a file or a pipe."""

import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence

GAP = "  "
NARROWEST = 20  # characters to which a column of text may be narrowed


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    right: Iterable[int] = (),
    shorten: Collection[int] = (),
    width: int | None = None,
) -> str:
    """Columns as wide as their longest entry. Where a terminal has less room, the widest columns of text go on in the
    next line.

    right    columns that hold numbers, which are never narrowed
    shorten  columns that are cut off instead (…): one line for each row
    width    characters in a line (default: those of the terminal; elsewhere without limit)"""
    lines = [[str(cell) for cell in line] for line in (header, *rows)]
    aligned = set(right)
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    _fit(widths, [column for column in range(len(header)) if column not in aligned], width or _terminal())

    def text(line: list[str]) -> str:
        cells = [
            _cut(cell, w) if column in shorten else _wrapped(cell, w)
            for column, (cell, w) in enumerate(zip(line, widths, strict=True))
        ]
        shown = []
        for part in range(max(map(len, cells))):
            pieces = [cell[part] if part < len(cell) else "" for cell in cells]
            both = enumerate(zip(pieces, widths, strict=True))
            shown.append(GAP.join(p.rjust(w) if i in aligned else p.ljust(w) for i, (p, w) in both).rstrip())
        return "\n".join(shown)

    return "\n".join([text(lines[0]), GAP.join("-" * w for w in widths), *map(text, lines[1:])])


def _terminal() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None


def _fit(widths: list[int], texts: list[int], room: int | None) -> None:
    """Narrows the columns of text, the widest first, until a line fits or all of them are narrow."""
    while room is not None and texts and sum(widths) + len(GAP) * (len(widths) - 1) > room:
        widest = max(texts, key=widths.__getitem__)
        if widths[widest] <= NARROWEST:
            return
        widths[widest] -= 1


def _cut(cell: str, width: int) -> list[str]:
    return [cell if len(cell) <= width else cell[: width - 1] + "…"]


def _wrapped(cell: str, width: int) -> list[str]:
    return [cell] if len(cell) <= width else textwrap.wrap(cell, width, break_on_hyphens=False)
