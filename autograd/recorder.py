"""Recorder: the kernels of a backend with a note of each call, from which `autograd.tape` adds up costs."""

from typing import Any


class Outline:
    """The shape and dtype of an array, without the array: all that a cost depends on."""

    __slots__ = ("shape", "dtype")

    def __init__(self, array: Any):
        self.shape, self.dtype = tuple(array.shape), array.dtype


class Recorder:
    """recorder.add(a, b) is backend.add(a, b); `calls` gets ("add", (outline of a, outline of b))."""

    __slots__ = ("backend", "calls")

    def __init__(self, backend: Any):
        self.backend = backend
        self.calls: list[tuple[str, tuple]] = []

    def __getattr__(self, name: str):
        kernel = getattr(self.backend, name)

        def noted(*args):
            self.calls.append((name, tuple(Outline(a) if hasattr(a, "dtype") else a for a in args)))
            return kernel(*args)

        return noted
