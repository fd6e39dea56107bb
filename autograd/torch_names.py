"""Names that PyTorch taught people, beside the engine's own: view for reshape, dim= for axis=.

Each method does what it does there, in a line or two of functions that are here already; what computes has its rule
and its gradient check with them. A name that stays out is answered with the one to use instead.
"""

import math
from typing import Any

import numpy as np

import autograd
from autograd.syntax import TensorSyntax, torch_words

# PyTorch's name → what to write here, for names that stay out
INSTEAD = {
    "bmm": "a @ b",
    "chunk": "autograd.functional.split(x, pieces, axis)",
    "contiguous": "x.clone(); every function takes any memory layout",
    "cpu": 'x.to("numba") or x.to("numpy")',
    "cuda": 'x.to("cupy")',
    "double": 'x.astype("float64")',
    "float": 'x.astype("float32")',
    "gather": "x[rows, columns] with two arrays of integers",
    "half": 'x.astype("float32"); there is no half precision',
    "index_select": "x[ids] for axis 0, x[:, ids] for axis 1",
    "is_cuda": 'x.device == "cupy"',
    "long": 'x.numpy().astype("int64"); integers need no Tensor',
    "mm": "a @ b",
    "new_ones": "autograd.ones(...)",
    "new_zeros": "autograd.zeros(...)",
    "norm": "(x * x).sum().sqrt()",
    "register_hook": "autograd.tape, which tells what every Function did",
    "repeat": "x.expand(...), or autograd.functional.concatenate",
    "requires_grad_": "x.requires_grad = True",
    "retain_grad": "a leaf: results keep no gradient, x.detach() begins anew",
    "scatter": "autograd.functional.where, or x[ids] whose gradient is a scatter",
    "split": "autograd.functional.split(x, sections, axis)",
    "t": "x.T",
    "topk": "ids = numpy.argsort(-x.numpy(), axis=-1)[..., :k]; a matrix: x[numpy.arange(len(x))[:, None], ids]",
    "type": "x.dtype, or x.astype(...)",
}


class TorchNames(TensorSyntax):
    """Methods of Tensor under the names that they have in PyTorch."""

    __slots__ = ()

    @property
    def device(self) -> str:
        """Where it computes: the name of its backend."""
        return self.backend.name

    def dim(self) -> int:
        return self.ndim

    def numel(self) -> int:
        return self.size

    def tolist(self) -> Any:
        return self.numpy().tolist()

    def clone(self):
        """The same numbers in memory of their own; the gradient flows through."""
        return autograd.shapes.clone(self)

    def view(self, *shape):
        return self.reshape(*shape)

    def permute(self, *axes):
        return autograd.shapes.transpose(self, axes)

    def unsqueeze(self, dim):
        """A new axis of length 1 at this place."""
        place = autograd.shapes.one_axis(dim, self.ndim + 1)
        return self.reshape((*self.shape[:place], 1, *self.shape[place:]))

    def squeeze(self, dim=None):
        """Without axes of length 1: all of them, or this one if it is."""
        axes = range(self.ndim) if dim is None else (autograd.shapes.one_axis(dim, self.ndim),)
        return self.reshape(tuple(size for axis, size in enumerate(self.shape) if size != 1 or axis not in axes))

    def flatten(self, start_dim=0, end_dim=-1):
        """The axes from start_dim to end_dim joined into one."""
        x = self.reshape((1,)) if self.ndim == 0 else self
        first, last = (autograd.shapes.one_axis(dim, x.ndim) for dim in (start_dim, end_dim))
        if first > last:
            raise ValueError(f"flatten: axis {start_dim} comes after axis {end_dim} in shape {self.shape}")
        joined = math.prod(x.shape[first : last + 1])
        return x.reshape((*x.shape[:first], joined, *x.shape[last + 1 :]))

    def abs(self):
        return autograd.operators.absolute(self)

    def clamp(self, min=None, max=None):
        """Elements below min become min, those above max become max; a NaN stays."""
        x = self if min is None else autograd.operators.where(self < min, min, self)
        return x if max is None else autograd.operators.where(x > max, max, x)

    def masked_fill(self, mask, value):
        """value where the mask holds, else the element."""
        return autograd.operators.where(mask, value, self)

    @torch_words
    def min(self, axis=None, keepdims=False):
        return -(-self).max(axis, keepdims)

    @torch_words
    def std(self, axis=None, keepdims=False, correction=0):
        """√var; as there, correction 0 describes the data (NumPy's default) and 1 estimates (PyTorch's)."""
        return self.var(axis, keepdims, correction).sqrt()

    @torch_words
    def argmax(self, axis=None, keepdims=False):
        """Where the largest element is, as integers: without a gradient."""
        found = self.backend.xp.argmax(self.array, axis=axis, keepdims=keepdims)
        return autograd.Tensor(found, backend=self.backend)

    @torch_words
    def softmax(self, axis=-1):
        return autograd.functional.softmax(self, axis)

    @torch_words
    def log_softmax(self, axis=-1):
        return autograd.functional.log_softmax(self, axis)

    def __getattr__(self, name: str) -> Any:
        """Only asked for what there is not."""
        if name.startswith("__"):
            raise AttributeError(name)
        if name in INSTEAD:
            raise AttributeError(f"a Tensor has no {name!r}; write {INSTEAD[name]}")
        if name.endswith("_") and not name.startswith("_"):
            raise AttributeError(
                f"a Tensor has no {name!r}: nothing is changed in place here; write x = x.{name[:-1]}(...)"
            )
        raise AttributeError(f"a Tensor has no {name!r}")


def zeros(*shape: Any, requires_grad: bool = False, dtype: Any = "float32") -> Any:
    """A Tensor of zeros."""
    return _filled("zeros", shape, requires_grad, dtype)


def ones(*shape: Any, requires_grad: bool = False, dtype: Any = "float32") -> Any:
    """A Tensor of ones."""
    return _filled("ones", shape, requires_grad, dtype)


def randn(*shape: Any, requires_grad: bool = False, dtype: Any = "float32") -> Any:
    """A Tensor of independent normal numbers; `autograd.manual_seed` fixes which."""
    return autograd.Tensor(autograd.functional.fresh_random().standard_normal(_shape(shape)), requires_grad, dtype)


def _filled(kind: str, shape: tuple, requires_grad: bool, dtype: Any) -> Any:
    return autograd.Tensor(getattr(np, kind)(_shape(shape), dtype), requires_grad)


def _shape(shape: tuple) -> tuple[int, ...]:
    """(2, 3) and ((2, 3),) mean the same."""
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
