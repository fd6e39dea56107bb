"""One step of Adam or AdamW in a single sweep: reads param, grad, m, v and writes param, m, v once each, where a
chain of array operations would cross memory a dozen times."""

import math

import numpy as np
from numba import prange

from kernels.cpu.each import addresses, array_at, shared, tasks_of
from kernels.cpu.jit import flat, kernel


@kernel(flags=set(), inline=True)
def _product(a, b):
    """Rounded by itself: clipping here gives the bits of gradients that were multiplied beforehand."""
    return a * b


@kernel(inline=True)
def _update(param, grad, m, v, i, numbers):
    beta1, rest1, beta2, rest2, rate, root, eps, shrink, weight_decay, grad_factor = numbers
    g = _product(grad[i], grad_factor) + weight_decay * param[i]
    m[i] = beta1 * m[i] + rest1 * g
    v[i] = beta2 * v[i] + rest2 * g * g
    param[i] = shrink * param[i] - rate * m[i] / (np.sqrt(v[i]) * root + eps)


@kernel(parallel=True)
def _adam(param, grad, m, v, numbers):
    for i in prange(param.size):
        _update(param, grad, m, v, i, numbers)


@kernel
def _sweep(param, grad, m, v, numbers):
    for i in range(param.size):
        _update(param, grad, m, v, i, numbers)


@kernel(parallel=True)
def _adam_each(addresses, tasks, numbers):
    """addresses (4, arrays): of param, grad, m and v; tasks: tasks_of(sizes)"""
    number = numbers[0]
    for task in prange(len(tasks)):
        array, start, end = tasks[task]
        param, grad = array_at(addresses[0, array], end, number), array_at(addresses[1, array], end, number)
        m, v = array_at(addresses[2, array], end, number), array_at(addresses[3, array], end, number)
        _sweep(param[start:], grad[start:], m[start:], v[start:], numbers)


def _numbers(number, lr, beta1, beta2, eps, weight_decay, decoupled, step, grad_factor):
    """`shrink` is AdamW's decay, `decay` Adam's; the one not in use is neutral. 1-β is formed in double precision: in
    float32, 1 - 0.999 has only four right digits."""
    rate, root = lr / (1 - beta1**step), 1 / math.sqrt(1 - beta2**step)
    shrink, decay = (1 - lr * weight_decay, 0) if decoupled else (1, weight_decay)
    return tuple(map(number, (beta1, 1 - beta1, beta2, 1 - beta2, rate, root, eps, shrink, decay, grad_factor)))


def _write_back(arrays, worked_on):
    for target, new in zip(arrays, worked_on, strict=True):
        if not (target.flags.c_contiguous and target.flags.aligned):  # it was worked on as a copy
            target[...] = new.reshape(target.shape)


def adam(param, grad, m, v, lr, beta1, beta2, eps, weight_decay, decoupled, step, grad_factor):
    """m ← β₁ m + (1-β₁) g;  v ← β₂ v + (1-β₂) g²;  param ← param - lr · m̂ / (√v̂ + eps), all in place.

    g is grad · grad_factor."""
    changed = [flat(a) for a in (param, m, v)]
    numbers = _numbers(param.dtype.type, lr, beta1, beta2, eps, weight_decay, decoupled, step, grad_factor)
    _adam(changed[0], flat(grad), *changed[1:], numbers)
    _write_back((param, m, v), changed)


def adam_each(calls, *options):
    """The same for several (param, grad, m, v) in one sweep."""
    arrays = [a for call in calls for a in call]
    worked_on = [flat(a) for a in arrays]
    sizes = tuple([a.size for a in worked_on[::4]])
    where = np.ascontiguousarray(addresses(worked_on).reshape(-1, 4).T)
    shared(_adam_each, sum(sizes), where, tasks_of(sizes), _numbers(arrays[0].dtype.type, *options))
    for place in (0, 2, 3):  # the gradients are only read
        _write_back(arrays[place::4], worked_on[place::4])
