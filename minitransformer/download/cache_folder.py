"""The user's cache folder: nobody else may write to it, and what a killed process left there goes away."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kernels.disk_cache import why_not_private
from minitransformer.errors import UserError

OWN = "set MINITRANSFORMER_CACHE to a folder of your own"
TEMPORARY = ".tmp"
YOUNG = 60  # seconds in which a new scratch folder is surely locked by whoever made it


def cache() -> Path:
    """MINITRANSFORMER_CACHE, else a folder in the user's cache, whose standard ignores a relative XDG_CACHE_HOME."""
    if chosen := os.environ.get("MINITRANSFORMER_CACHE"):
        return Path(chosen).absolute()
    named = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(named) if os.path.isabs(named) else Path.home() / ".cache") / "minitransformer"
    except RuntimeError:
        raise UserError(f"there is no home folder for a cache; {OWN}") from None


def own_folder(path: Path) -> Path:
    """The folder by its real path, made if it is not there, and refused if others could put files into it."""
    path = Path(os.path.realpath(path))
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    require_own(path)
    return path


def require_own(path: Path) -> None:
    """Refuses a path that another user could redirect."""
    if reason := why_not_private(path):
        raise UserError(f"{reason}; {OWN}")


@contextmanager
def scratch(path: Path) -> Iterator[Path]:
    """A folder that is gone afterwards, whatever happens, unless it was renamed. Its name ends in the number of this
    process and `.tmp`; those that killed processes left behind go with the next one made for the same purpose."""
    path.parent.mkdir(parents=True, exist_ok=True)
    purpose = path.name.removesuffix(TEMPORARY).rpartition(".")[0]
    for other in path.parent.iterdir():
        if re.fullmatch(rf"{re.escape(purpose)}\.\d+\{TEMPORARY}", other.name) and other != path and _abandoned(other):
            shutil.rmtree(other, ignore_errors=True)
    shutil.rmtree(path, ignore_errors=True)  # of a process that was killed and had the same number
    path.mkdir()
    lock = _lock(path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _lock(path: Path) -> int | None:
    """The folder, opened and locked; None if another process has the lock. It lasts as long as any process that was
    handed it: pip, for instance, goes on for a while when its parent is killed."""
    try:
        import fcntl
    except ImportError:
        return None
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.set_inheritable(descriptor, True)
        return descriptor
    except OSError:
        os.close(descriptor)
        return None


def _abandoned(path: Path) -> bool:
    with suppress(OSError):
        if path.is_symlink() or time.time() - path.stat().st_mtime < YOUNG:
            return False
        lock = _lock(path)
        if lock is not None:
            os.close(lock)
            return True
    return False
