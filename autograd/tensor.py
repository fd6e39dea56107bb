"""Tensor: an array that remembers how it was computed, and reverse-mode differentiation.

A Tensor that was computed from others holds the Function that computed it, and that Function holds its input Tensors:
together they form a graph, the tape. `backward` visits it once, from the result to the leaves, and asks each Function
for the vector-Jacobian product: given the derivative of the loss by my output, what is it by my inputs?

    x = Tensor([1.0, 2.0], requires_grad=True)      a leaf: nobody computed it
    y = (x * x).sum()                               y ── Sum ── x * x ── Multiply ══ x, twice
    y.backward()                                    Sum answers (1, 1), Multiply (1, 2) for each of its two inputs;
                                                    what reaches x is added up: x.grad is (2, 4)

A Tensor belongs to the backend that was in use when it was made, as it would belong to a device elsewhere; its
Functions run there. Two Tensors of different backends do not mix.
"""

from collections import defaultdict
from typing import Any, Self

import kernels
from autograd import conversion
from autograd.errors import AutogradError
from autograd.partial_gradient import PartialGradient, add_parts
from autograd.storage import Storage, owner_of
from autograd.torch_names import TorchNames


class Tensor(TorchNames):
    """An array that remembers how it was computed. It is made of a copy of what is given.

    array          the array (NumPy or CuPy), for code that only reads it; everybody else takes `data`
    storage        the memory behind it, which views and detached Tensors share
    requires_grad  whether backward shall bring a gradient here
    grad           that gradient, a Tensor of the same shape, after backward; it adds up until set to None
    node           the Function that computed it; None for a leaf
    """

    __slots__ = ("array", "storage", "requires_grad", "grad", "node", "backend", "_shown", "__weakref__")
    grad: "Tensor | None"

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
        callers = owner_of(first)
        for leaf, dy in self.leaf_gradients(first, retain_graph, on_leaf):
            leaf._accumulate(dy.copy() if owner_of(dy) is callers else dy)  # the caller may go on using the array

    def leaf_gradients(self, dy: Any, retain_graph: bool = False, on_leaf: Any = None) -> "list[tuple[Tensor, Any]]":
        """Every leaf that requires a gradient, with d(self)/d(leaf) · dy. Only when all are there, so that a rule that
        fails leaves no half of the gradients behind."""
        order = inputs_before_results(self)
        for tensor in order:
            if tensor.node is not None:
                tensor.node.check_saved()
        sums: defaultdict[int, GradientSum] = defaultdict(GradientSum)
        sums[id(self)].so_far = dy
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
                sums[id(parent)].add(dx, parent.backend)
            if not retain_graph:
                tensor.node.release()
        return arrived

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

    def _accumulate(self, dy: Any) -> None:
        """grad += dy"""
        known = self.grad
        if known is not None:
            if not isinstance(known, Tensor) or known.shape != self.shape:
                raise AutogradError(f".grad must be None or a Tensor of shape {self.shape}, not {known!r}")
            dy = self.backend.add(known.array, dy)
        # Leaves may share a gradient's array, so nobody may write to one: it is needed for good.
        self.grad = Tensor.holding(dy, self.backend, Storage(dy, needed=1))

    # ------------------------------------------------------------------------------------------ the array

    def __init__(self, data: Any, requires_grad: bool = False, dtype: Any = None, backend: Any = None):
        backend = kernels.backend_of(data) if backend is None else backend
        self._hold(conversion.array_for_tensor(data, requires_grad, dtype, backend), backend)
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
        self.grad = None
        self._shown: Any = None  # the array as others see it, once somebody has asked for it

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

    def detach(self) -> "Tensor":
        """The same array, without its past."""
        return Tensor.holding(self.array, self.backend, self.storage)

    to = conversion.to
    __reduce__ = conversion.reduced


class GradientSum:
    """The gradient of a Tensor is the sum of what reaches it from each of its uses. Arrays are added as they come, so
    that many uses do not mean many arrays; partial gradients when all are there."""

    __slots__ = ("so_far", "parts")

    def __init__(self) -> None:
        self.so_far: Any = None
        self.parts: list[PartialGradient] = []

    def add(self, dx: Any, backend: Any) -> None:
        if isinstance(dx, PartialGradient):
            self.parts.append(dx)
        else:
            self.so_far = dx if self.so_far is None else backend.add(self.so_far, dx)

    def total(self, tensor: Tensor) -> Any:
        if self.parts:
            add_parts(self, tensor)
        return self.so_far


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
