"""Files that outlast a power cut: content is brought to the disk before its name, and then the name."""

from __future__ import annotations

import errno
import os

from minitransformer.errors import Path

# a system that cannot bring folders to the disk says so by one of these; a rename is still all or nothing there
_CANNOT_SYNC_FOLDERS = (errno.EACCES, errno.EPERM, errno.EISDIR, errno.EINVAL, errno.ENOTSUP)


def write_whole(path: Path, data: bytes) -> None:
    """Written beside the target, then renamed: a reader sees the old file or the new one, never half."""
    temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"  # the same folder: a rename is atomic only within one disk
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
    sync_folder(os.path.dirname(path))


def sync_folder(folder: Path) -> None:
    """Makes new names, renames and removals in a folder last."""
    try:
        descriptor = os.open(os.fspath(folder) or ".", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC_FOLDERS:
            raise


def sync_files(folder: Path) -> None:
    """Everything directly in a folder, and then its own list of names."""
    for entry in os.scandir(folder):
        if entry.is_file(follow_symlinks=False):
            descriptor = os.open(entry.path, os.O_RDWR)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    sync_folder(folder)


def make_folder(folder: Path) -> None:
    """Makes a folder and the missing ones above it, and makes their names last."""
    folder = os.path.abspath(folder)
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for path in reversed(missing):
        os.makedirs(path, exist_ok=True)
        sync_folder(os.path.dirname(path))
