"""y = x Wᵀ + b. The products are cuBLAS's (OpenBLAS's in the emulator); linear.cu adds the bias and sums its
gradient."""

from kernels.cuda.launcher import launch, module_of
from kernels.gpu.grid import BLOCK, contiguous, for_columns, for_elements, for_warps

ROWS = 64  # rows that one thread adds up before the next partial sum begins
VARIANTS = [{"ROWS": ROWS}]


def add_bias(y, bias):
    """y[n] += bias, in place.   y (N, F); bias (F)"""
    launch("linear", "add_bias", for_warps(len(y)), BLOCK, (y, contiguous(bias), *y.shape), y.dtype, VARIANTS[0])


def accumulate(y, x):
    """y += x, in place; both of one shape"""
    launch("linear", "accumulate", for_elements(y.size), BLOCK, (y, x, y.size), y.dtype, VARIANTS[0])


def column_sums(x):
    """Σ_n x[n], through partial sums of ROWS rows, and of those again until one row is left.   x (N, C) → (C)"""
    x = contiguous(x)
    while True:
        N, C = x.shape
        row_blocks = -(-N // ROWS)
        partial = module_of(x).empty((row_blocks, C), dtype=x.dtype)
        launch("linear", "column_sums", for_columns(row_blocks, C), BLOCK, (partial, x, N, C), x.dtype, VARIANTS[0])
        if row_blocks == 1:
            return partial[0]
        x = partial


def linear(x, weight, bias):
    """y[n, f] = Σ_c x[n, c] weight[f, c] + bias[f].   x (N, C); weight (F, C); bias (F) or None → y (N, F)"""
    y = module_of(x).matmul(x, weight.T)
    if bias is not None:
        add_bias(y, bias)
    return y


def linear_backward(dy, x, weight, with_bias):
    """dx = dy W;  dW = dyᵀ x;  db = Σ_n dy[n].   dy (N, F) → dx (N, C), dweight (F, C), dbias (F) or None"""
    xp = module_of(x)
    dx = xp.matmul(dy, weight)
    dweight = xp.matmul(dy.T, x)
    dbias = column_sums(dy) if with_bias else None
    return dx, dweight, dbias


def matmul(a, b):
    """c = a b over the last two axes; the leading ones are broadcast.   a (..., n, k); b (..., k, m)"""
    return module_of(a).matmul(a, b)
