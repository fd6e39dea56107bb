"""One step of Adam, or of AdamW when `decoupled`."""

import math

import numpy as np


def adam(param, grad, m, v, lr, beta1, beta2, eps, weight_decay, decoupled, step, grad_factor):
    """m ← β₁ m + (1-β₁) g;  v ← β₂ v + (1-β₂) g²;  param ← param - lr · m̂ / (√v̂ + eps), all in place.

    m̂ = m/(1-β₁^step) and v̂ = v/(1-β₂^step) undo the start from zero; step counts from 1. Weight decay joins the
    gradient (Adam) or shrinks the parameter beforehand by lr · weight_decay (AdamW). g is grad · grad_factor: the
    factor by which gradients are clipped needs no pass of its own."""
    g = grad * grad_factor
    if decoupled:
        param *= 1 - lr * weight_decay
    else:
        g += weight_decay * param
    m *= beta1
    m += (1 - beta1) * g
    v *= beta2
    v += (1 - beta2) * g * g
    param -= lr / (1 - beta1**step) * m / (np.sqrt(v) / math.sqrt(1 - beta2**step) + eps)
