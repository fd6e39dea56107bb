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
UNBORN = ".new"
YOUNG = 60  # seconds in which a new scratch folder is surely locked by whoever made it, and gets its name


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
    process and `.tmp`; those that killed processes left behind are swept before and after."""
    path.parent.mkdir(parents=True, exist_ok=True)
    purpose = path.name.removesuffix(TEMPORARY).rpartition(".")[0]
    sweep(path.parent, purpose)
    shutil.rmtree(path, ignore_errors=True)  # of a process that was killed and had the same number
    # locked before it gets the name by which others look: whatever has the name and no lock is nobody's
    unborn = path.with_name(path.name + UNBORN)
    shutil.rmtree(unborn, ignore_errors=True)
    unborn.mkdir()
    lock = None
    try:
        lock = _lock(unborn)
        os.replace(unborn, path)
        yield path
    finally:
        shutil.rmtree(unborn, ignore_errors=True)
        shutil.rmtree(path, ignore_errors=True)
        if lock is not None:
            os.close(lock)
        sweep(path.parent, purpose)


def sweep(folder: Path, purpose: str) -> None:
    """Removes what killed processes left of `scratch` folders for this purpose."""
    with suppress(OSError):  # no such folder, or not ours: then there is nothing to sweep
        for other in folder.iterdir():
            ours = re.fullmatch(rf"{re.escape(purpose)}\.\d+\{TEMPORARY}(\{UNBORN})?", other.name)
            if ours and _abandoned(other):
                shutil.rmtree(other, ignore_errors=True)


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
        if path.is_symlink() or (path.name.endswith(UNBORN) and time.time() - path.stat().st_mtime < YOUNG):
            return False
        lock = _lock(path)
        if lock is not None:
            os.close(lock)
            return True
    return False
