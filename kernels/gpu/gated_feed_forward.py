"""Two linear layers side by side, one activated and multiplied by the other, then a third: the products are BLAS's,
gated_feed_forward.cu does what stands between them."""

from kernels.cuda.launcher import launch, module_of
from kernels.gpu.grid import BLOCK, contiguous, for_elements, for_warps
from kernels.gpu.linear import accumulate, column_sums, linear, linear_backward

CODES = {"silu": 0, "gelu": 1}  # as in gated_feed_forward.cu


def gated_feed_forward(x, w_gate, b_gate, w_up, b_up, w_down, b_down, activation):
    """gate = x w_gateᵀ + b_gate;  up = x w_upᵀ + b_up;  y = (activation(gate) · up) w_downᵀ + b_down

    x (N, C); w_gate, w_up (F, C); b_gate, b_up (F) or None; w_down (E, F); b_down (E) or None
    → y (N, E), gate (N, F), up (N, F), which backward needs"""
    xp = module_of(x)
    gate, up = xp.matmul(x, w_gate.T), xp.matmul(x, w_up.T)
    hidden = xp.empty(gate.shape, dtype=gate.dtype)
    biases = (None if bias is None else contiguous(bias) for bias in (b_gate, b_up))
    args = (hidden, gate, up, *biases, *gate.shape, CODES[activation])
    launch("gated_feed_forward", "gate_forward", for_warps(len(gate)), BLOCK, args, gate.dtype)
    return linear(hidden, w_down, b_down), gate, up


def gated_feed_forward_backward(dy, x, w_gate, w_up, w_down, gate, up, activation, with_b_gate, with_b_up, with_b_down):
    """dhidden = dy w_down;  dup = dhidden · activation(gate);  dgate = dhidden · up · activation'(gate);  then as for
    three linear layers, of which two share their input. dy (N, E)"""
    xp = module_of(x)
    dup = xp.matmul(dy, w_down)  # dhidden, until the kernel has been over it
    hidden, dgate = (xp.empty(dup.shape, dtype=dup.dtype) for _ in range(2))
    args = (hidden, dgate, dup, contiguous(gate), contiguous(up), dup.size, CODES[activation])
    launch("gated_feed_forward", "gate_backward", for_elements(dup.size), BLOCK, args, dup.dtype)
    dx, dw_gate, db_gate = linear_backward(dgate, x, w_gate, with_b_gate)
    dx_up, dw_up, db_up = linear_backward(dup, x, w_up, with_b_up)
    accumulate(dx, dx_up)
    dw_down = xp.matmul(dy.T, hidden)
    db_down = column_sums(dy) if with_b_down else None
    return dx, dw_gate, db_gate, dw_up, db_up, dw_down, db_down
