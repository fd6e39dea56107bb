"""Rotary positions: launches rotary.cu, first for the cosines and sines, then to turn x, a thread a pair of columns."""

import numpy as np

from kernels.cuda.launcher import launch, module_of
from kernels.gpu.grid import BLOCK, contiguous, for_elements, ids64


def rotary(x, positions, base, interleaved):
    """Pair i of the row at position p, columns 2i and 2i + 1 (interleaved) or i and i + D/2, is turned by the angle
    p · base^(-2i/D).   x (B, H, T, D); positions (P, T), P = B or 1 → y (B, H, T, D)"""
    xp = module_of(x)
    B, H, T, D = x.shape
    half = D // 2
    frequencies = xp.asarray((float(base) ** (-np.arange(half) * 2 / D)).view("uint64"))
    y = xp.empty(x.shape, dtype=x.dtype)
    cosines, sines = (xp.empty((positions.size, half), dtype=x.dtype) for _ in range(2))
    args = (cosines, sines, ids64(positions), frequencies, positions.size, half)
    launch("rotary", "rotary_table", for_elements(cosines.size), BLOCK, args, x.dtype)
    own_positions = len(positions) > 1
    args = (y, contiguous(x), cosines, sines, B * H * T, half, T, H * T, int(own_positions), int(interleaved))
    launch("rotary", "rotary_turn", for_elements(B * H * T * half), BLOCK, args, x.dtype)
    return y
