"""Tensor and Function: reverse-mode differentiation.

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
from typing import Any

import numpy as np

import kernels
from kernels.backend import BackendError, mixing
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


class Tensor:
    """An array that remembers how it was computed.

    data           the array (NumPy or CuPy)
    requires_grad  whether backward shall bring a gradient here
    grad           that gradient, a Tensor of the same shape, after backward; it adds up until set to None
    node           the Function that computed it; None for a leaf
    """

    __slots__ = ("data", "requires_grad", "grad", "node", "backend", "__weakref__")

    def __init__(self, data: Any, requires_grad: bool = False, dtype: Any = None, backend: Any = None):
        if isinstance(data, Tensor):
            raise TypeError("this is a Tensor already; use .detach(), or .data for the array")
        if isinstance(data, list | tuple) and any(isinstance(part, Tensor) for part in data):
            raise TypeError("a list of Tensors would lose their gradients; use autograd.functional.stack")
        self.backend = kernels.backend_of(data) if backend is None else backend
        if dtype is None and not hasattr(data, "dtype") and np.asarray(data).dtype.kind == "f":
            dtype = np.float32  # Python numbers carry no precision of their own
        self.data = self.backend.asarray(data, dtype)
        kind = self.data.dtype
        if kind not in FLOATS and kind.kind not in "iub":
            raise TypeError(f"a Tensor holds float32, float64, integers or booleans, not {kind}")
        if requires_grad and kind.kind != "f":
            raise TypeError(f"only float32 and float64 have gradients, not {kind}")
        self.requires_grad = requires_grad
        self.grad: Tensor | None = None
        self.node: Function | None = None

    # ------------------------------------------------------------------------------------------ what it is

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def dtype(self):
        return self.data.dtype

    @property
    def ndim(self) -> int:
        return self.data.ndim

    @property
    def size(self) -> int:
        return self.data.size

    @property
    def is_leaf(self) -> bool:
        return self.node is None

    def numpy(self) -> np.ndarray:
        """The values as a NumPy array; shares memory where the backend computes in host memory."""
        return self.backend.to_numpy(self.data)

    def item(self) -> float:
        if self.size != 1:
            raise ValueError(f"only one number can become a Python number, not an array of shape {self.shape}")
        return self.numpy().item()

    def __float__(self) -> float:
        return float(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __len__(self) -> int:
        return len(self.data)

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
        return Tensor(self.data, backend=self.backend)

    def to(self, backend: str) -> "Tensor":
        """A leaf with the same values on another backend."""
        if self.node is not None:
            raise AutogradError("only a leaf can move between backends; use .detach().to(...)")
        target = kernels.backend(backend)
        moved = Tensor(self.backend.to_numpy(self.data).copy(), self.requires_grad, backend=target)
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
        pending = {id(self): self._first_gradient(gradient)}
        order = inputs_before_results(self)
        for tensor in order:
            if tensor.node is not None:
                tensor.node.check_guards()
        arrived: list[tuple[Tensor, Any]] = []
        while order:  # popping from the end frees each Tensor as soon as nobody needs it
            tensor = order.pop()
            dy = pending.pop(id(tensor), None)
            if dy is None:
                continue  # nothing flowed here: a rule returned None for it
            if tensor.node is None:
                arrived.append((tensor, dy))
                continue
            for parent, dx in tensor.node.input_gradients(dy, retain_graph):
                known = pending.get(id(parent))
                pending[id(parent)] = dx if known is None else parent.backend.add(known, dx)
            if not retain_graph:
                tensor.node.release()
        owned: set[int] = set()
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
        gradient = gradient.data if isinstance(gradient, Tensor) else self.backend.asarray(gradient)
        if tuple(gradient.shape) != self.shape:
            raise AutogradError(f"the gradient has shape {tuple(gradient.shape)}, the Tensor {self.shape}")
        return gradient.astype(self.dtype)  # a copy: the caller's array is never kept

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
        return self.data < _array(other)

    def __le__(self, other):
        return self.data <= _array(other)

    def __gt__(self, other):
        return self.data > _array(other)

    def __ge__(self, other):
        return self.data >= _array(other)

    def __eq__(self, other):
        return self.data == _array(other)

    def __ne__(self, other):
        return self.data != _array(other)

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
    return value.data if isinstance(value, Tensor) else value


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
        leaf.grad = Tensor(dy.copy() if shared else dy, backend=leaf.backend)
        owned.add(id(dy))
    else:
        leaf.grad = Tensor(leaf.backend.add(leaf.grad.data, dy), backend=leaf.backend)


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

    def __init__(self, backend: Any):
        self.kernels = Recorder(backend)
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
        node = cls(backend)
        # asked before forward, which may save work or memory when no gradient will follow
        node.needs = tuple(_mode.recording and t is not None and t.requires_grad for t in tensors)
        arrays = [a.data if isinstance(a, Tensor) else a for a in arguments]
        output = node.forward(*arrays)
        if isinstance(output, tuple | list):
            raise AutogradError(f"{node.name}.forward must return one array, not {len(output)}")
        result = Tensor(node.xp.asarray(output), backend=backend)
        if any(node.needs):
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
            dx = self.xp.asarray(dx)
            if tuple(dx.shape) != tensor.shape or dx.dtype != tensor.dtype:
                raise AutogradError(
                    f"{self.name}.backward returned shape {tuple(dx.shape)} {dx.dtype} "
                    f"for input {position}, which has shape {tensor.shape} {tensor.dtype}"
                )
            if not self.hands_over and any(
                dx is kept for kept in (*self.saved, *(t.data for t in self.inputs if t is not None))
            ):
                dx = dx.copy()  # a gradient is the receiver's to change
            yield tensor, dx

    def release(self) -> None:
        """Frees what was saved, and the way to the inputs."""
        self.saved, self.guards, self.inputs, self.needs, self.freed = (), [], (), (), True

    def _guard(self, result: Tensor) -> None:
        """Notes the fingerprint of every saved array that the user can reach, to find changes in place."""
        reachable = [t.data for t in self.inputs if t is not None] + [result.data]
        for array in self.saved:
            if getattr(getattr(array, "dtype", None), "kind", "") != "f" or not array.size:
                continue
            if any(array is other or self.xp.may_share_memory(array, other) for other in reachable):
                self.guards.append((array, self.kernels.backend.fingerprint(array)))

    def check_guards(self) -> None:
        for array, mark in self.guards:
            if self.kernels.backend.fingerprint(array) != mark:
                raise AutogradError(
                    f"an array of shape {tuple(array.shape)} that {self.name} saved for its derivative was changed in "
                    "place after the forward pass; change a copy instead, or call backward before"
                )


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


from autograd import operators, shapes  # noqa: E402 - they subclass Function, so they come last
