"""How the engine is broken, or watched, for a while.

def mask_off(engine):
    "attention ignores the mask"
    engine.replace(F, "attention", lambda attention: lambda q, k, v, **rest: attention(q, k, v))

with broken(mask_off):
    ...                            # everything computed here has the fault
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


class Engine:
    """What a fault is given: it replaces parts of the engine, which are put back at the end."""

    def __init__(self) -> None:
        self._undo = contextlib.ExitStack()

    def replace(self, owner: Any, name: str, change: Callable[[Any], Any]) -> None:
        """Sets `owner.name` to `change(what was there)`."""
        own, as_it_stands = name in vars(owner), vars(owner).get(name)  # a class method, say, before it is bound
        setattr(owner, name, change(getattr(owner, name)))
        self._undo.callback(setattr, owner, name, as_it_stands) if own else self._undo.callback(delattr, owner, name)

    def restore(self) -> None:
        self._undo.close()


Fault = Callable[[Engine], None]


def without(part: str) -> Callable[[Any], Any]:
    """For `engine.replace(CLASS, "__init__", without("name"))`: what the class builds lacks this part."""

    def change(init: Callable) -> Callable:
        def build(self: Any, *arguments: Any, **options: Any) -> None:
            init(self, *arguments, **options)
            delattr(self, part)

        return build

    return change


@contextlib.contextmanager
def broken(fault: Fault) -> Iterator[None]:
    """The engine with this fault, for a while."""
    engine = Engine()
    try:
        fault(engine)
        yield
    finally:
        engine.restore()


@contextlib.contextmanager
def watched(owner: Any, name: str) -> Iterator[list[tuple]]:
    """The sound engine, and a list of the positional arguments of each call of the function `owner.name`."""
    calls: list[tuple] = []

    def noting(function: Callable) -> Callable:
        def run(*arguments: Any, **options: Any) -> Any:
            calls.append(arguments)
            return function(*arguments, **options)

        return run

    with broken(lambda engine: engine.replace(owner, name, noting)):
        yield calls
