"""Moving elements without computing: reshape, transpose, index, concatenate, copy, cast."""

from functools import lru_cache

import numpy as np

from autograd.function import Rule
from autograd.partial_gradient import SliceGradient
from autograd.syntax import torch_words
from autograd.tensor import Tensor


class Reshape(Rule):
    """The same elements in the same order under another shape.   dy ↦ dy in the old shape"""

    def forward(self, x, shape):
        self.shape = x.shape
        return x.reshape(shape)

    def backward(self, dy):
        return dy.reshape(self.shape)


class Transpose(Rule):
    """y[i, j, ...] = x with its axes in another order.   dy ↦ dy with the order undone"""

    def forward(self, x, axes):
        self.axes = axes
        return x.transpose(axes)

    def backward(self, dy):
        return dy.transpose(tuple(np.argsort(self.axes)))


class Expand(Rule):
    """x repeated by broadcasting.   dy ↦ Σ dy over the repetitions"""

    def forward(self, x, shape):
        self.shape = x.shape
        return self.xp.broadcast_to(x, shape)

    def backward(self, dy):
        return operators.unbroadcast(self.kernels, dy, self.shape)


class Index(Rule):
    """y = x[key], key of integers, slices, None, ... and integer or boolean arrays.   dy ↦ dy added where y was read

    Slices read each element at most once, so dy is written there. Arrays may read one several times: the positions
    are numbered, and the numbers picked by the same key say where each element of dy belongs, in a fixed order."""

    def forward(self, x, key):
        parts = key if isinstance(key, tuple) else (key,)
        # arrays in the key are copied: backward reads them again, and the caller may reuse them
        kept = tuple(part.copy() if hasattr(part, "dtype") else part for part in parts)
        self.shape, self.key = x.shape, kept if isinstance(key, tuple) else kept[0]
        return x[key]

    def backward(self, dy):
        parts = self.key if isinstance(self.key, tuple) else (self.key,)
        if all(part is None or part is Ellipsis or isinstance(part, int | np.integer | slice) for part in parts):
            return SliceGradient(dy, self.shape, self.key)
        size = int(np.prod(self.shape))
        numbers = self.xp.arange(size).reshape(self.shape)[self.key].reshape(-1)
        if numbers.size == 0:
            return self.xp.zeros(self.shape, dtype=dy.dtype)
        return self.kernels.embedding_backward(dy.reshape(-1, 1), numbers, size).reshape(self.shape)


class Heads(Rule):
    """Some columns of each row as heads: (B, T, A·D) → (B, H, T, D), those from the first head on.
    dy ↦ dy in these columns"""

    def forward(self, x, first, last, D):
        self.shape, self.key = x.shape, (Ellipsis, slice(first * D, last * D))
        return x[self.key].reshape(*x.shape[:2], last - first, D).transpose(0, 2, 1, 3)

    def backward(self, dy):
        return SliceGradient(rows_of_heads(dy), self.shape, self.key)


class RowsOfHeads(Rule):
    """Heads side by side: (B, H, T, D) → (B, T, H·D).   dy ↦ dy as heads"""

    def forward(self, x):
        self.shape = x.shape
        return rows_of_heads(x)

    def backward(self, dy):
        B, H, T, D = self.shape
        return dy.reshape(B, T, H, D).transpose(0, 2, 1, 3)


def rows_of_heads(x):
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


class Concatenate(Rule):
    """Arrays laid end to end along an axis.   dy ↦ the piece of dy that came from each"""

    def forward(self, axis, *parts):
        self.axis = axis
        self.ends = np.cumsum([part.shape[axis] for part in parts])[:-1].tolist()
        return self.xp.concatenate(parts, axis=axis)

    def backward(self, dy):
        return None, *self.xp.split(dy, self.ends, axis=self.axis)


class Clone(Rule):
    """The same numbers in memory of their own.   dy ↦ dy"""

    def forward(self, x):
        return x.copy()

    def backward(self, dy):
        return dy


class Cast(Rule):
    """The same numbers in another float dtype.   dy ↦ dy in the old one"""

    def forward(self, x, dtype):
        self.dtype = x.dtype
        return x.astype(dtype)

    def backward(self, dy):
        return dy.astype(self.dtype)


def one_axis(axis, rank):
    """An axis counted from the front, or an error: 2 must not silently mean 0."""
    if not -rank <= axis < rank:
        raise np.exceptions.AxisError(axis, rank)
    return axis % rank


def same_dtype(name, parts):
    """Mixed precision is the caller's decision, not a silent promotion."""
    if len({part.dtype for part in parts}) > 1:
        raise ValueError(f"{name}: dtypes {' and '.join(str(part.dtype) for part in parts)} do not mix; cast one")


def clone(x):
    """x in memory of its own."""
    return Clone.apply(x)


def reshape(x, shape):
    """x under another shape; one size may be -1."""
    if x.shape == shape:
        return x
    return Reshape.apply(x, tuple(shape) if isinstance(shape, tuple | list) else (shape,))


def transpose(x, axes=None):
    """x with its axes in this order; reversed if none is given."""
    axes = axes[0] if axes and isinstance(axes[0], tuple | list) else axes
    order = _order(None if axes is None else tuple(axes), x.ndim)
    if order is None:
        raise ValueError(f"axes {axes} are not an order of the {x.ndim} axes of shape {x.shape}")
    return Transpose.apply(x, order)


@lru_cache(1000)  # a model asks for the same few again and again
def _order(axes, rank):
    """The axes counted from the front; None if they are not all there, each once."""
    order = tuple(range(rank))[::-1] if axes is None else tuple(one_axis(axis, rank) for axis in axes)
    return order if sorted(order) == list(range(rank)) else None


def swapaxes(x, one, other):
    order = list(range(x.ndim))
    one, other = one_axis(one, x.ndim), one_axis(other, x.ndim)
    order[one], order[other] = order[other], order[one]
    return Transpose.apply(x, tuple(order))


def expand(x, shape):
    """x broadcast to a larger shape."""
    shape = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    return Expand.apply(x, tuple(shape))


def index(x, key):
    """x[key]; Tensors of integers may stand in the key."""
    if isinstance(key, tuple):
        key = tuple(part.array if isinstance(part, Tensor) else part for part in key)
    elif isinstance(key, Tensor):
        key = key.array
    elif isinstance(key, list):
        key = x.backend.xp.asarray(key)
    return Index.apply(x, key)


@torch_words
def concatenate(parts, axis=0):
    """Tensors laid end to end along an axis that exists."""
    parts = list(parts)
    if not parts:
        raise ValueError("nothing to concatenate")
    same_dtype("concatenate", parts)
    axis = one_axis(axis, parts[0].ndim)
    return Concatenate.apply(axis, *parts)


@torch_words
def stack(parts, axis=0):
    """Tensors of one shape laid side by side along a new axis."""
    parts = list(parts)
    if not parts:
        raise ValueError("nothing to stack")
    axis = one_axis(axis, parts[0].ndim + 1)
    return concatenate([part.reshape(part.shape[:axis] + (1,) + part.shape[axis:]) for part in parts], axis)


@torch_words
def split(x, sections, axis=0):
    """x cut along an axis: into that many equal pieces, or into pieces of the given sizes."""
    axis = one_axis(axis, x.ndim)
    length = x.shape[axis]
    if isinstance(sections, int):
        if sections < 1 or length % sections:
            raise ValueError(f"an axis of length {length} cannot be cut into {sections} equal pieces")
        sections = [length // sections] * sections
    if sum(sections) != length or min(sections) < 0:
        raise ValueError(f"pieces of sizes {list(sections)} do not add up to the axis of length {length}")
    pieces, start = [], 0
    for size in sections:
        pieces.append(x[(slice(None),) * axis + (slice(start, start + size),)])
        start += size
    return pieces


def astype(x, dtype):
    """x as float32 or float64."""
    if x.requires_grad and np.dtype(dtype).kind != "f":
        raise TypeError(f"{np.dtype(dtype)} has no derivative; use .detach().numpy() to leave the graph")
    return x if x.dtype == np.dtype(dtype) else Cast.apply(x, np.dtype(dtype))


from autograd import operators  # noqa: E402 - operators and shapes serve each other
