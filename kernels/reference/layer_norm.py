"""Layer norm over the last axis."""

import numpy as np


def layer_norm(x, weight, bias, eps):
    """n = (x - mean) · rstd;  y = n · weight + bias, with rstd = 1/√(variance + eps) of each row.

    x (N, C); weight, bias (C) → y (N, C), mean (N), rstd (N). The variance is taken about the mean in a second
    pass: the one-pass formula E[x²] - mean² cancels when the mean is large."""
    mean = x.mean(axis=1)
    centred = x - mean[:, None]
    rstd = 1 / np.sqrt((centred * centred).mean(axis=1) + x.dtype.type(eps))
    return centred * rstd[:, None] * weight + bias, mean, rstd


def layer_norm_backward(dy, x, weight, mean, rstd):
    """dn = dy · weight;  dx = rstd · (dn - mean_c(dn) - n · mean_c(dn · n));  dweight = Σ dy n;  dbias = Σ dy"""
    n = (x - mean[:, None]) * rstd[:, None]
    dn = dy * weight
    dx = rstd[:, None] * (dn - dn.mean(axis=1, keepdims=True) - n * (dn * n).mean(axis=1, keepdims=True))
    dweight = (dy * n).sum(axis=0)
    dbias = dy.sum(axis=0)
    return dx, dweight, dbias
