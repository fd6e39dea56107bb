"""Compiles kernel files with g++ into shared libraries, and keeps them on disk.

A library's name holds a digest of everything it was made from: source text, emulator, flags, compiler. So a changed
file is compiled anew, an unchanged one never, and nothing ever needs to be deleted for correctness.

Environment: CXX chooses the compiler, MINITRANSFORMER_CACHE the folder, MINITRANSFORMER_QUIET=1 silences the notice.
"""

import atexit
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kernels.disk_cache import is_sealed, put, seal, unsealed, why_not_private
from kernels.emulator.unwritten import FLAG, filled_with_nan
from kernels.errors import BackendError

FOLDER = Path(__file__).parent
COMMON = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off")  # off: a result must not depend on the CPU
HEADERS = ("cuda.h", "runtime.h", "fibers.h", "thread.h", "watch.h")


class Mode(NamedTuple):
    """A way to build: how kernels are compiled, and what the runtime beside them is made of."""

    kernel_flags: tuple[str, ...]
    runtime_flags: tuple[str, ...]
    sources: tuple[str, ...]
    headers: tuple[str, ...] = HEADERS
    program: bool = False  # the runtime is a program that loads kernels, not a library that Python loads


# -O1 where accesses are watched: with more, the compiler would merge them, and lines would no longer be lines.
MODES = {
    "fast": Mode(("-O2",), ("-O2",), ("runtime.cpp",)),
    "checked": Mode(
        ("-O1", "-g", "-fsanitize=thread", "-fno-toplevel-reorder"),  # in order: gaps stay between shared variables
        ("-O2", "-DEMULATOR_CHECKED"),
        ("runtime.cpp", "checks.cpp", "hooks.cpp"),
        (*HEADERS, "checks.h", "traffic.h"),
    ),
    "thread": Mode(
        ("-O1", "-g", "-fsanitize=thread"),
        ("-O2", "-DEMULATOR_TSAN"),
        ("runtime.cpp", "thread_sanitizer.cpp", "replay.cpp"),
        program=True,
    ),
    "address": Mode(
        (
            "-O1",
            "-g",
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all",
            "-fsanitize-sections=emulator_shared",
        ),
        ("-O2",),
        ("runtime.cpp", "replay.cpp"),
        program=True,
    ),
}
SANITIZER = {"thread": "-fsanitize=thread", "address": "-fsanitize=address,undefined"}
NAN = "unwritten locals are NaN"  # part of a library's digest
SEALED = "sealed"  # part of a name, so that files from before there was a digest at their end are not taken for damaged
INSTALL = "install g++ (Debian, Ubuntu: apt install g++), or set CXX to a C++17 compiler"


class CompilerError(BackendError):
    """The compiler is missing, or refused a kernel file."""


def command() -> list[str]:
    chosen = os.environ.get("CXX", "")
    try:
        return shlex.split(chosen) or ["g++"]
    except ValueError as error:  # a quotation without its end
        raise CompilerError(f"CXX={chosen!r} in the environment is no command ({error}); {INSTALL}") from None


@cache
def cache_folder() -> Path:
    """Where compiled kernels are kept: the first of a few places that can be written to, and by nobody else. Where
    there is none, a folder that lasts as long as this process."""
    chosen = os.environ.get("MINITRANSFORMER_CACHE")
    places = [Path(chosen)] if chosen else [*_home(), Path(tempfile.gettempdir()) / f"minitransformer-{os.getuid()}"]
    reasons = []
    for place in places:
        try:
            folder = Path(os.path.realpath(place)) / "emulator"
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if reason := why_not_private(folder):
                reasons.append(reason)
            elif os.access(folder, os.W_OK):
                return folder
            else:
                reasons.append(f"{place}: cannot be written to")
        except OSError as error:
            reasons.append(f"{place}: {error.strerror}")
    if not chosen:
        with suppress(OSError):
            fresh = tempfile.mkdtemp(prefix="minitransformer-")  # its name is new, and its rights are ours alone
            atexit.register(_remove, fresh, os.getpid())
            return Path(os.path.realpath(fresh))
    raise CompilerError(f"no folder for compiled kernels: {'; '.join(reasons)}; set MINITRANSFORMER_CACHE")


def _home() -> list[Path]:
    """The user's cache, if there is one; its standard ignores a relative XDG_CACHE_HOME."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    with suppress(RuntimeError):  # a user without an entry in the system's list has no home
        return [(Path(named) if os.path.isabs(named) else Path.home() / ".cache") / "minitransformer"]
    return []


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # not at the end of a forked child
        shutil.rmtree(folder, ignore_errors=True)


def _kept(target: Path) -> bool:
    """Whether the library is there, whole, and where nobody else could have put or changed it: asked at every load."""
    if reason := why_not_private(target.parent):
        raise CompilerError(f"compiled kernels are not loaded from here: {reason}; set MINITRANSFORMER_CACHE")
    return is_sealed(target)


@cache
def reason_against() -> str | None:
    """Why kernels cannot be compiled here. Tries once per compiler and machine, and remembers a success on disk."""
    if not sys.platform.startswith("linux"):
        return f"the emulator needs Linux, this is {sys.platform}"
    try:
        program = shutil.which(command()[0])
        if program is None:
            return f"there is no compiler {command()[0]!r}; {INSTALL}"
        known = cache_folder() / f"works-{_digest(*_identity())}"
        if known.exists():
            return None
        _check_compiler(program)
        known.touch()
    except (CompilerError, OSError) as error:
        return str(error)
    return None


def _check_compiler(program: str) -> None:
    """A library with the C++ headers we use, which needs everything a kernel needs."""
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        source = Path(folder) / "try.cpp"
        source.write_text('#include <cmath>\nextern "C" double f(double x) { return std::exp(x); }\n')
        _run([*command(), *COMMON, "-shared", str(source), "-o", str(source.with_suffix(".so"))], program)


@cache
def _fill_locals() -> tuple[str, ...]:
    """The flag that fills local variables with a pattern, where the compiler has it; see unwritten.py. The answer is
    remembered on disk."""
    known = cache_folder() / f"locals-{_digest(*_identity())}"
    if not _kept(known):
        tried = subprocess.run([*command(), "-Werror", FLAG, "-fsyntax-only", "-xc++", os.devnull], capture_output=True)
        temporary = f"{known}.{os.getpid()}.tmp"
        with open(temporary, "wb") as file:
            file.write(seal(b"yes" if tried.returncode == 0 else b"no"))
        put(temporary, known)
    return (FLAG,) if unsealed(known.read_bytes()) == b"yes" else ()


@cache
def _identity() -> tuple[str, ...]:
    """Tells one compiler from another, cheaply: its path, size and date (an update changes them)."""
    program = shutil.which(command()[0])
    if program is None:
        raise CompilerError(f"there is no compiler {command()[0]!r}; {INSTALL}")
    status = os.stat(program)
    return (*command(), os.path.realpath(program), str(status.st_size), str(status.st_mtime_ns))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


@cache
def _own_sources(mode: str) -> str:
    names = (*MODES[mode].sources, *MODES[mode].headers)
    return _digest(*((FOLDER / name).read_text(encoding="utf-8") for name in names))


@cache
def runtime(mode: str) -> Path:
    """The scheduler and what watches it: a library that all kernels of a process share, or the replay program."""
    build = MODES[mode]
    files = [FOLDER / name for name in build.sources]
    flags = (*COMMON, "-fvisibility=default", *build.runtime_flags)
    link = ("-rdynamic", "-pie", SANITIZER[mode], "-ldl") if build.program else ("-shared",)
    target = cache_folder() / f"runtime-{mode}-{_digest(SEALED, _own_sources(mode), *_identity(), *flags, *link)}"
    if _kept(target):
        return target
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        objects = [str(Path(folder) / file.with_suffix(".o").name) for file in files]
        steps = [[*command(), *flags, "-c", str(file), "-o", o] for file, o in zip(files, objects, strict=True)]
        return _made(target, f"the emulator itself, {mode}", *steps, [*command(), *objects, *link])


@cache
def kernel_library(name: str, text: str, kernels: tuple[str, ...], options: tuple, mode: str) -> Path:
    """One kernel file for one choice of REAL and of its constants."""
    build = MODES[mode]
    beside = runtime(mode)
    flags = (*COMMON, *_fill_locals(), *build.kernel_flags, *(f"-D{key}={value}" for key, value in options))
    link = ("-shared", SANITIZER[mode]) if build.program else ("-shared", str(beside))
    text = wrapped(text, kernels)
    made_from = (SEALED, NAN, text, str(beside), *_identity(), *flags, *link)
    target = cache_folder() / f"{name}-{mode}-{_digest(*made_from)}.so"
    if _kept(target):
        return target
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        source = Path(folder) / f"{name}.cpp"
        assembly, compiled = str(source.with_suffix(".s")), str(source.with_suffix(".o"))
        source.write_text(text, encoding="utf-8")

        def fill() -> None:
            Path(assembly).write_text(filled_with_nan(Path(assembly).read_text(encoding="utf-8")), encoding="utf-8")

        label = ", ".join((name, mode, *(f"{key}={value}" for key, value in options)))
        compile = [*command(), *flags, f"-I{FOLDER}", "-S", str(source), "-o", assembly]
        assemble = [*command(), "-c", assembly, "-o", compiled]
        return _made(target, label, compile, fill, assemble, [*command(), compiled, *link])


def wrapped(text: str, kernels: tuple[str, ...]) -> str:
    """A kernel file as a C++ file: CUDA's words before it, an entry point for each kernel after it."""
    entry_points = "".join(f"\nEMULATOR_KERNEL({kernel})" for kernel in kernels)
    return f'#include "cuda.h"\n{text}\n{entry_points}\n'


def _made(target: Path, label: str, *steps: list[str] | Callable[[], None]) -> Path:
    """Takes the steps (commands, or functions of ours), the last of which writes the target. Other processes see either
    nothing or all of it."""
    _notice.begin(label)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".part-")
    os.close(handle)
    try:
        *before, last = steps
        assert not callable(last)
        for step in before:
            step() if callable(step) else _run(step, label)
        _run([*last, "-o", temporary], label)
        contents = Path(temporary).read_bytes()
        with open(temporary, "wb") as file:  # as it was, with its rights; programs and libraries may have a tail
            file.write(seal(contents))
        put(temporary, target)
    finally:
        Path(temporary).unlink(missing_ok=True)
    _notice.end()
    return target


def _run(arguments: list[str], label: str) -> None:
    try:
        result = subprocess.run(arguments, capture_output=True, text=True)
    except OSError as error:
        raise CompilerError(f"{arguments[0]} cannot be started ({error}); {INSTALL}") from None
    if result.returncode != 0:
        errors = [line for line in result.stderr.splitlines() if "error" in line] or result.stderr.splitlines()
        details = "\n".join(errors[:20])
        raise CompilerError(f"{arguments[0]} cannot compile {label}: {details or f'exit code {result.returncode}'}")


class _Notice:
    """Tells the user why the first call takes seconds; nothing when all comes from the cache."""

    def __init__(self) -> None:
        self.count, self.started = 0, 0.0

    def begin(self, label: str) -> None:
        self.count += 1
        self.started = time.perf_counter()
        if self.count == 1:
            self.say("compiling CUDA kernels for the emulator: once per machine, then they come from a cache\n")
        self.say(f"  {self.count:3d}  {label} ... ")

    def end(self) -> None:
        self.say(f"{time.perf_counter() - self.started:.1f} s\n")

    @staticmethod
    def say(text: str) -> None:
        if os.environ.get("MINITRANSFORMER_QUIET") != "1":
            sys.stderr.write(text)
            sys.stderr.flush()


_notice = _Notice()
