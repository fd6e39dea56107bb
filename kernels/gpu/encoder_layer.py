"""A layer of an encoder as a whole: the kernels of its parts, one after the other, since each reads what the one before
it has written."""

from kernels.contract import Dropout
from kernels.gpu.attention import attention
from kernels.gpu.elementwise import add
from kernels.gpu.feed_forward import feed_forward
from kernels.gpu.layer_norm import layer_norm
from kernels.gpu.linear import linear


def encoder_layer(
    x, w_in, b_in, w_out, b_out, weight1, bias1, w1, b1, w2, b2, weight2, bias2, mask, n_heads, eps, activation
):
    """h = norm(x + heads w_outᵀ + b_out), heads = attention of x w_inᵀ + b_in;  y = norm(h + feed_forward(h))

    x (B, T, C); w_in (3C, C); b_in (3C); w_out (C, C); w1 (F, C); b1 (F); w2 (C, F); others (C) → y (B, T, C)"""
    (B, T, C), D = x.shape, x.shape[2] // n_heads
    rows = x.reshape(B * T, C)
    q, k, v = linear(rows, w_in, b_in).reshape(B, T, 3, n_heads, D).transpose(2, 0, 3, 1, 4)
    seen = attention(q, k, v, mask, D**-0.5, Dropout())[0].transpose(0, 2, 1, 3).reshape(B * T, C)
    h = layer_norm(add(rows, linear(seen, w_out, b_out)), weight1, bias1, eps)[0]
    y = layer_norm(add(h, feed_forward(h, w1, b1, w2, b2, activation)[0]), weight2, bias2, eps)[0]
    return y.reshape(B, T, C)
