"""Layer norm over the last axis of x (N, C): launches layer_norm.cu, a warp a row; weight gradients by row blocks."""

from kernels.cuda.launcher import launch, module_of
from kernels.gpu.grid import BLOCK, contiguous, for_columns, for_warps
from kernels.gpu.linear import column_sums

ROWS = 64  # rows of one partial sum of the weight gradients
VARIANTS = [{"ROWS": ROWS}]


def layer_norm(x, weight, bias, eps):
    """n = (x - mean) · rstd;  y = n · weight + bias.   x (N, C); weight, bias (C) → y (N, C), mean (N), rstd (N)"""
    xp = module_of(x)
    N, C = x.shape
    y, mean, rstd = (xp.empty(shape, dtype=x.dtype) for shape in ((N, C), N, N))
    args = (y, mean, rstd, contiguous(x), contiguous(weight), contiguous(bias), N, C, eps)
    launch("layer_norm", "layer_norm_forward", for_warps(N), BLOCK, args, x.dtype, VARIANTS[0])
    return y, mean, rstd


def layer_norm_backward(dy, x, weight, mean, rstd):
    """dn = dy · weight;  dx = rstd · (dn - mean_c(dn) - n · mean_c(dn · n));  dweight = Σ dy n;  dbias = Σ dy"""
    xp = module_of(x)
    N, C = x.shape
    dy, x, weight, mean, rstd = (contiguous(a) for a in (dy, x, weight, mean, rstd))
    dx = xp.empty((N, C), dtype=x.dtype)
    args = (dx, dy, x, weight, mean, rstd, N, C)
    launch("layer_norm", "layer_norm_backward", for_warps(N), BLOCK, args, x.dtype, VARIANTS[0])
    row_blocks = -(-N // ROWS)
    dweight, dbias = (xp.empty((row_blocks, C), dtype=x.dtype) for _ in range(2))
    args = (dweight, dbias, dy, x, mean, rstd, N, C)
    launch("layer_norm", "layer_norm_backward_weights", for_columns(row_blocks, C), BLOCK, args, x.dtype, VARIANTS[0])
    return dx, column_sums(dweight), column_sums(dbias)
