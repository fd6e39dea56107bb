"""What a Tensor can be made of, and how a leaf is copied, pickled and moved to another backend."""

from typing import Any

import numpy as np

import autograd
import kernels
from autograd.errors import AutogradError
from kernels.contract import FLOATS


def array_for_tensor(data: Any, requires_grad: bool, dtype: Any, backend: Any) -> Any:
    """A copy of what a user hands in: what happens to the caller's array later does not reach the tape."""
    if isinstance(data, autograd.Tensor):
        raise TypeError("this is a Tensor already; use .detach(), or .data for the array")
    if isinstance(data, list | tuple) and any(isinstance(part, autograd.Tensor) for part in data):
        raise TypeError("a list of Tensors would lose their gradients; use autograd.functional.stack")
    if dtype is None and not hasattr(data, "dtype") and np.asarray(data).dtype.kind == "f":
        dtype = np.float32  # Python numbers carry no precision of their own
    array = backend.xp.array(backend.asarray(data, dtype))
    kind = array.dtype
    if kind not in FLOATS and kind.kind not in "iub":
        raise TypeError(f"a Tensor holds float32, float64, integers or booleans, not {kind}")
    if requires_grad and kind.kind != "f":
        raise TypeError(f"only float32 and float64 have gradients, not {kind}")
    return array


def to(self: Any, backend: str) -> Any:
    """A leaf with the same values on another backend."""
    if self.node is not None:
        raise AutogradError("only a leaf can move between backends; use .detach().to(...)")
    target = kernels.backend(backend)
    moved = autograd.Tensor(self.backend.to_numpy(self.array).copy(), self.requires_grad, backend=target)
    moved.grad = None if self.grad is None else self.grad.to(backend)
    return moved


def reduced(self: Any) -> tuple:
    """A leaf for `copy` and `pickle`: how to make it again."""
    if self.node is not None:
        raise AutogradError("a result cannot be copied or pickled along with its tape; take .detach()")
    return _leaf, (type(self), self.array, self.backend, self.requires_grad, self.grad)


def _leaf(kind: Any, array: Any, backend: Any, requires_grad: bool, grad: Any) -> Any:
    leaf = kind.holding(backend.xp.array(array), backend)
    leaf.requires_grad, leaf.grad = requires_grad, grad
    return leaf
