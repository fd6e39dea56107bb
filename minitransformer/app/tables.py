"""Aligned text tables for the terminal."""

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[object]], right: Iterable[int] = ()) -> str:
    """Columns as wide as their longest entry; `right` lists the columns that hold numbers."""
    lines = [[str(cell) for cell in line] for line in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    aligned = set(right)

    def text(line: list[str]) -> str:
        cells = [c.rjust(w) if i in aligned else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))]
        return "  ".join(cells).rstrip()

    return "\n".join([text(lines[0]), "  ".join("-" * width for width in widths), *map(text, lines[1:])])
