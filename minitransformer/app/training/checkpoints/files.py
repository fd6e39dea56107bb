"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from minitransformer.durable import sync_folder
from minitransformer.errors import CheckpointError, Path, system_error

TEMPORARY = ".tmp"
DAMAGED = "it is damaged: restore it from a copy, or delete the checkpoint to go on from an earlier one"


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write into. When the block ends well it takes the place of `path` at once; otherwise it is removed
    and `path` stays what it was."""
    path = os.fspath(path)
    temporary = f"{path}.{os.getpid()}{TEMPORARY}"  # the same folder: a rename is atomic only within one disk
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # before the rename: otherwise a power cut can leave the new name without content
        os.replace(temporary, path)
        sync_folder(os.path.dirname(path))
    except OSError as error:
        raise system_error(path, "cannot be written", error) from error
    finally:
        with suppress(OSError):  # renamed away when all went well
            os.unlink(temporary)


def regular_size(path: Path) -> int:
    """The length of an ordinary file. A pipe or a device is refused: reading it might never end."""
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError):
            raise system_error(path, "cannot be read", error) from error
        raise CheckpointError(path, f"cannot be read: {error}", "check the path") from error
    if not stat.S_ISREG(status.st_mode):
        raise CheckpointError(path, "is not an ordinary file", "name a checkpoint or the folder of a run")
    return status.st_size


def read_small(path: Path, most: int) -> bytes:
    """The content of a file of at most `most` bytes."""
    size = regular_size(path)
    if size > most:
        raise CheckpointError(path, f"has {size:,} bytes, more than {most:,}", "this is not a file of a checkpoint")
    try:
        with open(path, "rb") as file:
            return file.read(size)  # not read(most): that would set aside `most` bytes at once
    except OSError as error:
        raise system_error(path, "cannot be read", error) from error
