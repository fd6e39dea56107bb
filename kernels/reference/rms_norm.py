"""RMS norm over the last axis: layer norm without the mean and without the bias."""

import numpy as np

from kernels.reference import reduce
from kernels.reference.layer_norm import row_mean


def rms_norm(x, weight, eps):
    """n = x · rstd;  y = n · weight, with rstd = 1/√(mean_c(x²) + eps) of each row.

    x (N, C); weight (C) → y (N, C), rstd (N)"""
    rstd = 1 / np.sqrt(row_mean(x * x) + x.dtype.type(eps))
    return x * rstd * weight, rstd[:, 0]


def rms_norm_backward(dy, x, weight, rstd):
    """dn = dy · weight;  dx = rstd · (dn - n · mean_c(dn · n));  dweight = Σ dy n"""
    n = x * rstd[:, None]
    dn = dy * weight
    dx = rstd[:, None] * (dn - n * row_mean(dn * n))
    dweight = reduce.sum(dy * n, (0,))
    return dx, dweight
