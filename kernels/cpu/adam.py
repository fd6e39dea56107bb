"""One step of Adam or AdamW in a single sweep: reads param, grad, m, v and writes param, m, v once each, where a
chain of array operations would cross memory a dozen times."""

import math

import numpy as np
from numba import prange

from kernels.cpu.jit import flat, kernel


@kernel(flags=set(), inline=True)
def _product(a, b):
    """Rounded by itself: clipping here gives the bits of gradients that were multiplied beforehand."""
    return a * b


@kernel(parallel=True)
def _adam(param, grad, m, v, beta1, rest1, beta2, rest2, rate, root, eps, shrink, weight_decay, grad_factor):
    for i in prange(param.size):
        g = _product(grad[i], grad_factor) + weight_decay * param[i]
        m[i] = beta1 * m[i] + rest1 * g
        v[i] = beta2 * v[i] + rest2 * g * g
        param[i] = shrink * param[i] - rate * m[i] / (np.sqrt(v[i]) * root + eps)


def adam(param, grad, m, v, lr, beta1, beta2, eps, weight_decay, decoupled, step, grad_factor):
    """m ← β₁ m + (1-β₁) g;  v ← β₂ v + (1-β₂) g²;  param ← param - lr · m̂ / (√v̂ + eps), all in place.

    g is grad · grad_factor. `shrink` is AdamW's decay, `weight_decay` Adam's; the one not in use is neutral. 1-β is
    formed in double precision: in float32, 1 - 0.999 has only four right digits."""
    number = param.dtype.type
    rate, root = number(lr / (1 - beta1**step)), number(1 / math.sqrt(1 - beta2**step))
    shrink = number(1 - lr * weight_decay) if decoupled else number(1)
    decay = number(0) if decoupled else number(weight_decay)
    changed = [flat(a) for a in (param, m, v)]
    betas = number(beta1), number(1 - beta1), number(beta2), number(1 - beta2)
    _adam(changed[0], flat(grad), *changed[1:], *betas, rate, root, number(eps), shrink, decay, number(grad_factor))
    for target, new in zip((param, m, v), changed, strict=True):
        if not (target.flags.c_contiguous and target.flags.aligned):  # it was worked on as a copy
            target[...] = new.reshape(target.shape)
