"""Tensor: an array that remembers how it was computed, and reverse-mode differentiation.

A Tensor holds one array. When it was computed from others it also holds the Function that computed it, and that
Function holds its input Tensors: together they form a graph, the tape. `backward` visits the graph once, from the
result to the leaves, in an order in which every Function comes after all that used its result, and asks each for the
vector-Jacobian product: given the derivative of the loss by my output, what is it by my inputs?

A Tensor belongs to the backend that was in use when it was made, as it would belong to a device elsewhere; its
Functions run there. Two Tensors of different backends do not mix.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

import kernels
from autograd.arriving import Arriving
from kernels.contract import FLOATS


class AutogradError(RuntimeError):
    """Something that cannot be differentiated, or not any more; the message says what to do."""


class MissingRule(AutogradError):
    """A Function without a derivative rule was asked for its derivative."""


class _Mode(threading.local):
    """Whether operations are recorded: each thread decides for itself."""

    recording = True


_mode = _Mode()


@contextmanager
def no_grad() -> Iterator[None]:
    """Inside, nothing is recorded: results need no gradient, and memory is freed at once."""
    former, _mode.recording = _mode.recording, False
    try:
        yield
    finally:
        _mode.recording = former


class Memory:
    """Whether anybody outside may change an array behind our back, and whom that would hurt.

    Tensors that share an array (views) share a Memory. What was computed here and never shown needs no watch; when
    it is shown (`tensor.data`), the Functions that saved it take its fingerprint, which is still the right one."""

    __slots__ = ("seen", "watchers")

    def __init__(self, seen: bool = False):
        self.seen = seen
        self.watchers: list[Any] = []  # calls that take a fingerprint; they hold their Functions weakly

    def show(self) -> None:
        self.seen = True
        self.warn()

    def warn(self) -> None:
        """It is about to change: whoever still needs what it holds takes the fingerprint now."""
        while self.watchers:
            self.watchers.pop()()


class Tensor:
    """An array that remembers how it was computed. It is made of a copy of what is given.

    data           the array (NumPy or CuPy)
    requires_grad  whether backward shall bring a gradient here
    grad           that gradient, a Tensor of the same shape, after backward; it adds up until set to None
    node           the Function that computed it; None for a leaf
    """

    __slots__ = ("array", "memory", "requires_grad", "grad", "node", "backend", "__weakref__")

    def __init__(self, data: Any, requires_grad: bool = False, dtype: Any = None, backend: Any = None):
        if isinstance(data, Tensor):
            raise TypeError("this is a Tensor already; use .detach(), or .data for the array")
        if isinstance(data, list | tuple) and any(isinstance(part, Tensor) for part in data):
            raise TypeError("a list of Tensors would lose their gradients; use autograd.functional.stack")
        self.backend = kernels.backend_of(data) if backend is None else backend
        if dtype is None and not hasattr(data, "dtype") and np.asarray(data).dtype.kind == "f":
            dtype = np.float32  # Python numbers carry no precision of their own
        # a copy: what happens to the caller's array later does not reach the tape
        self.own(self.backend.xp.array(self.backend.asarray(data, dtype)))
        kind = self.array.dtype
        if kind not in FLOATS and kind.kind not in "iub":
            raise TypeError(f"a Tensor holds float32, float64, integers or booleans, not {kind}")
        if requires_grad and kind.kind != "f":
            raise TypeError(f"only float32 and float64 have gradients, not {kind}")
        self.requires_grad = requires_grad
        self.grad: Tensor | None = None
        self.node: Any = None

    @classmethod
    def computed(cls, array: Any, backend: Any, memory: "Memory") -> Self:
        """A result that a Function made: checked already, and not yet seen by anybody outside."""
        tensor = cls.__new__(cls)
        tensor.array, tensor.memory, tensor.backend = array, memory, backend
        tensor.requires_grad, tensor.grad, tensor.node = False, None, None
        return tensor

    # ------------------------------------------------------------------------------------------ what it is

    @property
    def data(self) -> Any:
        """The array itself. Whoever holds it may change it, so from here on it is watched (see `Memory`)."""
        self.memory.show()
        return self.array

    @data.setter
    def data(self, array: Any) -> None:
        self.array, self.memory = array, Memory(seen=True)

    def lend(self) -> Any:
        """The array, to be changed in place by code that does not keep it, such as an optimizer: a rule that still
        needs the old values will notice, but nobody has to be watched from here on."""
        self.memory.warn()
        return self.array

    def own(self, array: Any) -> None:
        """Takes over an array that nobody else holds."""
        self.array, self.memory = array, Memory()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def dtype(self):
        return self.array.dtype

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def size(self) -> int:
        return self.array.size

    @property
    def is_leaf(self) -> bool:
        return self.node is None

    def numpy(self) -> np.ndarray:
        """The values as a NumPy array; shares memory where the backend computes in host memory."""
        return self.backend.to_numpy(self.data)

    def item(self) -> float:
        if self.size != 1:
            raise ValueError(f"only one number can become a Python number, not an array of shape {self.shape}")
        return self.backend.to_numpy(self.array).item()

    def __float__(self) -> float:
        return float(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        origin = f", from {self.node.name}" if self.node else (", requires_grad" if self.requires_grad else "")
        return f"Tensor({np.array2string(self.numpy(), precision=4, threshold=20)}, {self.dtype}{origin})"

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype) if copy else np.asarray(self.numpy(), dtype=dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        """array + tensor must end here, not in NumPy: converting the Tensor would silently cut its gradient."""
        reflected = {"add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__",
                     "power": "__rpow__", "matmul": "__rmatmul__"}.get(ufunc.__name__)  # fmt: skip
        if method == "__call__" and reflected and len(inputs) == 2 and inputs[1] is self and not options:
            return getattr(self, reflected)(inputs[0])
        comparing = ufunc.__name__ in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
        if not comparing and any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
            raise TypeError(
                f"numpy.{ufunc.__name__} would cut the gradient; use autograd.functional, or .numpy() on purpose"
            )
        return getattr(ufunc, method)(*(x.numpy() if isinstance(x, Tensor) else x for x in inputs), **options)

    # ------------------------------------------------------------------------------------------ leaves and moves

    def detach(self) -> "Tensor":
        """The same array, without its past."""
        return Tensor.computed(self.array, self.backend, self.memory)

    def to(self, backend: str) -> "Tensor":
        """A leaf with the same values on another backend."""
        if self.node is not None:
            raise AutogradError("only a leaf can move between backends; use .detach().to(...)")
        target = kernels.backend(backend)
        moved = Tensor(self.backend.to_numpy(self.array).copy(), self.requires_grad, backend=target)
        moved.grad = None if self.grad is None else self.grad.to(backend)
        return moved

    # ------------------------------------------------------------------------------------------ backward

    def backward(self, gradient: Any = None, retain_graph: bool = False) -> None:
        """Adds d(self)/d(leaf) · gradient to the .grad of every leaf that requires one.

        gradient      derivative of the loss by this Tensor; may be left out when this is a single number
        retain_graph  keeps what the rules saved, so that backward can be called again
        """
        if not self.requires_grad:
            raise AutogradError("this Tensor depends on nothing that requires a gradient")
        first = self._first_gradient(gradient)
        pending, owned = {id(self): Arriving(first)}, {id(first)}  # the caller's array is read, never kept
        order = inputs_before_results(self)
        for tensor in order:
            if tensor.node is not None:
                tensor.node.check_guards()
        arrived: list[tuple[Tensor, Any]] = []
        while order:  # popping from the end frees each Tensor as soon as nobody needs it
            tensor = order.pop()
            if id(tensor) not in pending:
                continue  # nothing flowed here: a rule returned None for it
            dy = pending.pop(id(tensor)).total(tensor)
            if tensor.node is None:
                arrived.append((tensor, dy))
                continue
            for parent, dx in tensor.node.input_gradients(dy, retain_graph):
                pending.setdefault(id(parent), Arriving()).add(parent.backend, dx)
            if not retain_graph:
                tensor.node.release()
        for leaf, dy in arrived:  # only now: a rule that fails leaves no half of the gradients behind
            _accumulate(leaf, dy, owned)

    def _first_gradient(self, gradient: Any):
        if gradient is None:
            if self.size != 1:
                raise AutogradError(
                    f"backward() without a gradient needs a single number, not shape {self.shape}; "
                    "sum it first, or pass backward(gradient) of that shape"
                )
            return self.backend.xp.ones(self.shape, dtype=self.dtype)
        gradient = gradient.array if isinstance(gradient, Tensor) else self.backend.asarray(gradient)
        if tuple(gradient.shape) != self.shape:
            raise AutogradError(f"the gradient has shape {tuple(gradient.shape)}, the Tensor {self.shape}")
        return gradient.astype(self.dtype, copy=False)

    # ------------------------------------------------------------------------------------------ operators
    # The rules live in operators.py and shapes.py; here is only the syntax.

    def __add__(self, other):
        return operators.add(self, other)

    def __radd__(self, other):
        return operators.add(other, self)

    def __sub__(self, other):
        return operators.subtract(self, other)

    def __rsub__(self, other):
        return operators.subtract(other, self)

    def __mul__(self, other):
        return operators.multiply(self, other)

    def __rmul__(self, other):
        return operators.multiply(other, self)

    def __truediv__(self, other):
        return operators.divide(self, other)

    def __rtruediv__(self, other):
        return operators.divide(other, self)

    def __pow__(self, other):
        return operators.power(self, other)

    def __rpow__(self, other):
        return operators.power(other, self)

    def __matmul__(self, other):
        return operators.matmul(self, other)

    def __rmatmul__(self, other):
        return operators.matmul(other, self)

    def __neg__(self):
        return operators.multiply(self, -1)

    def __abs__(self):
        return operators.absolute(self)

    def __lt__(self, other):
        return self.array < _array(other)

    def __le__(self, other):
        return self.array <= _array(other)

    def __gt__(self, other):
        return self.array > _array(other)

    def __ge__(self, other):
        return self.array >= _array(other)

    def __eq__(self, other):
        return self.array == _array(other)

    def __ne__(self, other):
        return self.array != _array(other)

    __hash__ = object.__hash__  # identity: == compares elements, and gives an array

    def __getitem__(self, key):
        return shapes.index(self, key)

    def reshape(self, *shape):
        return shapes.reshape(self, shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)

    def transpose(self, *axes):
        return shapes.transpose(self, axes or None)

    def swapaxes(self, one, other):
        return shapes.swapaxes(self, one, other)

    @property
    def T(self):
        return shapes.transpose(self, None)

    def expand(self, *shape):
        return shapes.expand(self, shape)

    def astype(self, dtype):
        return shapes.astype(self, dtype)

    def sum(self, axis=None, keepdims=False):
        return operators.sum(self, axis, keepdims)

    def mean(self, axis=None, keepdims=False):
        return operators.mean(self, axis, keepdims)

    def max(self, axis=None, keepdims=False):
        return operators.max(self, axis, keepdims)

    def var(self, axis=None, keepdims=False, correction=0):
        return operators.var(self, axis, keepdims, correction)

    def exp(self):
        return operators.exp(self)

    def log(self):
        return operators.log(self)

    def sqrt(self):
        return operators.sqrt(self)

    def tanh(self):
        return operators.tanh(self)

    def sigmoid(self):
        return operators.sigmoid(self)

    def relu(self):
        return operators.relu(self)


def _array(value):
    return value.array if isinstance(value, Tensor) else value


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


def _accumulate(leaf: Tensor, dy: Any, owned: set[int]) -> None:
    """leaf.grad += dy. The first time dy itself is kept, unless somebody else may hold it (a view, or an array that
    another leaf got as well): a gradient that is later scaled in place must not change a second one."""
    if leaf.grad is not None and (not isinstance(leaf.grad, Tensor) or leaf.grad.shape != leaf.shape):
        raise AutogradError(f".grad must be None or a Tensor of shape {leaf.shape}, not {leaf.grad!r}")
    if leaf.grad is None:
        shared = dy.base is not None or id(dy) in owned or not dy.flags.c_contiguous
        leaf.grad = Tensor.computed(dy.copy() if shared else dy, leaf.backend, Memory())
        owned.add(id(dy))
    else:
        leaf.grad = Tensor(leaf.backend.add(leaf.grad.array, dy), backend=leaf.backend)


from autograd import operators, shapes  # noqa: E402 - they subclass Function, so they come last
