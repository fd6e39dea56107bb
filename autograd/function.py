"""Function: one differentiable operation, its place on the tape, and what it saved for its derivative."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from autograd import errors
from autograd.errors import AutogradError, MissingRule
from autograd.partial_gradient import PartialGradient
from autograd.recorder import Recorder
from autograd.storage import Storage, storage_of
from autograd.tensor import Tensor
from kernels.backend import common_backend

# Whether operations are recorded: each thread and each asyncio task decides for itself.
grad_mode: ContextVar[bool] = ContextVar("grad_mode", default=True)


@contextmanager
def no_grad() -> Iterator[None]:
    """Inside, nothing is recorded: results need no gradient, and memory is freed at once."""
    former = grad_mode.get()
    try:
        grad_mode.set(False)
        yield
    finally:
        grad_mode.set(former)


def is_grad_enabled() -> bool:
    """Whether operations are recorded here, for a gradient that may follow."""
    return grad_mode.get()


class Function:
    """One differentiable operation. A subclass has two methods, next to each other:

    forward(self, *arguments)  takes arrays (and plain options), returns one array, and calls
                               self.save(...) with what backward will need
    backward(self, dy)         returns one gradient for each argument that can have one, None for the others

    Both compute through self.kernels, the kernels of the backend at hand, whose calls are noted for `autograd.tape`.
    `kernel` names the entry of the contract whose arguments forward takes; tests and costs follow it.
    """

    kernel: str | None = None
    # Gradients are shared, not copied. A rule that might write to them gets a dy of its own, and what it returns is
    # copied too, as it might go on using the array.
    only_reads = False
    rules: dict[str, type["Function"]] = {}

    inputs: tuple[Tensor | None, ...] = ()
    needs: tuple[bool, ...] = ()  # to which inputs a gradient flows
    saved: tuple = ()
    watched: Sequence[tuple[Any, Storage, int]] = ()  # saved arrays that others can reach, and their versions
    freed = False

    def __init_subclass__(cls) -> None:
        errors.refuse_static_methods(cls)
        if cls.kernel is not None:
            Function.rules[cls.kernel] = cls

    def __init__(self, backend: Any, recording: bool = True):
        self.kernels = Recorder(backend) if recording else backend
        self.xp = backend.xp

    @property
    def name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        shapes = ", ".join("-" if tensor is None else str(tensor.shape) for tensor in self.inputs)
        return f"{self.name}(freed by backward)" if self.freed else f"{self.name}({shapes})"

    def forward(self, *arguments: Any):
        raise MissingRule(f"{self.name} has no forward method")

    def backward(self, dy: Any):
        raise MissingRule(f"{self.name} has no derivative rule: its backward method is missing")

    def save(self, *values: Any) -> None:
        self.saved = values

    # ------------------------------------------------------------------------------------------ the forward pass

    @classmethod
    def apply(cls, *arguments: Any) -> Tensor:
        """Runs forward and, if any input requires a gradient, puts this Function on the tape."""
        tensors = tuple([a if isinstance(a, Tensor) else None for a in arguments])
        backend = common_backend([t.backend for t in tensors if t is not None])
        # asked before forward, which may save work or memory when no gradient will follow
        is_on = grad_mode.get()
        needs = tuple([is_on and t is not None and t.requires_grad for t in tensors])
        recording = True in needs
        node = cls(backend, recording)
        node.needs = needs
        output = node.forward(*[a.array if isinstance(a, Tensor) else a for a in arguments])
        if isinstance(output, (tuple, list)):  # noqa: UP038 - a union would be made anew at each call
            raise errors.several_outputs(node.name, output)
        output = node.xp.asarray(output)
        result = Tensor.holding(output, backend, storage_of(output, tensors))
        if recording:
            node.inputs = tensors
            if node.saved:
                node._watch((*tensors, result))
            result.node = node
            result.requires_grad = True
        return result

    def _watch(self, tensors: tuple[Tensor | None, ...]) -> None:
        """Nobody may write to a saved array that one of these Tensors looks at until backward has read it."""
        watched, saved = [], list(self.saved)
        for place, value in enumerate(saved):
            if isinstance(value, self.xp.ndarray) and (storage := storage_of(value, tensors)):
                if storage.sliced:
                    saved[place] = self.xp.array(value)
                storage.count_need(+1)
                watched.append((value, storage, storage.version))
        self.watched, self.saved = watched, tuple(saved)

    # ------------------------------------------------------------------------------------------ the backward pass

    def parents(self) -> list[Tensor]:
        """The inputs to which a gradient flows."""
        if self.freed:
            raise AutogradError(
                f"this graph was freed by an earlier backward ({self.name} is gone); call the first one with "
                "backward(retain_graph=True), or compute the result again"
            )
        return [t for t, needed in zip(self.inputs, self.needs, strict=True) if needed and t is not None]

    def check_saved(self) -> None:
        for array, storage, version in self.watched:
            if storage.version != version:
                raise AutogradError(
                    f"an array of shape {tuple(array.shape)} that {self.name} saved for its derivative was changed in "
                    "place after the forward pass; change a copy instead, or call backward before"
                )

    def input_gradients(self, dy: Any) -> Iterator[tuple[Tensor, Any]]:
        """Pairs of input and gradient, checked: a rule that returns nonsense is named here."""
        self.kernels.start_backward()
        gradients = self.backward(dy if self.only_reads else self.xp.array(dy))
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        if len(gradients) > len(self.inputs):
            raise errors.too_many_gradients(self.name, gradients, self.inputs)
        for position, (tensor, needed, dx) in enumerate(zip(self.inputs, self.needs, gradients, strict=False)):
            if tensor is None or not needed or dx is None:
                continue
            if not isinstance(dx, PartialGradient):
                dx = self.xp.asarray(dx)
            if tuple(dx.shape) != tensor.shape or dx.dtype != tensor.dtype:
                raise errors.misfitting_gradient(self.name, position, dx, tensor)
            yield tensor, dx if self.only_reads else self.xp.array(dx)

    def release(self) -> None:
        """Frees what was saved, and the way to the inputs."""
        self._let_go()
        self.saved, self.watched, self.inputs, self.needs, self.freed = (), (), (), (), True

    def _let_go(self) -> None:
        for _, storage, _ in self.watched:
            storage.count_need(-1)

    __del__ = _let_go  # the same without a backward, when nobody holds the result any more


class Rule(Function):
    """A Function of this package: it computes with kernels, which only read what they are given."""

    only_reads = True
