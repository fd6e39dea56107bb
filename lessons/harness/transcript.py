"""Remembers which line of a lesson printed or showed what, so that the book can set each output below its cell."""

import sys
from typing import Any, TextIO


class Transcript:
    """Stands in for stdout: passes everything on, and notes the line of the lesson's top level that is being run."""

    def __init__(self, file: str, stream: TextIO):
        self.file, self.stream = file, stream
        # [line, text] with neighbours of the same line joined, or [line, {"figure": file, "caption": text}]
        self.parts: list[list[Any]] = []

    def write(self, text: str) -> int:
        line = self._line()
        if self.parts and self.parts[-1][0] == line and isinstance(self.parts[-1][1], str):
            self.parts[-1][1] += text
        else:
            self.parts.append([line, text])
        return self.stream.write(text)

    def figure(self, file: str, caption: str) -> None:
        """Notes a figure that is shown between two outputs."""
        self.parts.append([self._line(), {"figure": file, "caption": caption}])

    def _line(self) -> int:
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self.file and frame.f_code.co_name == "<module>":
                return frame.f_lineno
            frame = frame.f_back
        return 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
