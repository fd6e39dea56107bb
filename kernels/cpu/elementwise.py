"""Functions of one element and arithmetic of two arrays. Each element is read once and written once.

The loops are threaded: one core alone does not reach the memory's bandwidth. exp and sigmoid use our own vectorised
exp, GELU our own Φ; log and tanh are the C library's. Two arrays of one shape go through a threaded loop;
broadcasting is left to NumPy's, which is compiled too and limited by memory like ours."""

import math

import numpy as np
from numba import prange

from kernels.cpu.gelu import gelu_slope, gelu_value
from kernels.cpu.jit import flat, kernel
from kernels.cpu.vector_math import exp as fast_exp
from kernels.cpu.workspace import recycled


@kernel
def relu_value(x):
    return 0 if x <= 0 else x  # not "x if x > 0": NaN stays NaN


@kernel
def relu_slope(x):
    return 1 if x > 0 else 0


@kernel(parallel=True)
def _exp(y, x):
    for i in prange(x.size):
        y[i] = fast_exp(x[i])


@kernel(parallel=True)
def _log(y, x):
    for i in prange(x.size):
        y[i] = math.log(x[i]) if x[i] > 0 else (-np.inf if x[i] == 0 else np.nan)


@kernel(parallel=True)
def _sqrt(y, x):
    for i in prange(x.size):
        y[i] = np.sqrt(x[i])


@kernel(parallel=True)
def _tanh(y, x):
    for i in prange(x.size):
        y[i] = math.tanh(x[i])


@kernel(parallel=True)
def _sigmoid(y, x):
    for i in prange(x.size):
        y[i] = 1 / (1 + fast_exp(-x[i]))


@kernel(parallel=True)
def _relu(y, x):
    for i in prange(x.size):
        y[i] = relu_value(x[i])


@kernel(parallel=True)
def _gelu(y, x):
    for i in prange(x.size):
        y[i] = gelu_value(x[i])


@kernel(parallel=True)
def _exp_backward(dx, dy, y):
    for i in prange(y.size):
        dx[i] = dy[i] * y[i]


@kernel(parallel=True)
def _log_backward(dx, dy, x):
    for i in prange(x.size):
        dx[i] = dy[i] / x[i]


@kernel(parallel=True)
def _sqrt_backward(dx, dy, y):
    for i in prange(y.size):
        dx[i] = dy[i] / (2 * y[i])


@kernel(parallel=True)
def _tanh_backward(dx, dy, y):
    for i in prange(y.size):
        dx[i] = dy[i] * (1 - y[i] * y[i])


@kernel(parallel=True)
def _sigmoid_backward(dx, dy, y):
    for i in prange(y.size):
        dx[i] = dy[i] * y[i] * (1 - y[i])


@kernel(parallel=True)
def _relu_backward(dx, dy, x):
    for i in prange(x.size):
        dx[i] = dy[i] if x[i] > 0 else 0


@kernel(parallel=True)
def _gelu_backward(dx, dy, x):
    for i in prange(x.size):
        dx[i] = dy[i] * gelu_slope(x[i])


@kernel(parallel=True)
def _add(c, a, b):
    for i in prange(a.size):
        c[i] = a[i] + b[i]


@kernel(parallel=True)
def _subtract(c, a, b):
    for i in prange(a.size):
        c[i] = a[i] - b[i]


@kernel(parallel=True)
def _multiply(c, a, b):
    for i in prange(a.size):
        c[i] = a[i] * b[i]


@kernel(parallel=True)
def _divide(c, a, b):
    for i in prange(a.size):
        c[i] = a[i] / b[i]


@kernel(parallel=True)
def _power(c, a, b):
    for i in prange(a.size):
        c[i] = a[i] ** b[i]


def _map(loop, *inputs):
    """Runs a loop over flattened arrays of one shape."""
    result = recycled(inputs[0].shape, inputs[0].dtype)
    if result.size:
        loop(result.reshape(-1), *(flat(x) for x in inputs))
    return result


def exp(x):
    return _map(_exp, x)


def exp_backward(dy, y):
    """y' = y"""
    return _map(_exp_backward, dy, y)


def log(x):
    return _map(_log, x)


def log_backward(dy, x):
    """y' = 1/x"""
    return _map(_log_backward, dy, x)


def sqrt(x):
    return _map(_sqrt, x)


def sqrt_backward(dy, y):
    """y' = 1/(2y)"""
    return _map(_sqrt_backward, dy, y)


def tanh(x):
    return _map(_tanh, x)


def tanh_backward(dy, y):
    """y' = 1 - y²"""
    return _map(_tanh_backward, dy, y)


def sigmoid(x):
    """1/(1 + exp(-x)); exp(-x) = inf gives 0, as it should"""
    return _map(_sigmoid, x)


def sigmoid_backward(dy, y):
    """y' = y (1 - y)"""
    return _map(_sigmoid_backward, dy, y)


def relu(x):
    """max(x, 0); NaN stays NaN"""
    return _map(_relu, x)


def relu_backward(dy, x):
    """y' = 1 for x > 0, else 0 (also at the corner)"""
    return _map(_relu_backward, dy, x)


def gelu(x):
    """x Φ(x), Φ the distribution function of the standard normal"""
    return _map(_gelu, x)


def gelu_backward(dy, x):
    """y' = Φ(x) + x φ(x)"""
    return _map(_gelu_backward, dy, x)


def _pair(loop, ufunc, a, b):
    if a.shape == b.shape:
        return _map(loop, a, b)
    with np.errstate(all="ignore"):
        return ufunc(a, b)


def add(a, b):
    return _pair(_add, np.add, a, b)


def subtract(a, b):
    return _pair(_subtract, np.subtract, a, b)


def multiply(a, b):
    return _pair(_multiply, np.multiply, a, b)


def divide(a, b):
    return _pair(_divide, np.divide, a, b)


def power(a, b):
    return _pair(_power, np.power, a, b)
