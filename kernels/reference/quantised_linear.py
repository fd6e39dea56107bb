"""y = x Wᵀ with a W of eight or four bits a weight.

A row of W is cut into blocks of 32 weights that share a scale. In Q8_0 a weight is scale · q with q a byte; in Q4_1 it
is scale · q + least with q of four bits, two in a byte: the lower halves of the 16 bytes are the first 16 weights.

    Q8_0    │ scale   │ q0 │ q1 │ ... │ q31 │                        34 bytes for 32 weights, 8.5 bits each
    Q4_1    │ scale   │ least   │ q16 q0 │ q17 q1 │ ... │ q31 q15 │   20 bytes, 5 bits each; scale and least are float16
"""

import numpy as np

from kernels.reference.feed_forward import activate

LAYOUTS = {  # the drawings above as NumPy's dtypes
    "Q8_0": np.dtype([("scale", "<f2"), ("q", "|i1", 32)]),
    "Q4_1": np.dtype([("scale", "<f2"), ("least", "<f2"), ("halves", "|u1", 16)]),
}


def dequantise(weight, kind):
    """w = scale · q, or scale · q + least, in float32.   weight (F, R) bytes → w (F, C)"""
    block = np.ascontiguousarray(weight).view(LAYOUTS[kind])  # (F, C/32)
    scale = block["scale"].astype(np.float32)[..., None]
    if kind == "Q8_0":
        w = scale * block["q"]
    else:
        q = np.concatenate([block["halves"] & 15, block["halves"] >> 4], axis=-1)
        w = scale * q + block["least"].astype(np.float32)[..., None]
    return w.reshape(len(weight), -1)


def quantised_linear(x, weight, kind):
    """y[n, f] = Σ_c x[n, c] w[f, c].   x (N, C); weight (F, R) bytes → y (N, F)"""
    return x @ dequantise(weight, kind).astype(x.dtype).T


def quantised_linear_backward(dy, weight, kind):
    """dx = dy W.   dy (N, F); weight (F, R) bytes → dx (N, C)"""
    return dy @ dequantise(weight, kind).astype(dy.dtype)


def quantised_gated_feed_forward(x, w_gate, w_up, w_down, kind, activation):
    """y = (activation(x w_gateᵀ) · (x w_upᵀ)) w_downᵀ.   x (N, C); w_gate, w_up (F, R); w_down (E, Q) → y (N, E)"""
    gate, up = quantised_linear(x, w_gate, kind), quantised_linear(x, w_up, kind)
    return quantised_linear(activate(gate, activation) * up, w_down, kind)
