"""Python in prose: the blocks fenced by ```python in a Markdown page or a docstring, and a way to run them."""

import re
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

_FENCED = re.compile(r"^(?P<indent> *)```python\n(?P<code>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE)


class Snippet(NamedTuple):
    line: int  # of its first line, in the file
    code: str


def snippets(path: Path) -> list[Snippet]:
    """All blocks of a file, Markdown or Python."""
    text = path.read_text(encoding="utf-8")
    return [
        Snippet(text.count("\n", 0, found.start("code")) + 1, textwrap.dedent(found["code"]))
        for found in _FENCED.finditer(text)
    ]


def run_snippets(path: Path) -> dict[str, Any]:
    """Runs the blocks of a file in turn, each with the names that those before it defined, and returns these names.
    An error's traceback points at the line of the file. A file without a single block is an error too."""
    found = snippets(path)
    assert found, f"{path}: there is no block fenced by ```python"
    names: dict[str, Any] = {"__name__": "__snippets__"}
    for snippet in found:
        exec(compile("\n" * (snippet.line - 1) + snippet.code, path, "exec"), names)
    return names
