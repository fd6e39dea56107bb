"""How a rank comes to be watched: before anything else is loaded, it starts the watcher of its machine, or finds it."""

import atexit
import os
import socket
import sys
import time
from contextlib import suppress
from typing import NoReturn

from minitransformer.app import watcher

_JOIN = 1.0  # seconds to find the watcher


class Line:
    """From this process to the watcher of its machine."""

    own: socket.socket | None = None
    process: object = None  # the watcher's, kept, so that nobody waits for it

    @classmethod
    def say(cls, word: bytes) -> None:
        if cls.own is not None:
            with suppress(OSError):
                cls.own.sendall(word)


def start(size: int, door: socket.socket | None = None) -> None:
    """Beside this rank, if it has none yet. door: where other ranks of this machine knock"""
    if Line.own is not None or not hasattr(os, "fork"):
        return
    ours, theirs = socket.socketpair()
    ends = [theirs.fileno(), -1 if door is None else door.fileno()]
    numbers = [watcher.told(watcher.RANK) or 0, size, watcher.told(watcher.NEIGHBOURS) or 0, os.getpid(), os.getppid()]
    if "numpy" not in sys.modules:  # nor has it begun any threads: a copy of this process will do
        if os.fork() == 0:
            _watch_apart(ends, numbers)
    else:
        import subprocess

        program = [sys.executable, "-I", "-S", watcher.__file__, *map(str, ends + numbers)]
        Line.process = subprocess.Popen(
            program, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            pass_fds=[end for end in ends if end >= 0], start_new_session=True,
        )  # fmt: skip
    Line.own = closed_first(ours)
    theirs.close()
    atexit.register(Line.say, watcher.BYE)


def _watch_apart(ends: list[int], numbers: list[int]) -> NoReturn:
    """In a copy of the rank's process: what a program started anew would do, some 50 ms earlier."""
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1):
            os.dup2(nothing, number)
        kept = sorted({2, *ends} - {-1})  # whatever else is open is the rank's: its line to the launcher above all
        for before, after in zip(kept, [*kept[1:], 2**16], strict=True):
            os.closerange(before + 1, after)
        os.chdir("/")
        watcher.Watcher(*ends, *numbers).watch()
    except Exception:  # none is known
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


def closed_first(line: socket.socket) -> socket.socket:
    """Of a killed process, Linux closes the descriptor with the greatest number first: before the launcher can notice
    anything, so that nobody whom it kills then is seen to go earlier."""
    with suppress(ImportError, OSError):
        import fcntl

        number = fcntl.fcntl(line, fcntl.F_DUPFD_CLOEXEC, 500)
        line.close()
        return socket.socket(fileno=number)
    return line


def _door(launcher: int) -> str:
    """Where ranks of one machine find their watcher: a name that Linux forgets with it."""
    return f"\0minitransformer-ranks-{launcher}"


def _start_or_join(size: int) -> None:
    """Whichever rank of a machine comes first starts a watcher."""
    limit = time.monotonic() + _JOIN
    while Line.own is None and time.monotonic() < limit:
        with socket.socket(socket.AF_UNIX) as door, suppress(OSError):  # another rank was faster
            door.bind(_door(os.getppid()))
            door.listen(size)
            start(size, door)
            return
        line = socket.socket(socket.AF_UNIX)
        try:
            line.connect(_door(os.getppid()))
            Line.own = closed_first(line)
            atexit.register(Line.say, watcher.BYE)
        except OSError:  # it does not listen yet
            line.close()
            time.sleep(0.001)


def start_early() -> None:
    """Before MPI is started, which waits for all ranks: one rank of each machine starts a watcher, the others join."""
    size = watcher.told(watcher.SIZE) or 1
    if size > 1 and Line.own is None:
        if sys.platform.startswith("linux") and os.getppid() > 1:
            _start_or_join(size)
        elif watcher.told(watcher.RANK) == 0:
            start(size)
