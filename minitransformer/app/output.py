"""Where words go, and what happens when they cannot: a reader that has gone, a full disk, a closed terminal. And which
words do not: orders to the terminal that a text or a label brings with it.

What a program says about its work must never end the work. `Stream` drops what cannot be written. For a program,
`guarded` puts one in the place of stderr, where the log goes, and one in the place of stdout, where results go. A lost
result is a failure, unless the reader left by himself (`| head`): `OutputLost` ends a command that merely prints, and a
command that works goes on (`keep_working`) and says at its end what was lost."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from minitransformer.errors import system_error

# A text or a label may hold orders for the terminal: to clear it, to rename it, to type for its user. Only those that
# progress needs pass, which clear the rest of a line or go one up.
_UNSAFE = re.compile(r"\x1b(?!\[[KA])|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
# the reader of a pipe has gone; the terminal has been closed
_GONE = (errno.EPIPE, errno.EIO, errno.ENXIO)


class OutputLost(Exception):
    """A result that could not be written. `reader_left`: nobody wanted more of it."""

    def __init__(self, name: str, error: OSError):
        self.reader_left = error.errno == errno.EPIPE
        super().__init__(f"{name} {_reason(name, error)}")


class Stream:
    """A text stream that fails once at most. After that it drops everything.

    dropped  called with the reason when the first words are dropped
    fatal    raise OutputLost instead"""

    def __init__(self, stream: TextIO | None, name: str = "stderr", dropped: Callable[[str], None] | None = None):
        self.stream, self.name, self.dropped, self.fatal = stream, name, dropped, False
        self.failure: OSError | None = None

    def write(self, text: str) -> int:
        self._try(self._write, text)
        return len(text)

    def flush(self) -> None:
        self._try(lambda: self.stream.flush() if self.stream is not None else None)

    def isatty(self) -> bool:
        return self.failure is None and bool(getattr(self.stream, "isatty", bool)())

    def __getattr__(self, name: str) -> Any:  # encoding, fileno, buffer ... as the stream has them
        return getattr(self.stream, name)

    @property
    def encoding(self) -> str:
        return getattr(self.stream, "encoding", None) or "utf-8"

    def _write(self, text: str) -> None:
        text = _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
        if self.stream is None:  # closed before the program began: nobody is to be told anything
            return
        try:
            self.stream.write(text)
        except UnicodeEncodeError:  # a terminal without → must not cost a run its summary
            self.stream.write(text.encode(self.encoding, "replace").decode(self.encoding))

    def _try(self, action: Callable[..., object], *arguments: Any) -> None:
        if self.failure is not None:
            return
        try:
            action(*arguments)
        except (OSError, ValueError) as error:  # ValueError: the stream was closed under us
            self.failure = error if isinstance(error, OSError) else OSError(errno.EBADF, str(error))
            self._discard_the_rest()
            if self.fatal:
                raise OutputLost(self.name, self.failure) from error
            if self.dropped is not None:
                self.dropped(f"{self.name} {_reason(self.name, self.failure)}")

    def _discard_the_rest(self) -> None:
        """What is left in the buffers of a standard stream goes nowhere: Python would try it again at the very end."""
        with suppress(OSError, ValueError, AttributeError):
            number = self.stream.fileno() if self.stream is not None else -1
            if number in (1, 2):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, number)
                os.close(nowhere)


def forgiving(stream: TextIO | None = None) -> TextIO:
    """The stream, or stderr, for progress and notes: it drops what it cannot write."""
    stream = sys.stderr if stream is None else stream
    return cast(TextIO, stream if isinstance(stream, Stream) else Stream(stream))


def note(text: str) -> None:
    """A line for the user on stderr, if there is anybody to read it."""
    print(text, file=forgiving(), flush=True)


@contextmanager
def guarded() -> Iterator[Stream]:
    """stdout and stderr for a program: a failed log is no failure, a lost result is an OutputLost. Gives stdout."""
    _occupy_standard_numbers()
    former = sys.stdout, sys.stderr
    out, log = Stream(sys.stdout, "stdout"), Stream(sys.stderr)
    out.fatal = True
    sys.stdout, sys.stderr = cast(TextIO, out), cast(TextIO, log)
    try:
        yield out
    finally:
        sys.stdout, sys.stderr = former


def keep_working() -> None:
    """From here on there is more to do than to print: lost words are told of on the other stream, once, and the work
    goes on."""
    out, log = sys.stdout, sys.stderr
    if isinstance(out, Stream) and isinstance(log, Stream):
        out.fatal = False
        out.dropped = lambda reason: print(f"note: {reason}; the work goes on", file=log, flush=True)
        log.dropped = lambda reason: print(f"note: {reason}; the work goes on, unseen", file=out, flush=True)


def _occupy_standard_numbers() -> None:
    """A program started with `2>&-` would get number 2 for the next file it opens, and whoever writes to stderr by
    number would write into that file."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)  # takes the lowest number there is


def _reason(name: str, error: OSError) -> str:
    if error.errno in _GONE:
        return "can no longer be written: its reader has gone"
    return system_error(name, "cannot be written", error).found
