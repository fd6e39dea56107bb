"""The one exception that every reader and loader of this package raises for bad input."""

from __future__ import annotations

import os

_EXCERPT = 60


class DataError(ValueError):
    """A file that cannot be used. The message is one line: `file:line: found, expected, what to do`.

    Line numbers start at 1; line 0 stands for the file as a whole (missing, a directory, not text).
    """

    def __init__(self, path: str | os.PathLike[str], line: int, found: str, expected: str, advice: str):
        self.path = os.fspath(path)
        self.line = line
        self.found = found
        self.expected = expected
        self.advice = advice
        # A file name may hold a line break, and found may quote a library's message: keep it one line.
        super().__init__(_one_line(f"{self.path}:{line}: found {found}, expected {expected}; {advice}"))

    def __reduce__(self):  # the default rebuilds from the message alone, which breaks worker processes
        return type(self), (self.path, self.line, self.found, self.expected, self.advice)


def excerpt(value: object) -> str:
    """A short printable quotation of what was found: never more than a few dozen characters."""
    if isinstance(value, (list, dict)):
        return type(value).__name__
    if isinstance(value, int) and abs(value) >= 10**20:  # Python refuses to print thousands of digits
        return "a number of many digits"
    if isinstance(value, str):
        value = value[: _EXCERPT + 1]
    text = repr(value)
    return text if len(text) <= _EXCERPT + 2 else text[:_EXCERPT] + "..."


def _one_line(text: str) -> str:
    """Escape what a terminal would not show in place: line breaks, control characters, lone surrogates."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
