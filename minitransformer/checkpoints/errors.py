"""The one exception for a checkpoint that cannot be read, written or used."""

from __future__ import annotations

import errno
import os

Path = str | os.PathLike[str]

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


class CheckpointError(ValueError):
    """One line: `file: what is wrong; what to do`."""

    def __init__(self, path: Path, found: str, advice: str):
        self.path, self.found, self.advice = os.fspath(path), found, advice
        super().__init__(one_line(f"{self.path}: {found}; {advice}"))

    def __reduce__(self):  # the default would rebuild from the message alone
        return type(self), (self.path, self.found, self.advice)


def system_error(path: Path, action: str, error: OSError) -> CheckpointError:
    """What the operating system refused, in words."""
    reason, advice = _REASONS.get(error.errno or 0, (error.strerror or str(error), "check the disk and the path"))
    return CheckpointError(path, f"{action}: {reason}", advice)


def one_line(text: str, most: int = 600) -> str:
    """A file name or a damaged header may hold line breaks, control characters or a megabyte of text."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text[: most + 1])
    return shown if len(shown) <= most else shown[:most] + "..."
