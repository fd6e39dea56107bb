"""Variables of the environment that make no sense are left out, and that is said: a slip in a shell's settings is no
reason to end a command, and the libraries that read them would end it with a traceback."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from contextlib import suppress

from minitransformer.app.output import note
from minitransformer.errors import excerpt

WIDEST = 1000  # characters a line; tables are ruled over the whole width


def _number(least: int, most: int) -> Callable[[str], bool]:
    def sensible(value: str) -> bool:
        with suppress(ValueError):
            return least <= int(value) <= most
        return False

    return sensible


def _command(value: str) -> bool:
    with suppress(ValueError):  # a quotation without its end
        return not value.strip() or bool(shlex.split(value))
    return False


_LAYERS = ("default", "safe", "forksafe", "threadsafe", "omp", "tbb", "workqueue")
SENSIBLE: dict[str, Callable[[str], bool]] = {
    "COLUMNS": _number(0, WIDEST),
    "LINES": _number(0, WIDEST),
    "CXX": _command,
    "NUMBA_THREADING_LAYER": lambda value: value.lower() in _LAYERS,
    "NUMBA_NUM_THREADS": _number(1, 2**20),
}


def tidy_up() -> None:
    """Before the libraries are loaded that read them."""
    for name, sensible in SENSIBLE.items():
        value = os.environ.get(name)
        if value and not sensible(value):
            del os.environ[name]
            note(f"note: {name}={excerpt(value)} makes no sense and is left out")
