"""Functions of one element, their derivatives, and the arithmetic of two arrays with broadcasting.

Each backward takes dy and whatever makes its formula shortest: the input x or the output y of the forward pass."""

import math
from functools import wraps

import numpy as np

_erf = np.frompyfunc(math.erf, 1, 1)


def erf(x):
    """2/√π ∫₀ˣ exp(-t²) dt, which NumPy does not have."""
    return np.asarray(_erf(x), dtype=x.dtype)


def silent(ufunc):
    """NumPy's function without its warnings: log 0 = -inf, 1/0 = inf and √-1 = NaN are results like others."""

    @wraps(ufunc)
    def call(*arrays):
        with np.errstate(divide="ignore", invalid="ignore"):
            return ufunc(*arrays)

    return call


exp, log, sqrt, tanh = np.exp, silent(np.log), silent(np.sqrt), np.tanh
add, subtract, multiply, divide, power = np.add, np.subtract, np.multiply, silent(np.divide), silent(np.power)


def exp_backward(dy, y):
    """y' = y"""
    return dy * y


def log_backward(dy, x):
    """y' = 1/x"""
    return dy / x


def sqrt_backward(dy, y):
    """y' = 1/(2y)"""
    return dy / (2 * y)


def tanh_backward(dy, y):
    """y' = 1 - y²"""
    return dy * (1 - y * y)


def sigmoid(x):
    """1/(1 + exp(-x)), through exp(-|x|), which cannot overflow and keeps the small values on the left"""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def sigmoid_backward(dy, y):
    """y' = y (1 - y)"""
    return dy * y * (1 - y)


def relu(x):
    """max(x, 0); NaN stays NaN"""
    return np.maximum(x, x.dtype.type(0))


def relu_backward(dy, x):
    """y' = 1 for x > 0, else 0 (also at the corner)"""
    return np.where(x > 0, dy, x.dtype.type(0))


def gelu(x):
    """x Φ(x), Φ the distribution function of the standard normal: the exact form, not the tanh approximation"""
    return x * (1 + erf(x * x.dtype.type(math.sqrt(0.5)))) / 2


def gelu_backward(dy, x):
    """y' = Φ(x) + x φ(x), φ(x) = exp(-x²/2)/√(2π)"""
    cdf = (1 + erf(x * x.dtype.type(math.sqrt(0.5)))) / 2
    pdf = np.exp(-x * x / 2) * x.dtype.type(1 / math.sqrt(2 * math.pi))
    return dy * (cdf + x * pdf)


def gelu_tanh(x):
    """x (1 + tanh u) / 2, u = √(2/π) (x + 0.044715 x³): the approximation that GPT-2 was trained with.
    (1 + tanh u) / 2 = σ(2u), which keeps the small values on the left."""
    return x * sigmoid(_twice_u(x))


def gelu_tanh_backward(dy, x):
    """y' = σ + x σ (1 - σ) (2u)', σ = σ(2u)"""
    s = sigmoid(_twice_u(x))
    slope = x.dtype.type(2 * math.sqrt(2 / math.pi)) * (1 + x.dtype.type(3 * 0.044715) * x * x)
    return dy * (s + x * s * (1 - s) * slope)


def _twice_u(x):
    return x.dtype.type(2 * math.sqrt(2 / math.pi)) * x * (1 + x.dtype.type(0.044715) * x * x)


def silu(x):
    """x σ(x), also called swish"""
    return x * sigmoid(x)


def silu_backward(dy, x):
    """y' = σ + x σ (1 - σ)"""
    s = sigmoid(x)
    return dy * (s + x * s * (1 - s))
