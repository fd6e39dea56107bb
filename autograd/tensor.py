"""Tensor: an array that remembers how it was computed, and reverse-mode differentiation.

A Tensor holds one array. When it was computed from others it also holds the Function that computed it, and that
Function holds its input Tensors: together they form a graph, the tape. `backward` visits the graph once, from the
result to the leaves, in an order in which every Function comes after all that used its result, and asks each for the
vector-Jacobian product: given the derivative of the loss by my output, what is it by my inputs?

A Tensor belongs to the backend that was in use when it was made, as it would belong to a device elsewhere; its
Functions run there. Two Tensors of different backends do not mix.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self

import numpy as np

import kernels
from autograd.gradient_sum import GradientSum
from autograd.storage import Storage, owner_of
from autograd.torch_names import TorchNames
from kernels.contract import FLOATS


class AutogradError(RuntimeError):
    """Something that cannot be differentiated, or not any more; the message says what to do."""


class MissingRule(AutogradError):
    """A Function without a derivative rule was asked for its derivative."""


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


class Tensor(TorchNames):
    """An array that remembers how it was computed. It is made of a copy of what is given.

    array          the array (NumPy or CuPy), for code that only reads it; everybody else takes `data`
    storage        the memory behind it, which views and detached Tensors share
    requires_grad  whether backward shall bring a gradient here
    grad           that gradient, a Tensor of the same shape, after backward; it adds up until set to None
    node           the Function that computed it; None for a leaf
    """

    __slots__ = ("array", "storage", "requires_grad", "node", "backend", "_shown", "_grad", "_factor", "__weakref__")

    def __init__(self, data: Any, requires_grad: bool = False, dtype: Any = None, backend: Any = None):
        if isinstance(data, Tensor):
            raise TypeError("this is a Tensor already; use .detach(), or .data for the array")
        if isinstance(data, list | tuple) and any(isinstance(part, Tensor) for part in data):
            raise TypeError("a list of Tensors would lose their gradients; use autograd.functional.stack")
        backend = kernels.backend_of(data) if backend is None else backend
        if dtype is None and not hasattr(data, "dtype") and np.asarray(data).dtype.kind == "f":
            dtype = np.float32  # Python numbers carry no precision of their own
        # a copy: what happens to the caller's array later does not reach the tape
        array = backend.xp.array(backend.asarray(data, dtype))
        kind = array.dtype
        if kind not in FLOATS and kind.kind not in "iub":
            raise TypeError(f"a Tensor holds float32, float64, integers or booleans, not {kind}")
        if requires_grad and kind.kind != "f":
            raise TypeError(f"only float32 and float64 have gradients, not {kind}")
        self._hold(array, backend)
        self.requires_grad = requires_grad

    @classmethod
    def holding(cls, array: Any, backend: Any, storage: Storage | None = None) -> Self:
        """A Tensor of this very array, which nobody but Tensors of the same storage holds."""
        tensor = cls.__new__(cls)
        tensor._hold(array, backend, storage)
        return tensor

    def _hold(self, array: Any, backend: Any, storage: Storage | None = None) -> None:
        self.array, self.storage, self.backend = array, storage or Storage(array), backend
        self.requires_grad = False
        self.node: Any = None
        self._shown: Any = None  # the array as others see it, once somebody has asked for it
        self._grad: Tensor | None = None
        self._factor = 1.0  # of the gradient: see scale_grad

    # ------------------------------------------------------------------------------------------ what it is

    @property
    def data(self) -> Any:
        """The array. It can be written to, unless a Function on the tape still needs what it holds."""
        if self._shown is None:
            self._shown = self.storage.show(self.array)
        return self._shown

    @data.setter
    def data(self, array: Any) -> None:
        """Takes a copy in place of the array. The tape keeps the former one."""
        if array is self.data:  # x.data -= 1 changes the array, then sets it
            self.storage.version += 1
            return
        self.array = self.backend.xp.array(self.backend.asarray(array))
        self.storage, self._shown = Storage(self.array), None

    def writable(self) -> Any:
        """The array, for an optimizer or a cache that is about to write to it. A backward that needs what it held
        before will refuse to run."""
        self.storage.version += 1
        return self.array

    def __reduce__(self):
        """How a leaf is copied and pickled."""
        if self.node is not None:
            raise AutogradError("a result cannot be copied or pickled along with its tape; take .detach()")
        return _leaf, (type(self), self.array, self.backend, self.requires_grad, self.grad)

    # ------------------------------------------------------------------------------------------ leaves and moves

    def detach(self) -> "Tensor":
        """The same array, without its past."""
        return Tensor.holding(self.array, self.backend, self.storage)

    def to(self, backend: str) -> "Tensor":
        """A leaf with the same values on another backend."""
        if self.node is not None:
            raise AutogradError("only a leaf can move between backends; use .detach().to(...)")
        target = kernels.backend(backend)
        moved = Tensor(self.backend.to_numpy(self.array).copy(), self.requires_grad, backend=target)
        moved.grad = None if self.grad is None else self.grad.to(backend)
        return moved

    # ------------------------------------------------------------------------------------------ the gradient
    # Leaves may share a gradient's array, so nobody writes to one: `grad.data` is read-only.

    @property
    def grad(self) -> "Tensor | None":
        if self._grad is not None and self._factor != 1:
            factor = self.backend.asarray(self._grad.dtype.type(self._factor))
            self.grad = _gradient(self.backend.multiply(self._grad.array, factor), self.backend)
        return self._grad

    @grad.setter
    def grad(self, gradient: "Tensor | None") -> None:
        self._grad, self._factor = gradient, 1.0

    @property
    def has_grad(self) -> bool:
        return self._grad is not None

    def scale_grad(self, factor: float) -> None:
        """grad *= factor, put off: an optimizer's kernel multiplies while it reads, which spares a pass over the array;
        whoever asks for `grad` before or after gets the product."""
        self._grad, self._factor = self.grad, factor

    def grad_and_factor(self) -> tuple[Any, float]:
        """Array and number whose product is the gradient."""
        assert self._grad is not None
        return self._grad.array, self._factor

    def _accumulate(self, dy: Any) -> None:
        """grad += dy"""
        known = self.grad
        if known is not None and (not isinstance(known, Tensor) or known.shape != self.shape):
            raise AutogradError(f".grad must be None or a Tensor of shape {self.shape}, not {known!r}")
        self.grad = _gradient(dy if known is None else self.backend.add(known.array, dy), self.backend)

    # ------------------------------------------------------------------------------------------ backward

    def backward(self, gradient: Any = None, retain_graph: bool = False, on_leaf: Any = None) -> None:
        """Adds d(self)/d(leaf) · gradient to the .grad of every leaf that requires one.

        gradient      derivative of the loss by this Tensor; may be left out when this is a single number
        retain_graph  keeps what the rules saved, so that backward can be called again
        on_leaf       called with a leaf and its array as soon as nothing can be added to that any more, while other
                      gradients are still on their way
        """
        if not self.requires_grad:
            raise AutogradError("this Tensor depends on nothing that requires a gradient")
        first = self._first_gradient(gradient)
        order = inputs_before_results(self)
        for tensor in order:
            if tensor.node is not None:
                tensor.node.check_saved()
        sums = {id(self): GradientSum(first)}
        arrived: list[tuple[Tensor, Any]] = []
        while order:  # popping from the end frees each Tensor as soon as nobody needs it
            tensor = order.pop()
            if id(tensor) not in sums:
                continue  # nothing flowed here: a rule returned None for it
            dy = sums.pop(id(tensor)).total(tensor)
            if tensor.node is None:
                arrived.append((tensor, dy))
                if on_leaf is not None:
                    on_leaf(tensor, dy)
                continue
            for parent, dx in tensor.node.input_gradients(dy):
                sums.setdefault(id(parent), GradientSum()).add(parent.backend, dx)
            if not retain_graph:
                tensor.node.release()
        callers = owner_of(first)
        for leaf, dy in arrived:  # only now: a rule that fails leaves no half of the gradients behind
            leaf._accumulate(dy.copy() if owner_of(dy) is callers else dy)  # the caller may go on using the array

    def _first_gradient(self, gradient: Any):
        if gradient is None:
            if self.size != 1:
                raise AutogradError(
                    f"backward() without a gradient needs a single number, not shape {self.shape}; "
                    "sum it first, or pass backward(gradient) of that shape"
                )
            return self.backend.xp.ones(self.shape, dtype=self.dtype)
        gradient = self.backend.asarray(gradient.array if isinstance(gradient, Tensor) else gradient)
        if tuple(gradient.shape) != self.shape:
            raise AutogradError(f"the gradient has shape {tuple(gradient.shape)}, the Tensor {self.shape}")
        return gradient.astype(self.dtype, copy=False)


def inputs_before_results(root: Tensor) -> list[Tensor]:
    """Every Tensor that root was computed from, each after its inputs. No recursion: depth is only memory."""
    finished: list[Tensor] = []
    seen: set[int] = set()
    stack: list[tuple[Tensor, bool]] = [(root, False)]
    while stack:
        tensor, inputs_done = stack.pop()
        if inputs_done:
            finished.append(tensor)
        elif id(tensor) not in seen:
            seen.add(id(tensor))
            stack.append((tensor, True))
            if tensor.node is not None:
                parents = reversed(tensor.node.parents())  # the stack turns them round again
                stack.extend((parent, False) for parent in parents if id(parent) not in seen)
    return finished


def _gradient(array: Any, backend: Any) -> Tensor:
    """A Tensor that nobody can write to: its array is needed for good."""
    return Tensor.holding(array, backend, Storage(array, needed=1))


def _leaf(kind: type[Tensor], array: Any, backend: Any, requires_grad: bool, grad: Tensor | None) -> Tensor:
    leaf = kind.holding(backend.xp.array(array), backend)
    leaf.requires_grad, leaf.grad = requires_grad, grad
    return leaf
