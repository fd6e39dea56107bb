"""SiLU, x σ(x), and the tanh form of GELU, which is the same with another argument, each with its slope:

    u = √(2/π) (x + 0.044715 x³),     x (1 + tanh u) / 2 = x σ(2u),     σ(u) = 1/(1 + exp(-u))

Through σ nothing cancels on the left, where 1 + tanh u would, and the compiler vectorises it, as it does our exp. The
constants of SiLU are float32, exact in both precisions: a sum with a float64 is a float64. Those of GELU are not exact,
so its argument is written once for each precision."""

import math

import numpy as np

from kernels.cpu.jit import kernel
from kernels.cpu.vector_math import by_precision, exp

F = np.float32
ONE, THREE = F(1), F(3)
LINEAR, CUBIC = 2 * math.sqrt(2 / math.pi), 0.044715
LINEAR_32, CUBIC_32 = F(LINEAR), F(CUBIC)


@kernel(inline=True)
def sigmoid_value(x):
    """1/(1 + exp(-x)); exp(-x) = inf gives 0, as it should"""
    return ONE / (ONE + exp(-x))


@kernel(inline=True)
def silu_value(x):
    return x * sigmoid_value(x)


@kernel(inline=True)
def silu_slope(x):
    """σ + x σ (1 - σ)"""
    s = sigmoid_value(x)
    return s + x * s * (ONE - s)


@kernel(inline=True)
def argument32(x):
    return LINEAR_32 * x * (ONE + CUBIC_32 * x * x)


@kernel(inline=True)
def argument_slope32(x):
    return LINEAR_32 * (ONE + THREE * CUBIC_32 * x * x)


@kernel(inline=True)
def argument64(x):
    return LINEAR * x * (ONE + CUBIC * x * x)


@kernel(inline=True)
def argument_slope64(x):
    return LINEAR * (ONE + THREE * CUBIC * x * x)


argument = by_precision(argument32, argument64)  # 2u
argument_slope = by_precision(argument_slope32, argument_slope64)


@kernel(inline=True)
def gelu_tanh_value(x):
    return x * sigmoid_value(argument(x))


@kernel(inline=True)
def gelu_tanh_slope(x):
    """σ + x σ (1 - σ) (2u)'"""
    s = sigmoid_value(argument(x))
    return s + x * s * (ONE - s) * argument_slope(x)
