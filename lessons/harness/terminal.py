"""Claims on the terminal, wrapped to its width: one after the other while they are tried, and a table at the end."""

import re
import shutil
import sys
import textwrap
import time
from collections import Counter
from typing import Any

from lessons.harness.claims import VERDICTS, score, sound
from minitransformer.app.progress import duration

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


class Progress:
    """What a lesson is trying, told from the lines it prints: each claim in words, its verdict with the evidence, and
    how many broken engines were caught. On a terminal also the latest line and the time so far, which come and go."""

    def __init__(self, place: str, title: str):
        self.place, self.start = place, time.perf_counter()
        self.latest, self.previous = "", place
        self.caught = self.broken = 0  # engines, of the claim that is being tried
        self.live = sys.stdout.isatty()
        self._say(f"{place}: {title}")
        self.tick()

    def tick(self) -> None:
        if self.live:
            text = f"{self.place} {duration(time.perf_counter() - self.start)}  {self.latest.strip()}"
            print(f"\r\033[K{printable(text[: columns() - 1])}", end="", flush=True)

    def line(self, text: str) -> None:
        if not self.previous and re.match(r"[a-z][a-z0-9-]*: \S", text):  # a trial begins with a blank line
            self._tell_controls()
            self._say(text, indent=4)
        elif verdict := re.match(rf"  ({'|'.join(VERDICTS)}|failed): (.*)", text, re.IGNORECASE):
            word = verdict[1].lower() if verdict[1].lower() in VERDICTS else "FAILED"
            self._say(f"{word}: {verdict[2]}", indent=8)
        elif control := re.match(r"  (control|MISSED) +(\S.*)", text):
            self.caught, self.broken = self.caught + (control[1] == "control"), self.broken + 1
            if control[1] == "MISSED":
                self._say(f"NOT caught: {control[2]}", indent=8)
        self.latest, self.previous = text or self.latest, text
        self.tick()

    def end(self, state: str) -> None:
        self._tell_controls()
        self._say(f"{self.place}: {state}, {duration(time.perf_counter() - self.start)}")

    def _tell_controls(self) -> None:
        if self.broken:
            self._say(f"broken engines caught: {self.caught} of {self.broken}", indent=8)
        self.caught = self.broken = 0

    def _say(self, text: str, indent: int = 0) -> None:
        first, rest = " " * indent, " " * (indent + 2)
        wrapped = textwrap.wrap(text, columns() - 1, initial_indent=first, subsequent_indent=rest)
        print(("\r\033[K" if self.live else "") + printable("\n".join(wrapped)), flush=True)
