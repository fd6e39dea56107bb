"""Functions of one element and arithmetic of two arrays: launches elementwise.cu, a thread an element."""

from functools import partial

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


def _both_ways(name):
    """The launchers of NAME_forward, which takes x, and of NAME_backward, which takes dy and the saved x or y."""
    return partial(_map, f"{name}_forward"), partial(_map, f"{name}_backward")


exp, exp_backward = _both_ways("exp")  # y' = y
log, log_backward = _both_ways("log")  # y' = 1/x
sqrt, sqrt_backward = _both_ways("sqrt")  # y' = 1/(2y)
tanh, tanh_backward = _both_ways("tanh")  # y' = 1 - y²
sigmoid, sigmoid_backward = _both_ways("sigmoid")  # y = 1/(1 + exp(-x));  y' = y (1 - y)
relu, relu_backward = _both_ways("relu")  # y = max(x, 0), NaN stays NaN;  y' = 1 for x > 0, else 0 (also at the corner)
gelu, gelu_backward = _both_ways("gelu")  # y = x Φ(x), Φ that of the standard normal;  y' = Φ(x) + x φ(x)
gelu_tanh, gelu_tanh_backward = _both_ways("gelu_tanh")  # y = x σ(2u), u = √(2/π) (x + 0.044715 x³)
silu, silu_backward = _both_ways("silu")  # y = x σ(x);  y' = σ + x σ (1 - σ)

add = partial(_pair, "add_forward")
subtract = partial(_pair, "subtract_forward")
multiply = partial(_pair, "multiply_forward")
divide = partial(_pair, "divide_forward")
power = partial(_pair, "power_forward")
