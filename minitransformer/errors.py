"""What a user can get wrong, and mend: one line that says what was found and what to do. The command line prints it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

Path = str | os.PathLike[str]

# what the operating system refused → why, and what to do
_REASONS = {
    errno.ENOSPC: ("the disk is full", "free some space, or choose a folder on another disk"),
    errno.EDQUOT: ("the disk quota is used up", "free some space, or choose a folder on another disk"),
    errno.EFBIG: ("the file is larger than this system allows", "raise the limit (ulimit -f), or use another disk"),
    errno.EROFS: ("the disk is read-only", "choose a folder that can be written"),
    errno.EACCES: ("permission denied", "choose a folder that you may write and read, or change its permissions"),
    errno.EPERM: ("permission denied", "choose a folder that you may write and read, or change its permissions"),
    errno.ENOENT: ("it does not exist", "check the path"),
    errno.ENOTDIR: ("a part of the path is not a folder", "check the path"),
    errno.EISDIR: ("it is a folder", "name a file"),
}


class UserError(Exception):
    """Something the user can mend; the message says how, in one line."""


class DataError(UserError, ValueError):
    """A file of data that cannot be used: `file:line: found, expected, what to do`.

    Line numbers start at 1; line 0 stands for the file as a whole (missing, a directory, not text)."""

    def __init__(self, path: Path, line: int, found: str, expected: str, advice: str):
        self.path, self.line, self.found, self.expected, self.advice = os.fspath(path), line, found, expected, advice
        super().__init__(one_line(f"{self.path}:{line}: found {found}, expected {expected}; {advice}"))

    def __reduce__(self):  # the default rebuilds from the message alone, which breaks worker processes
        return type(self), (self.path, self.line, self.found, self.expected, self.advice)


class FileError(UserError, ValueError):
    """A file that cannot be read, written or used: `file: what is wrong; what to do`."""

    def __init__(self, path: Path, found: str, advice: str):
        self.path, self.found, self.advice = os.fspath(path), found, advice
        super().__init__(one_line(f"{self.path}: {found}; {advice}"))

    def __reduce__(self):
        return type(self), (self.path, self.found, self.advice)


class CheckpointError(FileError):
    """A checkpoint that cannot be read, written or used."""


class WeightsError(FileError):
    """Weights or vocabularies from elsewhere that cannot be fetched, read or used."""


class TrainingError(UserError, ValueError):
    """A run that cannot start or go on."""


class NotFiniteError(TrainingError):
    """The loss, the gradient or a weight became infinite or not a number: going on would only destroy the model."""


def make_or_refuse(make: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What `make` makes of what the user asked for; a value that cannot be is the user's to mend."""
    try:
        return make(*arguments, **options)
    except UserError:
        raise
    except ValueError as error:
        raise UserError(str(error)) from error


def system_error(path: Path, action: str, error: OSError, kind: type[FileError] = CheckpointError) -> FileError:
    """What the operating system refused, in words."""
    reason, advice = _REASONS.get(error.errno or 0, (error.strerror or str(error), "check the disk and the path"))
    return kind(path, f"{action}: {reason}", advice)


def one_line(text: str, most: int = 600) -> str:
    """A file name or a damaged header may hold line breaks, control characters or a megabyte of text."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text[: most + 1])
    return shown if len(shown) <= most else shown[:most] + "..."


def excerpt(value: object, most: int = 60) -> str:
    """A short printable quotation of what was found: never more than a few dozen characters."""
    if isinstance(value, (list, dict)):
        return type(value).__name__
    if isinstance(value, int) and abs(value) >= 10**20:  # Python refuses to print thousands of digits
        return "a number of many digits"
    text = repr(value[: most + 1] if isinstance(value, str) else value)
    return text if len(text) <= most + 2 else text[:most] + "..."
