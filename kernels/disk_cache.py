"""Files that are kept from one process to the next: machine code, which is loaded and run.

Three promises. Nobody else could have put them there: `why_not_private` looks at the owner and the rights of every
folder on the way. They are whole: a file ends with its digest (`seal`), and `put` brings it to the disk before it gets
its name. And `is_sealed` recognises one that was damaged nevertheless, so that it is made anew.
"""

import hashlib
import os
import stat
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

SEAL = 32  # bytes of a SHA-256


def why_not_private(path: Path, below: Path | None = None) -> str | None:
    """Why another user could change what lies in this folder; None if nobody can.

    Every part of the real path belongs to this user or to root, and only its owner may write to it. A folder like /tmp
    is fine, where everybody writes but nobody renames what others made. `below`: a folder that is trusted anyway,
    whoever owns it, because the program itself comes from there."""
    if not hasattr(os, "getuid"):
        return None
    path, owners = Path(os.path.realpath(path)), {0, os.getuid()}
    parts = (path, *path.parents)
    if below is not None and below in parts:
        owners.add(below.stat().st_uid)
        parts = parts[: parts.index(below)]
    for part in parts:
        status = part.lstat()
        if status.st_uid not in owners:
            return f"{part}: belongs to another user (number {status.st_uid}), who could change it"
        by_group = status.st_mode & stat.S_IWGRP and not _group_of_one(status.st_gid)
        if (by_group or status.st_mode & stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX:
            return f"{part}: other users may write to it; take that right away (chmod go-w)"
    return None


def _group_of_one(number: int) -> bool:
    """Many systems give each user a group of the same name, and let groups write by default."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(number)
    except KeyError:
        return False
    return number == user.pw_gid and group.gr_name == user.pw_name and not set(group.gr_mem) - {user.pw_name}


def seal(contents: bytes) -> bytes:
    return contents + hashlib.sha256(contents).digest()


def unsealed(contents: bytes) -> bytes | None:
    """What was sealed, or None if a byte of it has changed or is missing."""
    inside = contents[:-SEAL]
    return inside if len(contents) > SEAL and seal(inside) == contents else None


def is_sealed(path: Path) -> bool:
    """Whether the file is there and whole. A damaged one is said once, and then as good as missing."""
    try:
        if unsealed(path.read_bytes()) is not None:
            return True
    except OSError:  # not there, or not to be read
        return False
    say_damaged(path)
    return False


def say_damaged(path: Path) -> None:
    say_once(f"{path.parent}: files of this cache are damaged; they are made anew")


def put(temporary: str | Path, target: Path) -> None:
    """Brings a file to the disk, then gives it its name: after a power failure there is all of it or nothing."""
    _to_disk(temporary)
    os.replace(temporary, target)
    with suppress(OSError):  # not every file system can do this for a folder
        _to_disk(target.parent)


def _to_disk(path: str | Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@cache
def say_once(text: str) -> None:
    if os.environ.get("MINITRANSFORMER_QUIET") != "1":
        with suppress(OSError, ValueError, AttributeError):  # stderr may be closed, or full
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
