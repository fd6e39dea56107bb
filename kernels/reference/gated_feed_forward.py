"""The gated feed-forward layer: two linear layers side by side, the activated one gates the other, then a third."""

from kernels.reference.feed_forward import activate, activate_backward
from kernels.reference.linear import linear, linear_backward


def gated_feed_forward(x, w_gate, b_gate, w_up, b_up, w_down, b_down, activation):
    """gate = x w_gateᵀ + b_gate;  up = x w_upᵀ + b_up;  y = (activation(gate) · up) w_downᵀ + b_down

    x (N, C); w_gate, w_up (F, C); b_gate, b_up (F) or None; w_down (E, F); b_down (E) or None
    → y (N, E), gate (N, F), up (N, F), which backward needs"""
    gate, up = linear(x, w_gate, b_gate), linear(x, w_up, b_up)
    return linear(activate(gate, activation) * up, w_down, b_down), gate, up


def gated_feed_forward_backward(dy, x, w_gate, w_up, w_down, gate, up, activation, with_b_gate, with_b_up, with_b_down):
    """dhidden = dy w_down;  dup = dhidden · activation(gate);  dgate = dhidden · up · activation'(gate);  then as for
    three linear layers, of which two share their input. dy (N, E)"""
    value = activate(gate, activation)
    dhidden, dw_down, db_down = linear_backward(dy, value * up, w_down, with_b_down)
    dgate = activate_backward(dhidden * up, gate, activation)
    dx, dw_gate, db_gate = linear_backward(dgate, x, w_gate, with_b_gate)
    dx_up, dw_up, db_up = linear_backward(dhidden * value, x, w_up, with_b_up)
    return dx + dx_up, dw_gate, db_gate, dw_up, db_up, dw_down, db_down
