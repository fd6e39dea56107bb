"""Numba's kernels run as plain Python first: indices are checked, and iterations of a `prange` that meet are found.

A compiled loop that writes outside its array, or to an element that another thread uses, often gives the right numbers
on the day it is tried. Here the decorators do nothing, `prange` says which iteration is running, and arrays remember
who touched which element. Two iterations of one `prange` that touch the same element, at least one of them writing, are
a race, whatever the threads happened to do.
"""

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

MAKERS = ("zeros", "empty", "ones", "full", "zeros_like", "empty_like", "ones_like", "full_like")


class Watch:
    """What is remembered about one answer's run: `race` says the first one found."""

    def __init__(self, path: str):
        self.path = path
        self.race = ""
        self.iteration: int | None = None  # of the prange that is running; None outside
        self.writers: dict[tuple[int, int], tuple[int, int]] = {}  # (array, element) → (iteration, line)
        self.readers: dict[tuple[int, int], tuple[int, int]] = {}
        self.largest = 0  # entries of the largest array that was made
        self.kept: list[Any] = []  # arrays stay alive, so that no two have the same id

    def watched(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray) or isinstance(value, Watched):
            return value
        array = value.view(Watched)
        array.ids = np.arange(value.size).reshape(value.shape)
        array.root, array.watch = id(array), self
        self.kept.append(array)
        return array

    def prange(self, *bounds: int) -> Iterator[int]:
        if self.iteration is not None:  # inside another one: Numba runs it as a plain range
            yield from range(*bounds)
            return
        self.writers.clear()
        self.readers.clear()
        try:
            for i in range(*bounds):
                self.iteration = i
                yield i
        finally:
            self.iteration = None

    def made(self, array: Any) -> Any:
        """Takes note of the size of an array that the answer has made."""
        self.largest = max(self.largest, int(np.size(array)))
        return array

    def touch(self, array: "Watched", ids: Any, writes: bool) -> None:
        if self.iteration is None or self.race:
            return
        line = self._line()
        for element in np.asarray(ids).reshape(-1).tolist():
            key, mine = (array.root, element), (self.iteration, line)
            for others, what in (
                ((self.writers, "writes"), (self.readers, "reads")) if writes else ((self.writers, "writes"),)
            ):
                other = others.get(key)
                if other is not None and other[0] != self.iteration:
                    self.race = (
                        f"iterations {other[0]} and {self.iteration} of the prange use the same element: one "
                        f"{what} it in line {other[1]}, the other {'writes' if writes else 'reads'} it in line {line}"
                    )
                    return
            (self.writers if writes else self.readers)[key] = mine

    def _line(self) -> int:
        frame = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename != self.path:
            frame = frame.f_back
        return frame.f_lineno if frame else 0

    @contextlib.contextmanager
    def shim(self) -> Iterator[None]:
        """`import numba` gives a module whose decorators hand back the function as it is."""
        import numba

        real = numba
        plain = ModuleType("numba")
        plain.__dict__.update({name: getattr(real, name) for name in dir(real)})
        plain.njit = plain.jit = _no_decorator
        plain.prange = self.prange
        sys.modules["numba"] = plain
        yield  # the child ends soon: nothing is put back

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Arrays made outside a prange are shared by its iterations, so they are watched too."""
        originals = {name: getattr(np, name) for name in MAKERS}
        self.largest = 0

        def maker(name: str):
            def make(*arguments: Any, **options: Any):
                made = self.made(originals[name](*map(_bare, arguments), **options))
                return self.watched(_bare(made)) if self.iteration is None else _bare(made)

            return make

        try:
            for name in MAKERS:
                setattr(np, name, maker(name))
            yield
        finally:
            for name, original in originals.items():
                setattr(np, name, original)


class Watched(np.ndarray):
    """An array whose every read and write of an element is reported."""

    ids: Any = None
    root: int = 0
    watch: Any = None

    def __getitem__(self, key):
        part = self.view(np.ndarray)[_bare(key) if not isinstance(key, tuple) else tuple(map(_bare, key))]
        if self.ids is None:
            return part
        ids = self.ids[key]
        if isinstance(part, np.ndarray) and part.ndim and np.shares_memory(part, self.view(np.ndarray)):
            view = part.view(Watched)
            view.ids, view.root, view.watch = ids, self.root, self.watch
            return view
        self.watch.touch(self, ids, writes=False)
        return part

    def __setitem__(self, key, value):
        if self.ids is not None:
            self.watch.touch(self, self.ids[key], writes=True)
        if isinstance(value, Watched) and value.ids is not None:
            value.watch.touch(value, value.ids, writes=False)
        self.view(np.ndarray)[key] = _bare(value)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        for value in inputs:
            if isinstance(value, Watched) and value.ids is not None:
                value.watch.touch(value, value.ids, writes=False)
        if out is not None:
            for value in out:
                if isinstance(value, Watched) and value.ids is not None:
                    value.watch.touch(value, value.ids, writes=True)
            options["out"] = tuple(_bare(value) for value in out)
        result = getattr(ufunc, method)(*(_bare(value) for value in inputs), **options)
        self.watch.made(result) if self.watch else None
        return out[0] if out is not None and len(out) == 1 else result

    def __array_function__(self, function, types, arguments, options):
        for value in arguments:
            if isinstance(value, Watched) and value.ids is not None:
                value.watch.touch(value, value.ids, writes=False)
        bare = {key: _bare(value) for key, value in options.items()}
        result = function(*(_bare_all(value) for value in arguments), **bare)
        return self.watch.made(result) if self.watch and isinstance(result, np.ndarray) else result

    def fill(self, value):
        self[...] = value

    def copy(self, order="C"):
        if self.ids is not None:
            self.watch.touch(self, self.ids, writes=False)
        return self.view(np.ndarray).copy(order)


def _method(name: str):
    def method(self, *arguments, **options):
        if self.ids is not None:
            self.watch.touch(self, self.ids, writes=False)
        return getattr(self.view(np.ndarray), name)(*arguments, **options)

    return method


for _name in ("sum", "mean", "max", "min", "std", "var", "argmax", "argmin", "dot", "astype", "prod", "tolist"):
    setattr(Watched, _name, _method(_name))


def _bare(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Watched) else value


def _bare_all(value: Any) -> Any:
    return type(value)(map(_bare, value)) if isinstance(value, list | tuple) else _bare(value)


def _no_decorator(*arguments: Any, **options: Any) -> Any:
    if len(arguments) == 1 and callable(arguments[0]) and not options:
        return arguments[0]
    return lambda function: function
