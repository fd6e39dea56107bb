"""Ctrl-C, SIGTERM and SIGHUP as a polite request: finish the step, save, say how to go on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from minitransformer.app.ranks import is_first

_NOTICE = b"\nstopping after this step and saving (once more: stop at once) ...\n"


class Interrupts:
    """Inside `with`, the first SIGINT, SIGTERM or SIGHUP is only noted in `signal`; a second SIGINT or SIGTERM raises
    KeyboardInterrupt. A SIGHUP hurries nobody: a terminal that is closed sends several, and a SIGTERM may follow.
    Signals can be caught in the main thread only; in others this does nothing."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._requests = 0  # by SIGINT and SIGTERM
        self._at_once = False
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            numbers = [signal.SIGINT, signal.SIGTERM]
            if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # by nohup
                numbers.append(signal.SIGHUP)
            for number in numbers:
                self._former[number] = signal.signal(number, self._received)
        return self

    def __exit__(self, *_exception: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """For work that may be abandoned, such as an evaluation: already the first signal raises KeyboardInterrupt."""
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def _received(self, number: int, _frame: FrameType | None) -> None:
        self.signal = self.signal or number
        self._requests += number in (signal.SIGINT, signal.SIGTERM)
        if self._requests > 1 or self._at_once:
            self._at_once = False  # while the work is being abandoned, nothing further is
            raise KeyboardInterrupt
        if not is_first():  # of several ranks one speaks
            return
        with suppress(OSError):  # not print: the signal may have come in the middle of one
            os.write(2, _NOTICE)
