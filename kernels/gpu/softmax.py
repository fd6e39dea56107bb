"""Softmax and log-softmax over the last axis of x (N, C): launches softmax.cu, a warp a row."""

from kernels.cuda.launcher import launch, module_of
from kernels.gpu.grid import BLOCK, contiguous, for_warps


def _rows(kernel, *inputs):
    first = inputs[0]
    result = module_of(first).empty(first.shape, dtype=first.dtype)
    args = (result, *(contiguous(x) for x in inputs), *first.shape)
    launch("softmax", kernel, for_warps(len(first)), BLOCK, args, first.dtype)
    return result


def softmax(x):
    """y = exp(x) / Σ_c exp(x)"""
    return _rows("softmax_forward", x)


def softmax_backward(dy, y):
    """dx = y (dy - Σ_c dy y)"""
    return _rows("softmax_backward", dy, y)


def log_softmax(x):
    """y = x - log Σ_c exp(x)"""
    return _rows("log_softmax_forward", x)


def log_softmax_backward(dy, y):
    """dx = dy - exp(y) Σ_c dy"""
    return _rows("log_softmax_backward", dy, y)
