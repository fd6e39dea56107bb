"""y = x Wᵀ with a W of eight or four bits a weight: launches quantised_linear.cu. A few rows meet the bytes themselves;
for many rows W is unpacked first, and the product is cuBLAS's (OpenBLAS's in the emulator)."""

from kernels.cuda.launcher import launch, module_of
from kernels.gpu.gated_feed_forward import CODES as GATES
from kernels.gpu.grid import BLOCK, contiguous, for_warps
from kernels.signature import QUANTISED, WEIGHTS_OF_A_BLOCK

CODES = {"Q8_0": 0, "Q4_1": 1}  # as in quantised_linear.cu
FEW = 8  # rows that read the bytes themselves


def dequantise(weight, kind):
    """w = scale · q, or scale · q + least, in float32.   weight (F, R) bytes → w (F, C)"""
    count = weight.size // QUANTISED[kind]
    w = module_of(weight).empty((len(weight), count // len(weight) * WEIGHTS_OF_A_BLOCK), dtype="float32")
    args = (w, contiguous(weight), count, CODES[kind])
    launch("quantised_linear", "unpack", for_warps(count), BLOCK, args, w.dtype)
    return w


def quantised_linear(x, weight, kind):
    """y[n, f] = Σ_c x[n, c] w[f, c].   x (N, C); weight (F, R) bytes → y (N, F)"""
    xp, (N, C), F = module_of(x), x.shape, len(weight)
    if N > FEW:
        return xp.matmul(x, dequantise(weight, kind).astype(x.dtype, copy=False).T)
    y = xp.empty((N, F), dtype=x.dtype)
    args = (y, contiguous(x), contiguous(weight), N, F, C // WEIGHTS_OF_A_BLOCK, CODES[kind])
    launch("quantised_linear", "dot_rows", for_warps(N * F), BLOCK, args, x.dtype)
    return y


def quantised_linear_backward(dy, weight, kind):
    """dx = dy W.   dy (N, F); weight (F, R) bytes → dx (N, C)"""
    return module_of(dy).matmul(dy, dequantise(weight, kind).astype(dy.dtype, copy=False))


def quantised_gated_feed_forward(x, w_gate, w_up, w_down, kind, activation):
    """y = (activation(x w_gateᵀ) · (x w_upᵀ)) w_downᵀ.   x (N, C); w_gate, w_up (F, R); w_down (E, Q) → y (N, E)"""
    gate, up = quantised_linear(x, w_gate, kind), quantised_linear(x, w_up, kind)
    hidden = module_of(x).empty(gate.shape, dtype=gate.dtype)
    args = (hidden, gate, up, None, None, *gate.shape, GATES[activation])
    launch("gated_feed_forward", "gate_forward", for_warps(len(gate)), BLOCK, args, gate.dtype)
    return quantised_linear(hidden, w_down, kind)
