"""Where a word stands. Attention treats its keys as a set, so the position must be in the numbers themselves: in a
table that is added to the words, here, or in the angles by which queries and keys are turned, in `layers.py`."""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from minitransformer.module import Init, Module


def positional_encoding(n_positions: int, d_model: int) -> np.ndarray:
    """The fixed table of waves, float64.   → (n_positions, C)

    Columns 2i and 2i+1 hold sin and cos of position / 10000^(2i/C): wavelengths from 2π to 10000 · 2π. For odd C the
    last column is a sine without its cosine."""
    if n_positions < 1 or d_model < 1:
        raise ValueError(f"a table needs at least one row and one column, not {n_positions} x {d_model}")
    even = np.arange(0, d_model, 2)
    angle = np.arange(n_positions)[:, None] / 10000.0 ** (even / d_model)
    table = np.empty((n_positions, d_model))
    table[:, 0::2] = np.sin(angle)
    table[:, 1::2] = np.cos(angle[:, : d_model // 2])
    return table


class Positions(Module):
    """A vector for each position: the fixed waves, or a table that is learned like the word embeddings."""

    def __init__(self, max_len: int, d_model: int, kind: str = "sinusoidal", *, init: Init):
        if kind not in ("sinusoidal", "learned"):
            raise ValueError(f"a table of positions is sinusoidal or learned, not {kind!r}")
        self.max_len = max_len
        if kind == "learned":
            self.weight: Tensor = init.uniform(0.1, max_len, d_model)
        else:
            self.weight = Tensor(positional_encoding(max_len, d_model).astype(init.dtype))

    def forward(self, length: int, starts: np.ndarray | None = None) -> Tensor:
        """Vectors of the positions 0 ... length-1 (T, C), or of starts[b] ... starts[b]+length-1 (B, T, C)."""
        if starts is None:
            return self.weight[:length]
        return F.embedding(self.weight, starts[:, None] + np.arange(length))


def interleaved_rows(weight: np.ndarray, n_heads: int) -> np.ndarray:
    """Rows of a query or key projection made for the other layout of rotary positions, in which column i of a head
    pairs with i + D/2, in the order for ours, in which 2i pairs with 2i + 1. Attention gives the same.

    weight (H · D, ...)"""
    halves = weight.reshape(n_heads, 2, -1, *weight.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(weight.shape)


def half_split_rows(weight: np.ndarray, n_heads: int) -> np.ndarray:
    """The way back."""
    pairs = weight.reshape(n_heads, -1, 2, *weight.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(weight.shape)
