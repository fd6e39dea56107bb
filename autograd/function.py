"""Function: one differentiable operation, its place on the tape, and what it saved for its derivative."""

import weakref
from collections.abc import Iterator
from typing import Any

import kernels
from autograd.arriving import Part
from autograd.tensor import AutogradError, Memory, MissingRule, Tensor, _mode
from kernels.backend import BackendError, mixing


class Function:
    """One differentiable operation. A subclass has two methods, next to each other:

    forward(self, *arguments)  takes arrays (and plain options), returns one array, and calls
                               self.save(...) with what backward will need
    backward(self, dy)         returns one gradient for each argument that can have one, None for the others

    Both compute through self.kernels, the kernels of the backend at hand, whose calls are noted for `autograd.tape`.
    `kernel` names the entry of the contract whose arguments forward takes; tests and costs follow it.
    """

    kernel: str | None = None
    hands_over = False  # whether backward may give away arrays that it saved
    rules: dict[str, type["Function"]] = {}

    def __init_subclass__(cls) -> None:
        if cls.kernel is not None:
            Function.rules[cls.kernel] = cls

    def __init__(self, backend: Any, recording: bool = True):
        self.kernels = Recorder(backend) if recording else backend  # calls are noted for a tape only
        self.xp = backend.xp
        self.inputs: tuple[Tensor | None, ...] = ()
        self.needs: tuple[bool, ...] = ()
        self.saved: tuple = ()
        self.guards: list[tuple[Any, int]] = []
        self.freed = False
        self.retained = False
        self.forward_calls = 0

    @property
    def name(self) -> str:
        return type(self).__name__

    def forward(self, *arguments: Any):
        raise MissingRule(f"{self.name} has no forward method")

    def backward(self, dy: Any):
        raise MissingRule(f"{self.name} has no derivative rule: its backward method is missing")

    def save(self, *values: Any) -> None:
        self.saved = values

    @classmethod
    def apply(cls, *arguments: Any) -> Tensor:
        """Runs forward and, if any input requires a gradient, puts this Function on the tape."""
        tensors = tuple(a if isinstance(a, Tensor) else None for a in arguments)
        backend = _common_backend(tensors)
        # asked before forward, which may save work or memory when no gradient will follow
        needs = tuple(_mode.recording and t is not None and t.requires_grad for t in tensors)
        node = cls(backend, any(needs))
        node.needs = needs
        arrays = [a.array if isinstance(a, Tensor) else a for a in arguments]
        output = node.forward(*arrays)
        if isinstance(output, tuple | list):
            raise AutogradError(f"{node.name}.forward must return one array, not {len(output)}")
        output = node.xp.asarray(output)
        result = Tensor.computed(output, backend, _memory_of(output, tensors, node.xp))
        if any(needs):
            node.inputs = tensors
            node.forward_calls = len(node.kernels.calls)
            node._guard(result)
            result.node = node
            result.requires_grad = True
        return result

    def parents(self) -> list[Tensor]:
        """The inputs to which a gradient flows."""
        if self.freed:
            raise AutogradError(
                f"this graph was freed by an earlier backward ({self.name} is gone); call the first one with "
                "backward(retain_graph=True), or compute the result again"
            )
        return [t for t, needed in zip(self.inputs, self.needs, strict=True) if needed and t is not None]

    def input_gradients(self, dy: Any, retain_graph: bool) -> Iterator[tuple[Tensor, Any]]:
        """Pairs of input and gradient, checked: a rule that returns nonsense is named here."""
        del self.kernels.calls[self.forward_calls :]  # the notes of an earlier backward
        self.retained = retain_graph
        gradients = self.backward(dy)
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        if len(gradients) > len(self.inputs):
            raise AutogradError(
                f"{self.name}.backward returned {len(gradients)} gradients for {len(self.inputs)} inputs"
            )
        gradients += (None,) * (len(self.inputs) - len(gradients))
        for position, (tensor, needed, dx) in enumerate(zip(self.inputs, self.needs, gradients, strict=True)):
            if tensor is None or not needed or dx is None:
                continue
            if not isinstance(dx, Part):
                dx = self.xp.asarray(dx)
            if tuple(dx.shape) != tensor.shape or dx.dtype != tensor.dtype:
                raise AutogradError(
                    f"{self.name}.backward returned shape {tuple(dx.shape)} {dx.dtype} "
                    f"for input {position}, which has shape {tensor.shape} {tensor.dtype}"
                )
            if not self.hands_over and any(
                dx is kept for kept in (*self.saved, *(t.array for t in self.inputs if t is not None))
            ):
                dx = dx.copy()  # a gradient is the receiver's to change
            yield tensor, dx

    def release(self) -> None:
        """Frees what was saved, and the way to the inputs."""
        self.saved, self.guards, self.inputs, self.needs, self.freed = (), [], (), (), True

    def _guard(self, result: Tensor) -> None:
        """Watches every saved array that the user can reach: takes its fingerprint now, or when it is first shown."""
        for array in self.saved:
            if getattr(getattr(array, "dtype", None), "kind", "") != "f" or not array.size:
                continue
            for tensor in (*self.inputs, result):
                if tensor is not None and _share(array, tensor.array, self.xp):
                    if tensor.memory.seen:
                        self._watch(array)
                    else:
                        tensor.memory.watchers.append(_Watcher(self, array))
                    break

    def _watch(self, array: Any) -> None:
        self.guards.append((array, self.kernels.backend.fingerprint(array)))

    def check_guards(self) -> None:
        for array, mark in self.guards:
            if self.kernels.backend.fingerprint(array) != mark:
                raise AutogradError(
                    f"an array of shape {tuple(array.shape)} that {self.name} saved for its derivative was changed in "
                    "place after the forward pass; change a copy instead, or call backward before"
                )


class _Watcher:
    """Takes the fingerprint of a saved array when it is about to be shown, if its Function still needs it."""

    __slots__ = ("function", "array")

    def __init__(self, function: Function, array: Any):
        self.function, self.array = weakref.ref(function), weakref.ref(array)

    def __call__(self) -> None:
        function, array = self.function(), self.array()
        if function is not None and array is not None and not function.freed:
            function._watch(array)


def _share(one: Any, other: Any, xp: Any) -> bool:
    return one is other or bool(xp.may_share_memory(one, other))


def _memory_of(output: Any, inputs: tuple[Tensor | None, ...], xp: Any) -> Memory:
    """That of the input whose array this is a view of, or a new one."""
    for tensor in inputs:
        if tensor is not None and _share(output, tensor.array, xp):
            return tensor.memory
    return Memory()


class Outline:
    """The shape and dtype of an array, without the array: all that a cost depends on."""

    __slots__ = ("shape", "dtype")

    def __init__(self, array: Any):
        self.shape, self.dtype = tuple(array.shape), array.dtype


class Recorder:
    """The kernels of one backend, with a note of each call: (kernel name, arguments with arrays as outlines)."""

    __slots__ = ("backend", "calls")

    def __init__(self, backend: Any):
        self.backend = backend
        self.calls: list[tuple[str, tuple]] = []

    def __getattr__(self, name: str):
        if name.startswith("_") or name in self.__slots__:  # asked for while a copy is being made
            raise AttributeError(name)
        run = getattr(self.backend, name)

        def noted(*args):
            self.calls.append((name, tuple(Outline(a) if hasattr(a, "dtype") else a for a in args)))
            return run(*args)

        return noted


def _common_backend(tensors: tuple[Tensor | None, ...]):
    """The backend of all these Tensors, or an error naming two that differ."""
    backend = None
    for tensor in tensors:
        if tensor is None or tensor.backend is backend:
            continue
        if backend is not None:
            raise BackendError(mixing(backend.name, tensor.backend.name))
        backend = tensor.backend
    return kernels.current() if backend is None else backend
