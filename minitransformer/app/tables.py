"""Aligned text tables: as wide as a terminal allows, and whole in a file or a pipe."""

import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence

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
    return Table(header, right, shorten, width).part(rows)


class Table:
    """The same for rows that come in parts: the first one decides how wide the columns are.

    least    widths that are needed later, by column"""

    def __init__(
        self,
        header: Sequence[str],
        right: Iterable[int] = (),
        shorten: Collection[int] = (),
        width: int | None = None,
        least: Mapping[int, int] | None = None,
    ):
        self.header, self.right, self.shorten, self.least = header, set(right), shorten, least or {}
        self.room = width or _terminal()
        self.widths: list[int] = []

    def part(self, rows: Iterable[Sequence[object]]) -> str:
        """The next rows; the first ones with their header."""
        lines = [[str(cell) for cell in row] for row in rows]
        if self.widths:
            return "\n".join(map(self._text, lines))
        lines.insert(0, list(self.header))
        columns = range(len(self.header))
        self.widths = [max(self.least.get(c, 0), *(len(line[c]) for line in lines)) for c in columns]
        _fit(self.widths, [c for c in columns if c not in self.right], self.room)
        return "\n".join([self._text(lines[0]), GAP.join("-" * w for w in self.widths), *map(self._text, lines[1:])])

    def _text(self, line: list[str]) -> str:
        cells = []
        for column, (cell, width) in enumerate(zip(line, self.widths, strict=True)):
            if column in self.shorten:
                cells.append(_cut(cell, self._most(column)))
            else:
                cells.append(_wrapped(cell, width))
        shown = []
        for part in range(max(map(len, cells))):
            pieces = [cell[part] if part < len(cell) else "" for cell in cells]
            both = enumerate(zip(pieces, self.widths, strict=True))
            shown.append(GAP.join(p.rjust(w) if i in self.right else p.ljust(w) for i, (p, w) in both).rstrip())
        return "\n".join(shown)

    def _most(self, column: int) -> int | None:
        """How long an entry that is cut off may be: the last column goes on to the edge."""
        if self.room is None or column < len(self.widths) - 1:
            return None if self.room is None else self.widths[column]
        return max(self.widths[column], self.room - sum(self.widths[:-1]) - len(GAP) * column)


def _terminal() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None


def _fit(widths: list[int], texts: list[int], room: int | None) -> None:
    """Narrows the columns of text, the widest first, until a line fits or all of them are narrow."""
    while room is not None and texts and sum(widths) + len(GAP) * (len(widths) - 1) > room:
        widest = max(texts, key=widths.__getitem__)
        if widths[widest] <= NARROWEST:
            return
        widths[widest] -= 1


def _cut(cell: str, width: int | None) -> list[str]:
    return [cell if width is None or len(cell) <= width else cell[: width - 1] + "…"]


def _wrapped(cell: str, width: int) -> list[str]:
    return [cell] if len(cell) <= width else textwrap.wrap(cell, width, break_on_hyphens=False)
