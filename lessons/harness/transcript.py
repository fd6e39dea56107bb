"""Remembers which line of a lesson printed what, so that the book can set each output below its cell."""

import sys
from typing import Any, TextIO


class Transcript:
    """Stands in for stdout: passes everything on, and notes the line of the lesson's top level that is being run."""

    def __init__(self, file: str, stream: TextIO):
        self.file, self.stream = file, stream
        self.parts: list[list[Any]] = []  # [line, text], neighbours of the same line joined

    def write(self, text: str) -> int:
        line = self._line()
        if self.parts and self.parts[-1][0] == line:
            self.parts[-1][1] += text
        else:
            self.parts.append([line, text])
        return self.stream.write(text)

    def _line(self) -> int:
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self.file and frame.f_code.co_name == "<module>":
                return frame.f_lineno
            frame = frame.f_back
        return 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
