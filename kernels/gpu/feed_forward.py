"""Linear, bias, activation, linear, bias: the products are BLAS's, feed_forward.cu does what stands between them."""

from kernels.cuda.launcher import launch, module_of
from kernels.gpu.grid import BLOCK, contiguous, for_elements, for_warps
from kernels.gpu.linear import add_bias, column_sums

CODES = {"relu": 0, "gelu": 1, "tanh": 2, "gelu_tanh": 3}  # as in feed_forward.cu


def feed_forward(x, w1, b1, w2, b2, activation):
    """pre = x w1ᵀ + b1;  y = activation(pre) w2ᵀ + b2

    x (N, C); w1 (F, C); b1 (F); w2 (E, F); b2 (E) → y (N, E), pre (N, F), which backward needs"""
    xp = module_of(x)
    pre = xp.matmul(x, w1.T)
    hidden = xp.empty(pre.shape, dtype=pre.dtype)
    args = (hidden, pre, contiguous(b1), *pre.shape, CODES[activation])
    launch("feed_forward", "bias_activation", for_warps(len(pre)), BLOCK, args, pre.dtype)
    y = xp.matmul(hidden, w2.T)
    add_bias(y, b2)
    return y, pre


def feed_forward_backward(dy, x, w1, w2, pre, activation):
    """dhidden = dy w2;  dpre = dhidden · activation'(pre);  then as for two linear layers. dy (N, E)"""
    xp = module_of(x)
    dpre = xp.matmul(dy, w2)  # dhidden, until the kernel has been over it
    hidden = xp.empty(dpre.shape, dtype=dpre.dtype)
    args = (hidden, dpre, contiguous(pre), dpre.size, CODES[activation])
    launch("feed_forward", "activation_backward", for_elements(dpre.size), BLOCK, args, dpre.dtype)
    dx = xp.matmul(dpre, w1)
    dw1 = xp.matmul(dpre.T, x)
    db1 = column_sums(dpre)
    dw2 = xp.matmul(dy.T, hidden)
    db2 = column_sums(dy)
    return dx, dw1, db1, dw2, db2
