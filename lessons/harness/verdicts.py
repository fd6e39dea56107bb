"""The table of claims for the terminal: wrapped to its width, with the score of the negative controls below."""

import shutil
import sys
import textwrap
from collections import Counter
from typing import Any

from lessons.harness.claims import VERDICTS, score, sound

NARROW = 90  # below this many columns the text stands under its claim instead of beside it


def columns() -> int:
    """The terminal's width, or 100 where there is none."""
    return max(40, shutil.get_terminal_size((100, 24)).columns)


def printable(text: str) -> str:
    """The text with a question mark for whatever the terminal's encoding lacks: a ² must not end a run."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def claims_table(claims: list[dict[str, Any]], width: int) -> str:
    """Each claim with its verdict, its controls, its statement and, behind an arrow, its evidence."""
    rows = []
    for claim in claims:
        caught, of = score([claim])
        rows.append((claim["claim"], claim["verdict"], f"{caught}/{of}"))
    header = ("claim", "verdict", "controls")
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(3)]

    def line(row: tuple[str, ...]) -> str:
        return "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))

    beside = width >= NARROW
    indent = sum(widths) + 6 if beside else 4
    lines = [line(header) + ("  statement, and what was seen" if beside else "")]
    lines.append("-" * width)
    for row, claim in zip(rows, claims, strict=True):
        text = _wrapped(claim["statement"], width - indent) + _wrapped(claim["evidence"], width - indent, "-> ")
        if not sound(claim):
            for control in claim["controls"]:
                if not control["caught"]:
                    text += _wrapped(f"control {control['control']} not caught: {control['by']}", width - indent, "!! ")
        if beside:
            lines += [f"{line(row)}  {text[0]}", *(" " * indent + part for part in text[1:])]
        else:
            lines += [line(row).rstrip(), *(" " * indent + part for part in text)]
    return "\n".join(lines)


def _wrapped(text: str, width: int, mark: str = "") -> list[str]:
    return textwrap.wrap(text, width, initial_indent=mark, subsequent_indent=" " * len(mark)) or [mark]


def summary(claims: list[dict[str, Any]]) -> str:
    """Two lines: the verdicts counted, and the score of the controls."""
    counts = Counter(claim["verdict"] for claim in claims)
    parts = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]]
    failed = sum(count for verdict, count in counts.items() if verdict not in VERDICTS)
    parts += [f"{failed} FAILED"] if failed else []
    caught, of = score(claims)
    percent = f"{100 * caught / of:.0f} %" if of else "none"
    percent = "99 %" if percent == "100 %" and caught < of else percent  # 100 % is said of all of them only
    return f"claims tried: {len(claims)} ({', '.join(parts) or 'none'})\ncontrols caught: {caught} of {of} ({percent})"
