"""Recorder: the kernels of a backend with a note of each call, from which `autograd.tape` adds up costs."""

from typing import Any


class Outline:
    """The shape and dtype of an array, without the array: all that a cost depends on."""

    __slots__ = ("shape", "dtype")

    def __init__(self, array: Any):
        self.shape, self.dtype = array.shape, array.dtype


class Recorder:
    """recorder.add(a, b) is backend.add(a, b); `calls` gets ("add", (outline of a, outline of b)).

    calls           those of the forward pass
    backward_calls  those of the last backward pass
    """

    __slots__ = ("backend", "calls", "backward_calls", "_notes")

    def __init__(self, backend: Any):
        self.backend = backend
        self.calls: list[tuple[str, tuple]] = []
        self.backward_calls: list[tuple[str, tuple]] = []
        self._notes = self.calls

    def start_backward(self) -> None:
        self._notes = self.backward_calls = []

    def __getattr__(self, name: str):
        """The kernel of that name; made once for all Recorders, then an ordinary method."""
        getattr(self.backend, name)  # says so if there is none

        def noted(self: Recorder, *args: Any) -> Any:
            self._notes.append((name, tuple([Outline(a) if hasattr(a, "dtype") else a for a in args])))
            return getattr(self.backend, name)(*args)

        setattr(Recorder, name, noted)
        return getattr(self, name)
