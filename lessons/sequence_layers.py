"""The layers that attention is compared with, composed from differentiable functions: recurrent cells and convolution.

Cells have PyTorch's layout of weights: rows of the gates one below the other, W (G·C, I) for the input and R (G·C, C)
for the state, with biases b_w and b_r (G·C). x (B, I); h, c (B, C)."""

import autograd.functional as F
from autograd import Tensor


def rnn_cell(x, h, W, R, b_w, b_r):
    """h' = tanh(W x + b_w + R h + b_r)"""
    return F.tanh(F.linear(x, W, b_w) + F.linear(h, R, b_r))


def gru_cell(x, h, W, R, b_w, b_r):
    """Gates in the order reset, update, new:
    r = σ(W_r x + R_r h), u = σ(W_u x + R_u h), n = tanh(W_n x + r · (R_n h)), h' = (1 - u) n + u h"""
    from_x = F.split(F.linear(x, W, b_w), 3, axis=-1)
    from_h = F.split(F.linear(h, R, b_r), 3, axis=-1)
    reset = F.sigmoid(from_x[0] + from_h[0])
    update = F.sigmoid(from_x[1] + from_h[1])
    new = F.tanh(from_x[2] + reset * from_h[2])
    return (1 - update) * new + update * h


def lstm_cell(x, state, W, R, b_w, b_r):
    """Gates in the order input, forget, candidate, output; state = (h, c):
    c' = σ(f) c + σ(i) tanh(g), h' = σ(o) tanh(c'). Returns (h', c')."""
    h, c = state
    i, f, g, o = F.split(F.linear(x, W, b_w) + F.linear(h, R, b_r), 4, axis=-1)
    c = F.sigmoid(f) * c + F.sigmoid(i) * F.tanh(g)
    return F.sigmoid(o) * F.tanh(c), c


def unroll(cell, steps, state, *weights):
    """Runs a cell over a list of inputs (B, I); returns the list of hidden states (B, C)."""
    hidden = []
    for x in steps:
        state = cell(x, state, *weights)
        hidden.append(state[0] if isinstance(state, tuple) else state)
    return hidden


def conv1d(x, weight, bias=None, padding=0, dilation=1):
    """y[b, t] = Σ_k weight[:, :, k] x[b, t + k·dilation - padding] + bias

    x (B, T, I); weight (O, I, K), PyTorch's layout; bias (O) → y (B, T + 2·padding - dilation·(K - 1), O).
    padding: zeros on either side, or "same" (as many as keep the length; the extra one of an even K goes right).
    The K shifted copies of x stand side by side, so that the whole convolution is one matrix product."""
    B, T, inputs = x.shape
    O, I, K = weight.shape
    if inputs != I:
        raise ValueError(f"x has {inputs} channels, the weight {weight.shape} wants {I}")
    if dilation < 1:
        raise ValueError(f"dilation must be at least 1, not {dilation}")
    reach = dilation * (K - 1)
    left, right = (reach // 2, reach - reach // 2) if padding == "same" else (padding, padding)
    length = T + left + right - reach
    if length < 1 or left < 0:
        raise ValueError(f"a kernel that reaches over {reach + 1} positions does not fit into {T + left + right}")
    parts = [_zeros(x, B, left, I), x, _zeros(x, B, right, I)]
    x = F.concatenate([part for part in parts if part.shape[1]], axis=1) if left or right else x
    windows = F.concatenate([x[:, k * dilation : k * dilation + length] for k in range(K)], axis=2)  # (B, length, K·I)
    return F.linear(windows, weight.transpose(0, 2, 1).reshape(O, K * I), bias)


def _zeros(x, *shape):
    return Tensor(x.backend.xp.zeros(shape, dtype=x.dtype), backend=x.backend)
