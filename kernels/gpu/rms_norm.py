"""RMS norm over the last axis of x (N, C): launches rms_norm.cu, a warp a row; the weight's gradient by row blocks."""

from kernels.cuda.launcher import launch, module_of
from kernels.gpu.grid import BLOCK, contiguous, for_columns, for_warps
from kernels.gpu.linear import column_sums

ROWS = 64  # rows of one partial sum of the weight's gradient
VARIANTS = [{"ROWS": ROWS}]


def rms_norm(x, weight, eps):
    """n = x · rstd;  y = n · weight, rstd = 1/√(mean_c(x²) + eps).   x (N, C); weight (C) → y (N, C), rstd (N)"""
    xp = module_of(x)
    N, C = x.shape
    y, rstd = (xp.empty(shape, dtype=x.dtype) for shape in ((N, C), N))
    args = (y, rstd, contiguous(x), contiguous(weight), N, C, eps)
    launch("rms_norm", "rms_norm_forward", for_warps(N), BLOCK, args, x.dtype, VARIANTS[0])
    return y, rstd


def rms_norm_backward(dy, x, weight, rstd):
    """dn = dy · weight;  dx = rstd · (dn - n · mean_c(dn · n));  dweight = Σ dy n"""
    xp = module_of(x)
    N, C = x.shape
    dy, x, weight, rstd = (contiguous(a) for a in (dy, x, weight, rstd))
    dx = xp.empty((N, C), dtype=x.dtype)
    args = (dx, dy, x, weight, rstd, N, C)
    launch("rms_norm", "rms_norm_backward", for_warps(N), BLOCK, args, x.dtype, VARIANTS[0])
    row_blocks = -(-N // ROWS)
    dweight = xp.empty((row_blocks, C), dtype=x.dtype)
    args = (dweight, dy, x, rstd, N, C)
    launch("rms_norm", "rms_norm_backward_weight", for_columns(row_blocks, C), BLOCK, args, x.dtype, VARIANTS[0])
    return dx, column_sums(dweight)
