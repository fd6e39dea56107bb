"""Recorded launches under the compilers' own sanitizers, in a program without Python.

    with recorded() as launches:
        kernels.backend("emulated").layer_norm(x, weight, bias, 1e-5)
    assert not sanitize(launches, "thread")

threads   ThreadSanitizer with CUDA's order: threads of a block are ordered by barriers, blocks follow one another
blocks    the same, with blocks unordered as on a GPU (costs most of a millisecond a thread: few and small launches)
address   AddressSanitizer and UndefinedBehaviorSanitizer
"""

import math
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kernels.cuda.launcher import Launch
from kernels.cuda.source import kernels_in, text_of
from kernels.emulator import compiler, device
from kernels.emulator.memory import piece_with, pieces_of

MODES = {"threads": "thread", "blocks": "thread", "address": "address"}
OPTIONS = {
    "TSAN_OPTIONS": "halt_on_error=1:report_signal_unsafe=0:exitcode=66",
    "ASAN_OPTIONS": "detect_leaks=0:exitcode=66",
    "UBSAN_OPTIONS": "print_stacktrace=0",
}
HEADER = struct.Struct("<64s6I2IQ")  # Header and Argument of replay.cpp
ARGUMENT = struct.Struct("<qQ")


class Recording(NamedTuple):
    """A launch as bytes, with what is needed to compile its kernel."""

    path: Path
    kernel: str
    options: tuple[tuple[str, str], ...]
    blocks: int
    threads: int  # in all blocks together
    bytes: bytes


@contextmanager
def recorded(seed: int = 1, run: bool = True) -> Iterator[list[Recording]]:
    """Launches are written down with the contents of their arrays, and run as usual unless told otherwise: a kernel
    that is known to write out of bounds must not run in this process."""
    launches: list[Recording] = []

    def record(launch: Launch) -> None:
        launches.append(_recording(launch, seed))
        if run:
            device.plainly(launch)

    device.ways_to_run.append(record)
    try:
        yield launches
    finally:
        device.ways_to_run.pop()


def _recording(launch: Launch, seed: int) -> Recording:
    pieces = pieces_of(launch)
    name = launch.kernel.encode()
    parts = [HEADER.pack(name, *launch.grid, *launch.block, len(pieces), len(launch.values), seed)]
    for piece in pieces:
        parts += [struct.pack("<Q", piece.end - piece.begin), piece.contents()]
    for value in launch.values:
        if isinstance(value, np.ndarray) and value.nbytes:
            parts.append(ARGUMENT.pack(*piece_with(pieces, value)))
        elif value is None or isinstance(value, np.ndarray):
            parts.append(ARGUMENT.pack(-1, 0))
        else:
            parts.append(struct.pack("<q", -1) + value.tobytes().ljust(8, b"\0"))
    blocks, threads = math.prod(launch.grid), math.prod(launch.grid + launch.block)
    return Recording(launch.path, launch.kernel, launch.options, blocks, threads, b"".join(parts))


def reason_against(how: str) -> str | None:
    """Why this sanitizer cannot be used here: some installations of g++ come without its library."""
    try:
        compiler.runtime(MODES[how])
    except compiler.CompilerError as error:
        return f"{str(error).splitlines()[0]}; install the compiler's libtsan, libasan and libubsan"
    return None


def sanitize(launches: list[Recording], how: str) -> list[str]:
    """What the sanitizer found: one text for each kernel file that stopped; none when all is well."""
    groups: dict[tuple, list[Recording]] = {}
    for launch in launches:
        groups.setdefault((launch.path, launch.options), []).append(launch)
    return [found for (path, options), group in groups.items() if (found := _replayed(path, options, group, how))]


def _replayed(path: Path, options: tuple, group: list[Recording], how: str) -> str | None:
    mode = MODES[how]
    program = compiler.runtime(mode)
    library = compiler.kernel_library(path.stem, text_of(path), tuple(kernels_in(path)), options, mode)
    blocks = {"EMULATOR_BLOCKS": "unordered" if how == "blocks" else "ordered"}
    with tempfile.NamedTemporaryFile(suffix=".launches") as file:
        for launch in group:
            file.write(launch.bytes)
        file.flush()
        # ThreadSanitizer needs addresses where it expects them, which random placement can spoil
        steady = ["setarch", "-R"] if mode == "thread" and shutil.which("setarch") else []
        result = subprocess.run(
            [*steady, str(program), str(library), file.name],
            env={**os.environ, **OPTIONS, **blocks},
            capture_output=True,
            text=True,
            errors="replace",
        )
    return None if result.returncode == 0 else _summary(result)


def _summary(result: subprocess.CompletedProcess) -> str:
    """The report from the kernel's name on; the sanitizers put what matters first and a summary last."""
    kernels = re.findall(r"^replay: (\w+)$", result.stderr, re.MULTILINE)
    report = re.split(r"^replay: \w+$", result.stderr, flags=re.MULTILINE)[-1].strip()
    return f"{kernels[-1] if kernels else 'replay'} (exit code {result.returncode}): {report}"
