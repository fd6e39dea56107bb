"""What a user sees while data are fetched: one line that is rewritten on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import suppress
from typing import TextIO


class Line:
    def __init__(self, stream: TextIO | None = None, seconds: float = 5.0):
        self.stream = stream or sys.stdout
        self.live = self.stream is not None and self.stream.isatty()
        self.seconds = 0.1 if self.live else seconds
        self._stage, self._next = "", 0.0

    def show(self, stage: str, detail: str = "") -> None:
        """A new stage is shown at once, further details of the same stage only every few seconds."""
        now = time.monotonic()
        if stage == self._stage and now < self._next:
            return
        self._stage, self._next = stage, now + self.seconds
        text = f"{stage} {detail}".rstrip()
        if self.live:
            room = shutil.get_terminal_size().columns - 1  # a line that wraps could not be rewritten
            self._print(f"\r\033[K{text[:room]}", end="")
        else:
            self._print(text)

    def close(self) -> None:
        """Leave the terminal's line empty for what is printed next."""
        if self.live and self._stage:
            self._print("\r\033[K", end="")
        self._stage = ""

    def _print(self, text: str, end: str = "\n") -> None:
        with suppress(OSError, ValueError):  # a closed pipe or a full disk must not end what the line speaks of
            print(text, end=end, file=self.stream, flush=True)
