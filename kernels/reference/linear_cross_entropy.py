"""A linear head and its cross-entropy in one: here simply one after the other, with the logits stored whole."""

import numpy as np

from kernels.reference.cross_entropy import cross_entropy, cross_entropy_backward
from kernels.reference.linear import linear, linear_backward


def linear_cross_entropy(x, weight, bias, targets, ignore_index, label_smoothing, with_gradients):
    """loss = cross_entropy(x weightᵀ + bias, targets), and its gradients for an upstream gradient of 1.

    x (N, C); weight (V, C); bias (V) or None; targets (N)
    → loss (), dx (N, C), dweight (V, C), dbias (V) or None; all three None unless with_gradients"""
    logits = linear(x, weight, bias)
    loss, lse = cross_entropy(logits, targets, ignore_index, label_smoothing)
    if not with_gradients:
        return loss, None, None, None
    dlogits = cross_entropy_backward(np.ones_like(loss), logits, lse, targets, ignore_index, label_smoothing)
    return loss, *linear_backward(dlogits, x, weight, bias is not None)
