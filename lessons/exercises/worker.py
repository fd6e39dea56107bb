"""Runs students' code, each answer in a process of its own that is forked, limited, and thrown away.

This file is started as a program that imports nothing of the exercises. It reads jobs from its standard input, forks
for each one, and passes on what the child writes: one line of JSON for each call. The child decides nothing. It only
hands back results, and the judge, in another process, compares them: printing, leaving early or patching whatever is
in the child's memory changes no verdict.

The fence keeps accidents and shortcuts out (our solutions, the engine, other programs, the network, files outside the
throw-away folder). It is no prison: code from strangers belongs in a container or a virtual machine.
"""

import contextlib
import io
import json
import os
import pickle
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from lessons.exercises.values import NoValue, encoded

HOUSE = Path(__file__).parents[2]
SECRET = tuple(str(HOUSE / room) + os.sep for room in ("lessons", "kernels", "autograd", "minitransformer", "tests"))
FLOOD = 512 * 2**20  # bytes of results at which nobody listens any more
PRINTED = 2000  # characters of what a student prints that are kept
PROCESSES = ("subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.kill", "pty.")
CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.link", "os.symlink", "os.truncate")


# ---------------------------------------------------------------------------------------------------- the server


def serve(kind: str) -> None:
    """Jobs in, answers out, until the judge closes the pipe."""
    if kind == "numba":
        import numba  # noqa: F401  once for all children
    elif kind == "engine":
        _load_engine()
    elif kind == "cuda":
        import lessons.exercises.cuda_run  # noqa: F401
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the judge, who then closes the pipe
    jobs, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else may write where the answers go
    while header := jobs.read(8):
        (size,) = struct.unpack("<Q", header)
        job = pickle.loads(jobs.read(size))
        message = pickle.dumps(run_apart(job))
        try:
            answers.write(struct.pack("<Q", len(message)) + message)
            answers.flush()
        except BrokenPipeError:  # the judge has gone
            os._exit(0)


def _load_engine() -> None:
    """autograd and all kernels in NumPy: behind the fence none of their files can be opened any more."""
    import autograd  # noqa: F401
    import kernels
    from kernels.contract import CONTRACT

    kernels.use("numpy")
    for name in CONTRACT:
        getattr(kernels.current(), name)


def run_apart(job: dict[str, Any]) -> tuple[bytes, str, int]:
    """(what the child wrote, how it ended: done, time or status, the status)."""
    folder = tempfile.mkdtemp(prefix="exercise-")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.close(reading)
            _child(job, folder, writing)
        os._exit(70)
    os.close(writing)
    try:
        text, in_time = _read(reading, job["seconds"] * 2 + 5)
        if not in_time:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # whatever it has started
        shutil.rmtree(folder, ignore_errors=True)
    code = os.waitstatus_to_exitcode(status)
    return text, "status" if in_time and code != -signal.SIGXCPU else "time", code


def _read(pipe: int, seconds: float) -> tuple[bytes, bool]:
    """Everything until the pipe is closed; False if that takes too long, or the judge has gone."""
    parts, size, until = [], 0, time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and size < FLOOD:
        ready, _, _ = select.select([pipe, 0], [], [], left)
        if 0 in ready:  # one job at a time: what comes now can only be the end
            break
        if ready:
            part = os.read(pipe, 1 << 16)
            if not part:
                return b"".join(parts), True
            parts.append(part)
            size += len(part)
    return b"".join(parts), False


# ---------------------------------------------------------------------------------------------------- the child


def _child(job: dict[str, Any], folder: str, pipe: int) -> None:
    os.setsid()
    os.closerange(3, pipe)  # of the worker's own pipes nothing is left to write to
    os.closerange(pipe + 1, 1024)
    os.chdir(folder)
    os.environ.update(HOME=folder, TMPDIR=folder) if job["kind"] != "cuda" else None
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    _limit(job)
    printed = _Printed()
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), printed, printed

    def say(**fields: Any) -> None:
        os.write(pipe, (json.dumps(fields) + "\n").encode())

    path = Path(folder) / job["file"]
    path.write_text(job["source"], encoding="utf-8")
    if job["kind"] == "cuda":
        from lessons.exercises.cuda_run import run_launches

        run_launches(path, job["calls"], say)
    else:
        _run_calls(job, path, say, printed)
    os._exit(0)


def _run_calls(job: dict[str, Any], path: Path, say: Any, printed: "_Printed") -> None:
    watch = None
    if job["kind"] == "numba" and job["plain"]:
        from lessons.exercises.plain_numba import Watch

        watch = Watch(str(path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "lessons"]:
        del sys.modules[name]
    _fence(str(path.parent), job["allowed"])
    module = ModuleType("answer")
    module.__file__ = str(path)
    sys.modules["answer"] = module
    try:
        with watch.shim() if watch else contextlib.nullcontext():
            exec(compile(job["source"], str(path), "exec"), module.__dict__)
    except BaseException as error:
        say(**_error(error, path, job["source"]), printed=printed.text(), before=True)
        return
    for name, arguments in job["calls"]:
        given = pickle.loads(arguments)
        before = json.dumps(encoded(given))
        try:
            wanted = getattr(module, name)
            if watch:
                given = tuple(watch.watched(one) for one in given)
            with watch.running() if watch else contextlib.nullcontext():
                result = wanted(*given) if callable(wanted) else wanted
        except BaseException as error:
            say(**_error(error, path, job["source"]), printed=printed.text())
            return
        try:
            answer = {"result": encoded(result)}
        except NoValue as error:
            answer = {"error": "no value", "text": str(error), "line": 0, "code": ""}
        if json.dumps(encoded(tuple(map(_bare, given)))) != before:
            answer["changed"] = True
        if watch:
            answer |= {"race": watch.race, "counters": {"largest_array": watch.largest}}
        say(**answer, printed=printed.text())


def _bare(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, np.ndarray) else value


def _error(error: BaseException, path: Path, source: str) -> dict[str, Any]:
    """What was raised, and the last line of the student's file that was being run."""
    lines = source.splitlines()
    number = 0
    if isinstance(error, SyntaxError):
        number = error.lineno or 0
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == str(path):
            number = line
    code = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    return {"error": type(error).__name__, "text": str(error)[:1500], "line": number, "code": code}


def _limit(job: dict[str, Any]) -> None:
    used = 0
    with contextlib.suppress(OSError):
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    room, seconds = used + job["megabytes"] * 2**20, job["seconds"]
    for what, most in (
        (resource.RLIMIT_AS, room),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 64 * 2**20),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (most, most + (1 if what == resource.RLIMIT_CPU else 0)))


class _Printed(io.TextIOBase):
    """Keeps the beginning of what is printed."""

    def __init__(self) -> None:
        self.kept = ""

    def write(self, text: str) -> int:
        self.kept += text[: max(0, PRINTED - len(self.kept))]
        return len(text)

    def text(self) -> str:
        kept, self.kept = self.kept, ""
        return kept


def _fence(folder: str, allowed: tuple[str, ...]) -> None:
    """An audit hook stays until the process ends: Python code cannot take it away."""
    modules = {*sys.stdlib_module_names, "numpy", "answer", *allowed}

    def inside(place: object) -> bool:
        path = os.path.realpath(os.fsdecode(place)) if isinstance(place, str | bytes | os.PathLike) else ""
        return path == os.devnull or (path + os.sep).startswith(os.path.realpath(folder) + os.sep)

    def hook(event: str, arguments: tuple) -> None:
        if event == "import":
            top = str(arguments[0]).partition(".")[0]
            if top not in modules and not top.startswith("_"):
                raise ImportError(f"{arguments[0]} is not at hand in this exercise")
        elif event == "open":
            path, mode, flags = arguments
            if not isinstance(path, str | bytes):
                return
            real = os.path.realpath(os.fsdecode(path))
            if real.startswith(SECRET):
                raise PermissionError(f"{os.path.relpath(real, HOUSE)} is not at hand in this exercise")
            if real.startswith("/proc/"):
                raise PermissionError(f"{real} cannot be read here")
            if (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and not inside(path):
                raise PermissionError(f"{os.fsdecode(path)} cannot be written: only the folder of this run can")
        elif event.startswith(PROCESSES):
            raise PermissionError(f"{event}: no other programs here")
        elif event.startswith("socket."):
            raise PermissionError(f"{event}: no network here")
        elif event in CHANGES and not all(inside(place) for place in arguments[:1]):
            raise PermissionError(f"{event}: only in the folder of this run")

    sys.addaudithook(hook)


if __name__ == "__main__":
    serve(sys.argv[1])
