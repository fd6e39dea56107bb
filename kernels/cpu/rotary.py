"""Rotary positions: every pair of columns of x (B, H, T, D) is turned by an angle that grows with the position. One
task a row; x is read once and y written once.

Sines and cosines cost some twenty times what the turning does, but all heads share them, and so do all sequences unless
each has positions of its own, all layers of a model, and queries and keys: the last few tables are kept."""

from functools import lru_cache

import numpy as np
from numba import prange

from kernels.cpu.jit import contiguous, ids64, kernel

TABLES = 8  # kept: forward and backward, for a few lengths of sequence


@lru_cache(maxsize=TABLES)
def _table(positions: bytes, base: float, D: int, dtype: np.dtype):
    """cos, sin (P · T, D/2) of p · base^(-2i/D), formed in float64: far from the start, float32 would have lost most
    digits of the turn."""
    angles = np.frombuffer(positions, np.int64)[:, None] * base ** (-np.arange(0, D, 2) / D)
    return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)


@kernel(parallel=True)
def _interleaved(y, x, cos, sin):
    B, H, T, D = x.shape
    own = 0 if cos.shape[0] == T else T  # rows of the table from one sequence to the next
    for row in prange(B * H * T):
        b, h, t = row // (H * T), row // T % H, row % T
        angle = b * own + t
        for i in range(D // 2):
            left, right = x[b, h, t, 2 * i], x[b, h, t, 2 * i + 1]
            y[b, h, t, 2 * i] = left * cos[angle, i] - right * sin[angle, i]
            y[b, h, t, 2 * i + 1] = left * sin[angle, i] + right * cos[angle, i]


@kernel(parallel=True)
def _half_split(y, x, cos, sin):
    B, H, T, D = x.shape
    own, half = 0 if cos.shape[0] == T else T, D // 2
    for row in prange(B * H * T):
        b, h, t = row // (H * T), row // T % H, row % T
        angle = b * own + t
        for i in range(half):
            left, right = x[b, h, t, i], x[b, h, t, i + half]
            y[b, h, t, i] = left * cos[angle, i] - right * sin[angle, i]
            y[b, h, t, i + half] = left * sin[angle, i] + right * cos[angle, i]


def rotary(x, positions, base, interleaved):
    """Pair i of the row at position p, columns 2i and 2i + 1 (interleaved) or i and i + D/2, is turned by the angle
    p · base^(-2i/D).   x (B, H, T, D); positions (P, T), P = B or 1 → y (B, H, T, D)"""
    cos, sin = _table(ids64(positions).tobytes(), float(base), x.shape[3], x.dtype)
    y = np.empty(x.shape, dtype=x.dtype)
    (_interleaved if interleaved else _half_split)(y, contiguous(x), cos, sin)
    return y
