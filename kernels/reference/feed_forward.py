"""The position-wise feed-forward layer: linear, activation, linear."""

from kernels.reference import elementwise, reduce


def activate(pre, activation):
    return getattr(elementwise, activation)(pre)


def activate_backward(dhidden, pre, activation):
    """dpre. Tanh's rule wants the output where the others want the input, so it is computed again here."""
    saved = elementwise.tanh(pre) if activation == "tanh" else pre
    return getattr(elementwise, activation + "_backward")(dhidden, saved)


def feed_forward(x, w1, b1, w2, b2, activation):
    """pre = x w1ᵀ + b1;  y = activation(pre) w2ᵀ + b2

    x (N, C); w1 (F, C); b1 (F); w2 (E, F); b2 (E) → y (N, E), pre (N, F), which backward needs"""
    pre = x @ w1.T + b1
    return activate(pre, activation) @ w2.T + b2, pre


def feed_forward_backward(dy, x, w1, w2, pre, activation):
    """dhidden = dy w2;  dpre = dhidden · activation'(pre);  then as for two linear layers. dy (N, E)"""
    hidden = activate(pre, activation)
    dpre = activate_backward(dy @ w2, pre, activation)
    dx = dpre @ w1
    dw1 = dpre.T @ x
    db1 = reduce.sum(dpre, (0,))
    dw2 = dy.T @ hidden
    db2 = reduce.sum(dy, (0,))
    return dx, dw1, db1, dw2, db2
