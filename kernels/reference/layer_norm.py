"""Layer norm over the last axis."""

import numpy as np

from kernels.reference import reduce


def row_mean(x):
    """(N, C) → (N, 1)"""
    return reduce.sum(x, (1,))[:, None] / x.dtype.type(x.shape[1])


def layer_norm(x, weight, bias, eps):
    """n = (x - mean) · rstd;  y = n · weight + bias, with rstd = 1/√(variance + eps) of each row.

    x (N, C); weight, bias (C) → y (N, C), mean (N), rstd (N). The variance is taken about the mean in a second
    pass: the one-pass formula E[x²] - mean² cancels when the mean is large."""
    mean = row_mean(x)
    centred = x - mean
    rstd = 1 / np.sqrt(row_mean(centred * centred) + x.dtype.type(eps))
    return centred * rstd * weight + bias, mean[:, 0], rstd[:, 0]


def layer_norm_backward(dy, x, weight, mean, rstd):
    """dn = dy · weight;  dx = rstd · (dn - mean_c(dn) - n · mean_c(dn · n));  dweight = Σ dy n;  dbias = Σ dy"""
    n = (x - mean[:, None]) * rstd[:, None]
    dn = dy * weight
    dx = rstd[:, None] * (dn - row_mean(dn) - n * row_mean(dn * n))
    dweight = reduce.sum(dy * n, (0,))
    dbias = reduce.sum(dy, (0,))
    return dx, dweight, dbias
