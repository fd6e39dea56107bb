"""RNN, GRU and LSTM cells, composed from differentiable functions; the complexity lesson counts them.

Weights have the layout of PyTorch's cells: rows of the gates one below the other, W (G·C, I) for the input and
R (G·C, C) for the state, with biases b_w and b_r (G·C). x (B, I); h, c (B, C)."""

import autograd.functional as F


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
