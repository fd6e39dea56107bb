"""Rotary positions: every pair of columns is turned by an angle that grows with the position."""

import numpy as np


def rotary(x, positions, base, interleaved):
    """Pair i of the row at position p is turned by the angle p · base^(-2i/D).

    x (B, H, T, D); positions (P, T) with P = B, or P = 1 for all alike → y (B, H, T, D)

    Interleaved, pair i is the columns 2i and 2i + 1; else i and i + D/2. Negated positions turn back, which is the
    gradient. Angles are formed in float64: far from the start, float32 would have lost most digits of the turn."""
    frequencies = base ** (-np.arange(0, x.shape[3], 2) / x.shape[3])
    angles = positions[:, None, :, None] * frequencies
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    y = np.empty_like(x)
    left, right = pairs(interleaved, x.shape[3])
    y[..., left] = x[..., left] * cos - x[..., right] * sin
    y[..., right] = x[..., left] * sin + x[..., right] * cos
    return y


def pairs(interleaved, D):
    """The columns of the first members of all pairs, and of the second."""
    return (slice(0, D, 2), slice(1, D, 2)) if interleaved else (slice(0, D // 2), slice(D // 2, D))
