"""What can be asked of a Tensor and written with it: a.shape, a + b, a[0], a.sum().

The rules behind the operators are in operators.py and shapes.py; here is only the syntax."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import autograd
from autograd import numpy_guard

REFLECTED = {"add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__",
             "power": "__rpow__", "matmul": "__rmatmul__"}  # fmt: skip


def torch_words(function: Callable) -> Callable:
    """Lets a function take dim= and keepdim= for axis= and keepdims=."""

    @functools.wraps(function)
    def either(*arguments: Any, **options: Any) -> Any:
        for theirs, ours in (("dim", "axis"), ("keepdim", "keepdims")):
            if theirs in options:
                if ours in options:
                    raise TypeError(f"{function.__name__}: {theirs} and {ours} mean the same; give one of them")
                options[ours] = options.pop(theirs)
        return function(*arguments, **options)

    return either


class TensorSyntax:
    """Attributes, operators and methods of Tensor that have nothing to do with its gradient."""

    __slots__ = ()
    array: Any
    data: Any
    backend: Any
    node: Any
    requires_grad: bool

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

    # ------------------------------------------------------------------------------------------ among NumPy's arrays

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype) if copy else np.asarray(self.numpy(), dtype=dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        """array + tensor ends here, before NumPy has converted the Tensor."""
        reflected = REFLECTED.get(ufunc.__name__)
        if method == "__call__" and reflected and len(inputs) == 2 and inputs[1] is self and not options:
            return getattr(self, reflected)(inputs[0])
        return numpy_guard.call(getattr(ufunc, method), f"numpy.{ufunc.__name__}", inputs, options)

    def __array_function__(self, function, types, arguments, options):
        """np.concatenate([tensor, ...]) and all of NumPy that is no ufunc ends here."""
        return numpy_guard.call(function, f"{function.__module__}.{function.__name__}", arguments, options)

    # ------------------------------------------------------------------------------------------ operators and methods

    def __add__(self, other):
        return autograd.operators.add(self, other)

    def __radd__(self, other):
        return autograd.operators.add(other, self)

    def __sub__(self, other):
        return autograd.operators.subtract(self, other)

    def __rsub__(self, other):
        return autograd.operators.subtract(other, self)

    def __mul__(self, other):
        return autograd.operators.multiply(self, other)

    def __rmul__(self, other):
        return autograd.operators.multiply(other, self)

    def __truediv__(self, other):
        return autograd.operators.divide(self, other)

    def __rtruediv__(self, other):
        return autograd.operators.divide(other, self)

    def __pow__(self, other):
        return autograd.operators.power(self, other)

    def __rpow__(self, other):
        return autograd.operators.power(other, self)

    def __matmul__(self, other):
        return autograd.operators.matmul(self, other)

    def __rmatmul__(self, other):
        return autograd.operators.matmul(other, self)

    def __neg__(self):
        return autograd.operators.multiply(self, -1)

    def __abs__(self):
        return autograd.operators.absolute(self)

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
        return autograd.shapes.index(self, key)

    def reshape(self, *shape):
        return autograd.shapes.reshape(self, shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)

    def transpose(self, *axes):
        """All axes in a new order (reversed if none is given), as in NumPy; two of them swapped, as in PyTorch."""
        if len(axes) == 2 and all(isinstance(axis, int) for axis in axes):
            return autograd.shapes.swapaxes(self, *axes)
        return autograd.shapes.transpose(self, axes or None)

    def swapaxes(self, one, other):
        return autograd.shapes.swapaxes(self, one, other)

    @property
    def T(self):
        return autograd.shapes.transpose(self, None)

    def expand(self, *shape):
        return autograd.shapes.expand(self, shape)

    def astype(self, dtype):
        return autograd.shapes.astype(self, dtype)

    @torch_words
    def sum(self, axis=None, keepdims=False):
        return autograd.operators.sum(self, axis, keepdims)

    @torch_words
    def mean(self, axis=None, keepdims=False):
        return autograd.operators.mean(self, axis, keepdims)

    @torch_words
    def max(self, axis=None, keepdims=False):
        return autograd.operators.max(self, axis, keepdims)

    @torch_words
    def var(self, axis=None, keepdims=False, correction=0):
        return autograd.operators.var(self, axis, keepdims, correction)

    def exp(self):
        return autograd.operators.exp(self)

    def log(self):
        return autograd.operators.log(self)

    def sqrt(self):
        return autograd.operators.sqrt(self)

    def tanh(self):
        return autograd.operators.tanh(self)

    def sigmoid(self):
        return autograd.operators.sigmoid(self)

    def relu(self):
        return autograd.operators.relu(self)


def _array(value: Any) -> Any:
    return value.array if isinstance(value, TensorSyntax) else value
