"""One step of Adam or AdamW in a single walk over the arrays: launches adam.cu."""

import math

from kernels.cuda.launcher import launch
from kernels.gpu.grid import BLOCK, contiguous, for_elements


def adam(param, grad, m, v, lr, beta1, beta2, eps, weight_decay, decoupled, step, grad_factor):
    """m ← β₁ m + (1-β₁) g;  v ← β₂ v + (1-β₂) g²;  param ← param - lr · m̂ / (√v̂ + eps), all in place.

    g is grad · grad_factor. `shrink` is AdamW's decay, `weight_decay` Adam's; the one not in use is neutral. All
    factors are formed in double precision and rounded once."""
    rate, root = lr / (1 - beta1**step), 1 / math.sqrt(1 - beta2**step)
    shrink, decay = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
    changed = [contiguous(a) for a in (param, m, v)]
    factors = (beta1, 1 - beta1, beta2, 1 - beta2, rate, root, eps, shrink, decay, grad_factor)
    args = (changed[0], contiguous(grad), *changed[1:], param.size, *factors)
    launch("adam", "adam", for_elements(param.size), BLOCK, args, param.dtype)
    for target, new in zip((param, m, v), changed, strict=True):
        if new is not target:  # a strided view was worked on as a copy
            target[...] = new
