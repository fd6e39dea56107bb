"""Pieces of the engine's own files, for lessons that show them: what stands in the lesson is what runs."""

from pathlib import Path

import kernels


def excerpt(file: str, begin: str, end: str) -> str:
    """The lines of a kernel file from the one that starts with `begin` up to the one that starts with `end`."""
    lines = (Path(kernels.__file__).parent / file).read_text(encoding="utf-8").splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith(begin))
    last = next(n for n, line in enumerate(lines) if n > first and line.startswith(end))
    return f"--- kernels/{file}, line {first + 1}\n" + "\n".join(lines[first:last]).rstrip() + "\n"
