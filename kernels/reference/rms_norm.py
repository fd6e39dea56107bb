"""RMS norm over the last axis: layer norm without the mean and without the bias."""

import numpy as np


def rms_norm(x, weight, eps):
    """n = x · rstd;  y = n · weight, with rstd = 1/√(mean_c(x²) + eps) of each row.

    x (N, C); weight (C) → y (N, C), rstd (N)"""
    rstd = 1 / np.sqrt((x * x).mean(axis=1) + x.dtype.type(eps))
    return x * rstd[:, None] * weight, rstd


def rms_norm_backward(dy, x, weight, rstd):
    """dn = dy · weight;  dx = rstd · (dn - n · mean_c(dn · n));  dweight = Σ dy n"""
    n = x * rstd[:, None]
    dn = dy * weight
    dx = rstd[:, None] * (dn - n * (dn * n).mean(axis=1, keepdims=True))
    dweight = (dy * n).sum(axis=0)
    return dx, dweight
