"""Functions of one element and arithmetic of two arrays. Each element is read once and written once.

The loops are threaded: one core alone does not reach the memory's bandwidth. exp, sigmoid, SiLU and the tanh form
of GELU use our own vectorised exp, GELU our own Φ; log and tanh are the C library's. Two arrays of one shape go through
a threaded loop; broadcasting is left to NumPy's, which is compiled too and limited by memory like ours."""

import math
from functools import wraps

import numpy as np
from numba import prange

from kernels.cpu.gelu import gelu_slope, gelu_value
from kernels.cpu.jit import flat, kernel
from kernels.cpu.silu import gelu_tanh_slope, gelu_tanh_value, silu_slope, silu_value
from kernels.cpu.vector_math import exp as fast_exp
from kernels.cpu.workspace import recycled


def elementwise(loop=None, *, broadcast=None):
    """A kernel out of a loop over flat arrays. The loop writes into its first argument, which callers do not pass: they
    give the others, of any one shape, and get a result of that shape. `broadcast` takes over where shapes differ."""
    if loop is None:
        return lambda loop: elementwise(loop, broadcast=broadcast)
    compiled = kernel(loop, parallel=True)

    @wraps(loop)
    def call(*inputs):
        if broadcast is not None and inputs[0].shape != inputs[1].shape:
            with np.errstate(all="ignore"):
                return broadcast(*inputs)
        result = recycled(inputs[0].shape, inputs[0].dtype)
        if result.size:
            compiled(result.reshape(-1), *(flat(x) for x in inputs))
        return result

    return call


@kernel
def relu_value(x):
    return 0 if x <= 0 else x  # not "x if x > 0": NaN stays NaN


@kernel
def relu_slope(x):
    return 1 if x > 0 else 0


@elementwise
def exp(y, x):
    for i in prange(x.size):
        y[i] = fast_exp(x[i])


@elementwise
def exp_backward(dx, dy, y):
    """y' = y"""
    for i in prange(y.size):
        dx[i] = dy[i] * y[i]


@elementwise
def log(y, x):
    for i in prange(x.size):
        y[i] = math.log(x[i]) if x[i] > 0 else (-np.inf if x[i] == 0 else np.nan)


@elementwise
def log_backward(dx, dy, x):
    """y' = 1/x"""
    for i in prange(x.size):
        dx[i] = dy[i] / x[i]


@elementwise
def sqrt(y, x):
    for i in prange(x.size):
        y[i] = np.sqrt(x[i])


@elementwise
def sqrt_backward(dx, dy, y):
    """y' = 1/(2y)"""
    for i in prange(y.size):
        dx[i] = dy[i] / (2 * y[i])


@elementwise
def tanh(y, x):
    for i in prange(x.size):
        y[i] = math.tanh(x[i])


@elementwise
def tanh_backward(dx, dy, y):
    """y' = 1 - y²"""
    for i in prange(y.size):
        dx[i] = dy[i] * (1 - y[i] * y[i])


@elementwise
def sigmoid(y, x):
    """1/(1 + exp(-x)); exp(-x) = inf gives 0, as it should"""
    for i in prange(x.size):
        y[i] = 1 / (1 + fast_exp(-x[i]))


@elementwise
def sigmoid_backward(dx, dy, y):
    """y' = y (1 - y)"""
    for i in prange(y.size):
        dx[i] = dy[i] * y[i] * (1 - y[i])


@elementwise
def relu(y, x):
    """max(x, 0); NaN stays NaN"""
    for i in prange(x.size):
        y[i] = relu_value(x[i])


@elementwise
def relu_backward(dx, dy, x):
    """y' = 1 for x > 0, else 0 (also at the corner)"""
    for i in prange(x.size):
        dx[i] = dy[i] if x[i] > 0 else 0


@elementwise
def gelu(y, x):
    """x Φ(x), Φ the distribution function of the standard normal"""
    for i in prange(x.size):
        y[i] = gelu_value(x[i])


@elementwise
def gelu_backward(dx, dy, x):
    """y' = Φ(x) + x φ(x)"""
    for i in prange(x.size):
        dx[i] = dy[i] * gelu_slope(x[i])


@elementwise
def gelu_tanh(y, x):
    """x (1 + tanh u) / 2 = x σ(2u), u = √(2/π) (x + 0.044715 x³)"""
    for i in prange(x.size):
        y[i] = gelu_tanh_value(x[i])


@elementwise
def gelu_tanh_backward(dx, dy, x):
    """y' = σ + x σ (1 - σ) (2u)', σ = σ(2u)"""
    for i in prange(x.size):
        dx[i] = dy[i] * gelu_tanh_slope(x[i])


@elementwise
def silu(y, x):
    """x σ(x)"""
    for i in prange(x.size):
        y[i] = silu_value(x[i])


@elementwise
def silu_backward(dx, dy, x):
    """y' = σ + x σ (1 - σ)"""
    for i in prange(x.size):
        dx[i] = dy[i] * silu_slope(x[i])


@elementwise(broadcast=np.add)
def add(c, a, b):
    for i in prange(a.size):
        c[i] = a[i] + b[i]


@elementwise(broadcast=np.subtract)
def subtract(c, a, b):
    for i in prange(a.size):
        c[i] = a[i] - b[i]


@elementwise(broadcast=np.multiply)
def multiply(c, a, b):
    for i in prange(a.size):
        c[i] = a[i] * b[i]


@elementwise(broadcast=np.divide)
def divide(c, a, b):
    for i in prange(a.size):
        c[i] = a[i] / b[i]


@elementwise(broadcast=np.power)
def power(c, a, b):
    for i in prange(a.size):
        c[i] = a[i] ** b[i]
