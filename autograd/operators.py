"""Arithmetic, elementary functions and reductions: the rules behind the operators of Tensor.

y = f(a, b);  each class states y and the vector-Jacobian product: dy ↦ da, db."""

import math
import numbers

from autograd.function import Rule
from autograd.tensor import Tensor


def tensor_like(value, model):
    """A number or array as a Tensor beside `model`: numbers and integers take its dtype; a float array of another
    precision does not, and the kernel will say so."""
    if isinstance(value, Tensor):
        return value
    if not isinstance(value, numbers.Number) and not hasattr(value, "dtype"):
        raise TypeError(f"a Tensor, an array or a number is needed here, not {type(value).__name__}")
    is_array = hasattr(value, "dtype") and getattr(value, "shape", ()) != ()
    if is_array and value.dtype.kind == "f":
        return Tensor(value, backend=model.backend)
    return Tensor(model.backend.asarray(value, model.dtype), backend=model.backend)


def both_tensors(a, b):
    if isinstance(a, Tensor):
        return a, tensor_like(b, a)
    return tensor_like(a, b), b


def unbroadcast(kernels, gradient, shape):
    """Sums a gradient over the axes along which a value of this shape was repeated by broadcasting."""
    if tuple(gradient.shape) == tuple(shape):
        return gradient
    lead = gradient.ndim - len(shape)
    repeated = [lead + i for i, size in enumerate(shape) if size == 1 and gradient.shape[lead + i] != 1]
    return kernels.sum(gradient, (*range(lead), *repeated)).reshape(shape)


class Add(Rule):
    """y = a + b.   dy ↦ dy, dy"""

    kernel = "add"

    def forward(self, a, b):
        self.shapes = a.shape, b.shape
        return self.kernels.add(a, b)

    def backward(self, dy):
        da = unbroadcast(self.kernels, dy, self.shapes[0]) if self.needs[0] else None
        db = unbroadcast(self.kernels, dy, self.shapes[1]) if self.needs[1] else None
        return da, db


class Subtract(Rule):
    """y = a - b.   dy ↦ dy, -dy"""

    kernel = "subtract"

    def forward(self, a, b):
        self.shapes = a.shape, b.shape
        return self.kernels.subtract(a, b)

    def backward(self, dy):
        da = unbroadcast(self.kernels, dy, self.shapes[0]) if self.needs[0] else None
        db = -unbroadcast(self.kernels, dy, self.shapes[1]) if self.needs[1] else None
        return da, db


class Multiply(Rule):
    """y = a b.   dy ↦ dy b, dy a"""

    kernel = "multiply"

    def forward(self, a, b):
        self.save(a, b)
        return self.kernels.multiply(a, b)

    def backward(self, dy):
        a, b = self.saved
        da = unbroadcast(self.kernels, self.kernels.multiply(dy, b), a.shape) if self.needs[0] else None
        db = unbroadcast(self.kernels, self.kernels.multiply(dy, a), b.shape) if self.needs[1] else None
        return da, db


class Divide(Rule):
    """y = a / b.   dy ↦ dy / b, -dy y / b"""

    kernel = "divide"

    def forward(self, a, b):
        y = self.kernels.divide(a, b)
        self.save(a, b, y)
        return y

    def backward(self, dy):
        a, b, y = self.saved
        da = self.kernels.divide(dy, b)
        db = unbroadcast(self.kernels, -self.kernels.multiply(da, y), b.shape) if self.needs[1] else None
        return unbroadcast(self.kernels, da, a.shape), db


class Power(Rule):
    """y = aᵇ.   dy ↦ dy b aᵇ⁻¹ (0 where b = 0), dy y log a (0 where a = 0: the limit for b > 0)"""

    kernel = "power"

    def forward(self, a, b):
        y = self.kernels.power(a, b)
        self.save(a, b, y)
        return y

    def backward(self, dy):
        a, b, y = self.saved
        da = db = None
        if self.needs[0]:
            exponent = self.xp.where(b == 0, a.dtype.type(1), b) - 1  # for b = 0 anything but -1: 0 · 0⁻¹ is NaN
            slope = self.kernels.multiply(b, self.kernels.power(a, exponent))
            da = unbroadcast(self.kernels, self.kernels.multiply(dy, slope), a.shape)
        if self.needs[1]:
            log_a = self.kernels.log(self.xp.where(a == 0, a.dtype.type(1), a))
            slope = self.kernels.multiply(y, log_a)
            db = unbroadcast(self.kernels, self.kernels.multiply(dy, slope), b.shape)
        return da, db


class Matmul(Rule):
    """y = a b (matrices).   dy ↦ dy bᵀ, aᵀ dy"""

    kernel = "matmul"

    def forward(self, a, b):
        self.save(a, b)
        return self.kernels.matmul(a, b)

    def backward(self, dy):
        a, b = self.saved
        da = unbroadcast(self.kernels, self.kernels.matmul(dy, b.swapaxes(-1, -2)), a.shape)
        db = unbroadcast(self.kernels, self.kernels.matmul(a.swapaxes(-1, -2), dy), b.shape)
        return da, db


class _OfInput(Rule):
    """y = f(x), with a derivative written in terms of x."""

    def forward(self, x):
        self.save(x)
        return getattr(self.kernels, str(self.kernel))(x)

    def backward(self, dy):
        return getattr(self.kernels, f"{self.kernel}_backward")(dy, *self.saved)


class _OfOutput(Rule):
    """y = f(x), with a derivative written in terms of y."""

    def forward(self, x):
        y = self.xp.asarray(getattr(self.kernels, str(self.kernel))(x))
        self.save(y)
        return y

    def backward(self, dy):
        return getattr(self.kernels, f"{self.kernel}_backward")(dy, *self.saved)


class Exp(_OfOutput):
    """y = exp x.   dy ↦ dy y"""

    kernel = "exp"


class Log(_OfInput):
    """y = log x.   dy ↦ dy / x"""

    kernel = "log"


class Sqrt(_OfOutput):
    """y = √x.   dy ↦ dy / 2y"""

    kernel = "sqrt"


class Tanh(_OfOutput):
    """y = tanh x.   dy ↦ dy (1 - y²)"""

    kernel = "tanh"


class Sigmoid(_OfOutput):
    """y = 1/(1 + exp(-x)).   dy ↦ dy y (1 - y)"""

    kernel = "sigmoid"


class Relu(_OfInput):
    """y = max(x, 0).   dy ↦ dy where x > 0, else 0"""

    kernel = "relu"


class Gelu(_OfInput):
    """y = x Φ(x), Φ the normal distribution function.   dy ↦ dy (Φ(x) + x φ(x))"""

    kernel = "gelu"


class GeluTanh(_OfInput):
    """y = x (1 + tanh u) / 2, u = √(2/π) (x + 0.044715 x³).   dy ↦ dy (σ + x σ (1 - σ) (2u)') with σ = σ(2u)"""

    kernel = "gelu_tanh"


class Silu(_OfInput):
    """y = x σ(x).   dy ↦ dy (σ + x σ (1 - σ))"""

    kernel = "silu"


class Where(Rule):
    """y = a where the condition holds, else b.   dy ↦ dy where it holds, dy where it does not"""

    def forward(self, condition, a, b):
        self.save(self.xp.array(condition))  # a copy: backward reads it again
        self.shapes = a.shape, b.shape
        return self.xp.where(condition, a, b)

    def backward(self, dy):
        (condition,) = self.saved
        zero = dy.dtype.type(0)
        da = unbroadcast(self.kernels, self.xp.where(condition, dy, zero), self.shapes[0])
        db = unbroadcast(self.kernels, self.xp.where(condition, zero, dy), self.shapes[1])
        return None, da, db


class Sum(Rule):
    """y = Σ x over axes.   dy ↦ dy, repeated along them"""

    kernel = "sum"

    def forward(self, x, axes):
        self.shape, self.axes = x.shape, axes
        return self.kernels.sum(x, axes)

    def backward(self, dy):
        return self.xp.broadcast_to(self.xp.expand_dims(dy, self.axes), self.shape)


class Max(Rule):
    """y = max x over axes.   dy ↦ dy shared equally among the largest elements, 0 for the rest"""

    kernel = "max"

    def forward(self, x, axes):
        y = self.xp.asarray(self.kernels.max(x, axes))
        self.axes = axes
        self.save(x, y)
        return y

    def backward(self, dy):
        x, y = self.saved
        largest = (x == self.xp.expand_dims(y, self.axes)).astype(x.dtype)
        ties = self.kernels.sum(largest, self.axes)
        share = self.xp.expand_dims(self.kernels.divide(dy, ties), self.axes)
        return self.kernels.multiply(largest, share)


def binary(rule):
    def function(a, b):
        return rule.apply(*both_tensors(a, b))

    function.__name__, function.__doc__ = rule.__name__.lower(), rule.__doc__
    return function


def unary(rule):
    def function(x):
        return rule.apply(x)

    function.__name__, function.__doc__ = rule.__name__.lower(), rule.__doc__
    return function


add, subtract, multiply, divide, power = (binary(rule) for rule in (Add, Subtract, Multiply, Divide, Power))
exp, log, sqrt, tanh, sigmoid, relu, silu = (unary(rule) for rule in (Exp, Log, Sqrt, Tanh, Sigmoid, Relu, Silu))


def gelu(x, approximate="none"):
    """x Φ(x), Φ the normal distribution function; approximate="tanh": x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate must be 'none' or 'tanh', not {approximate!r}")
    return (Gelu if approximate == "none" else GeluTanh).apply(x)


def matmul(a, b):
    """a @ b as NumPy has it: a vector on the left is a row, on the right a column, and disappears from the result."""
    a, b = both_tensors(a, b)
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError("@ needs at least one axis on both sides; use * for a single number")
    row, column = a.ndim == 1, b.ndim == 1
    product = Matmul.apply(a.reshape(1, -1) if row else a, b.reshape(-1, 1) if column else b)
    if row:
        product = product.reshape(product.shape[:-2] + product.shape[-1:])
    return product.reshape(product.shape[:-1]) if column else product


def where(condition, a, b):
    """Elements of a where the condition (a boolean array) holds, of b elsewhere."""
    a, b = both_tensors(a, b) if isinstance(a, Tensor) or isinstance(b, Tensor) else (Tensor(a), Tensor(b))
    shapes.same_dtype("where", (a, b))
    return Where.apply(condition.array if isinstance(condition, Tensor) else condition, a, b)


def absolute(x):
    """|x|, with derivative 0 at the corner."""
    return multiply(x, Tensor(x.backend.xp.sign(x.array), backend=x.backend))


def axes_of(x, axis):
    """None, an int or several as a sorted tuple of axes counted from the front."""
    chosen = range(x.ndim) if axis is None else (axis if isinstance(axis, tuple | list) else (axis,))
    axes = tuple(sorted(shapes.one_axis(one, x.ndim) for one in chosen))
    if len(set(axes)) != len(axes):
        raise ValueError(f"an axis is named twice in {axis}")
    return axes


def _keep(x, reduced, axes, keepdims):
    if not keepdims:
        return reduced
    return reduced.reshape(tuple(1 if i in axes else size for i, size in enumerate(x.shape)))


def sum(x, axis=None, keepdims=False):
    """Σ x over one axis, several, or all."""
    axes = axes_of(x, axis)
    return _keep(x, Sum.apply(x, axes), axes, keepdims)


def max(x, axis=None, keepdims=False):
    """The largest element over one axis, several, or all."""
    axes = axes_of(x, axis)
    return _keep(x, Max.apply(x, axes), axes, keepdims)


def _count(x, axes):
    count = math.prod(x.shape[axis] for axis in axes)
    if count == 0:
        raise ValueError(f"the mean over axes {axes} of shape {x.shape} is a mean of nothing")
    return count


def mean(x, axis=None, keepdims=False):
    """Σ x / n over one axis, several, or all."""
    return sum(x, axis, keepdims) * (1 / _count(x, axes_of(x, axis)))


def var(x, axis=None, keepdims=False, correction=0):
    """Σ (x - mean)² / (n - correction): correction 0 describes the data (NumPy's default), 1 estimates (PyTorch's)."""
    n = _count(x, axes_of(x, axis))
    if n <= correction:
        raise ValueError(f"the variance of {n} values cannot be corrected by {correction}")
    centred = x - mean(x, axis, keepdims=True)
    return sum(centred * centred, axis, keepdims) * (1 / (n - correction))


from autograd import shapes  # noqa: E402 - operators and shapes serve each other
