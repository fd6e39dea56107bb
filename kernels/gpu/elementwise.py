"""Functions of one element and arithmetic of two arrays: launches elementwise.cu, a thread an element."""

import numpy as np

from kernels.cuda.launcher import launch, module_of
from kernels.gpu.grid import BLOCK, contiguous, for_elements


def _map(kernel, *inputs):
    """Runs a kernel over arrays of one shape, which it sees as one long row."""
    first = inputs[0]
    result = module_of(first).empty(first.shape, dtype=first.dtype)
    args = (result, *(contiguous(x) for x in inputs), result.size)
    launch("elementwise", kernel, for_elements(result.size), BLOCK, args, first.dtype)
    return result


def exp(x):
    return _map("exp_forward", x)


def exp_backward(dy, y):
    """y' = y"""
    return _map("exp_backward", dy, y)


def log(x):
    return _map("log_forward", x)


def log_backward(dy, x):
    """y' = 1/x"""
    return _map("log_backward", dy, x)


def sqrt(x):
    return _map("sqrt_forward", x)


def sqrt_backward(dy, y):
    """y' = 1/(2y)"""
    return _map("sqrt_backward", dy, y)


def tanh(x):
    return _map("tanh_forward", x)


def tanh_backward(dy, y):
    """y' = 1 - y²"""
    return _map("tanh_backward", dy, y)


def sigmoid(x):
    """1/(1 + exp(-x))"""
    return _map("sigmoid_forward", x)


def sigmoid_backward(dy, y):
    """y' = y (1 - y)"""
    return _map("sigmoid_backward", dy, y)


def relu(x):
    """max(x, 0); NaN stays NaN"""
    return _map("relu_forward", x)


def relu_backward(dy, x):
    """y' = 1 for x > 0, else 0 (also at the corner)"""
    return _map("relu_backward", dy, x)


def gelu(x):
    """x Φ(x), Φ the distribution function of the standard normal"""
    return _map("gelu_forward", x)


def gelu_backward(dy, x):
    """y' = Φ(x) + x φ(x)"""
    return _map("gelu_backward", dy, x)


def _steps(shape, joint):
    """How far one step along each axis of the joint shape moves in a contiguous array of `shape`: 0 if repeated."""
    steps, step = [], 1
    for size in reversed((1,) * (len(joint) - len(shape)) + tuple(shape)):
        steps.append(0 if size == 1 else step)
        step *= size
    return steps[::-1]


def joined_axes(a_shape: tuple, b_shape: tuple, joint: tuple) -> list[list[int]]:
    """[size, step in a, step in b] for each axis of the result, neighbours joined where both arrays simply go on:
    an outer step must be as long as the whole inner axis. Empty when both arrays are walked from end to end."""
    axes: list[list[int]] = []
    for size, step_a, step_b in zip(joint, _steps(a_shape, joint), _steps(b_shape, joint), strict=True):
        if size == 1:
            continue
        if axes and axes[-1][1:] == [size * step_a, size * step_b]:
            axes[-1] = [axes[-1][0] * size, step_a, step_b]
        else:
            axes.append([size, step_a, step_b])
    return [] if len(axes) == 1 and axes[0][1:] == [1, 1] else axes


def _pair(kernel, a, b):
    xp = module_of(a)
    shape = np.broadcast_shapes(a.shape, b.shape)
    result = xp.empty(shape, dtype=a.dtype)
    axes = joined_axes(a.shape, b.shape, shape)
    table = xp.asarray(axes, dtype="int64") if axes else None
    args = (result, contiguous(a), contiguous(b), table, len(axes), result.size)
    launch("elementwise", kernel, for_elements(result.size), BLOCK, args, a.dtype)
    return result


def add(a, b):
    return _pair("add_forward", a, b)


def subtract(a, b):
    return _pair("subtract_forward", a, b)


def multiply(a, b):
    return _pair("multiply_forward", a, b)


def divide(a, b):
    return _pair("divide_forward", a, b)


def power(a, b):
    return _pair("power_forward", a, b)
