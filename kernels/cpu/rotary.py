"""Rotary positions: every pair of columns of x (B, H, T, D) is turned by an angle that grows with the position. A
task takes some rows of a head (one row a task costs a third more); x is read once and y written once.

x may be heads cut out of a wider projection: rows of D neighbours, wherever they begin. y is laid out like x, so that
attention and the product that joins the heads again find rows of neighbours too.

Sines and cosines cost some twenty times what the turning does, but all heads share them, and so do all sequences unless
each has positions of its own, all layers of a model, and queries and keys: the last few tables are kept."""

from functools import lru_cache

import numpy as np
from numba import prange
from numpy.lib.stride_tricks import as_strided

from kernels.cpu.attention import fresh_like
from kernels.cpu.jit import ids64, kernel
from kernels.cpu.parts import blocks

ROWS = 32  # a task
TABLES = 8  # kept: forward and backward, for a few lengths of sequence


@lru_cache(maxsize=TABLES)
def _table(positions: bytes, base: float, D: int, dtype: np.dtype):
    """cos, sin of p · base^(-2i/D), P · T rows of D/2 one after another, formed in float64: far from the start, float32
    would have lost most digits of the turn."""
    angles = np.frombuffer(positions, np.int64)[:, None] * base ** (-np.arange(0, D, 2) / D)
    return np.cos(angles).astype(dtype).reshape(-1), np.sin(angles).astype(dtype).reshape(-1)


def _span(x):
    """The memory from the first number of x to its last as one row, and how many numbers apart neighbours along each
    axis are. Indices into one row show the compiler that the numbers of a head are neighbours."""
    if x.flags.c_contiguous:
        _, H, T, D = x.shape
        return x.reshape(-1), (H * T * D, T * D, D, 1)
    apart = tuple(stride // x.itemsize for stride in x.strides)
    last = sum((size - 1) * steps for size, steps in zip(x.shape, apart, strict=True))
    return as_strided(x, (last + 1,), (x.itemsize,)), apart


def _rows_of_neighbours(x):
    """x itself where its rows are runs of neighbours that can be written to (Numba would compile anew for read-only
    arrays), else a copy."""
    if x.flags.c_contiguous and x.flags.writeable:
        return x
    neighbours = x.shape[-1] == 1 or x.strides[-1] == x.itemsize
    forward = all(stride >= 0 and stride % x.itemsize == 0 for stride in x.strides)
    return x if neighbours and forward and x.flags.writeable else np.array(x, order="C")


@kernel(parallel=True)
def _interleaved(y, y_apart, x, x_apart, cos, sin, half, B, H, T):
    own = 0 if cos.size == T * half else T * half  # numbers of the table from one sequence to the next
    parts = blocks(T, ROWS)
    without_gaps = x_apart[2] == 2 * half and y_apart[2] == 2 * half
    for task in prange(B * H * parts):
        b, part, h = task // (H * parts), task // H % parts, task % H  # heads last: they share a part of the table
        first, last = part * ROWS, min(T, (part + 1) * ROWS)
        to, at = b * y_apart[0] + h * y_apart[1], b * x_apart[0] + h * x_apart[1]
        together = last - first if without_gaps else 1  # rows that are one long row, to the compiler's advantage
        pairs = together * half
        for t in range(first, last, together):
            turned = y[to + t * y_apart[2] :][: 2 * pairs]
            given = x[at + t * x_apart[2] :][: 2 * pairs]
            c, s = cos[b * own + t * half :][:pairs], sin[b * own + t * half :][:pairs]
            for i in range(pairs):
                left, right = given[2 * i], given[2 * i + 1]
                turned[2 * i] = left * c[i] - right * s[i]
                turned[2 * i + 1] = left * s[i] + right * c[i]


@kernel(parallel=True)
def _half_split(y, y_apart, x, x_apart, cos, sin, half, B, H, T):
    own = 0 if cos.size == T * half else T * half
    parts = blocks(T, ROWS)
    for task in prange(B * H * parts):
        b, part, h = task // (H * parts), task // H % parts, task % H  # heads last: they share a part of the table
        to, at = b * y_apart[0] + h * y_apart[1], b * x_apart[0] + h * x_apart[1]
        for t in range(part * ROWS, min(T, (part + 1) * ROWS)):
            turned = y[to + t * y_apart[2] :][: 2 * half]
            pairs = x[at + t * x_apart[2] :][: 2 * half]
            c, s = cos[b * own + t * half :][:half], sin[b * own + t * half :][:half]
            for i in range(half):
                left, right = pairs[i], pairs[i + half]
                turned[i] = left * c[i] - right * s[i]
                turned[i + half] = left * s[i] + right * c[i]


def rotary(x, positions, base, interleaved):
    """Pair i of the row at position p, columns 2i and 2i + 1 (interleaved) or i and i + D/2, is turned by the angle
    p · base^(-2i/D).   x (B, H, T, D); positions (P, T), P = B or 1 → y (B, H, T, D)"""
    cos, sin = _table(ids64(positions).tobytes(), float(base), x.shape[3], x.dtype)
    x = _rows_of_neighbours(x)
    y = fresh_like(x)
    (_interleaved if interleaved else _half_split)(*_span(y), *_span(x), cos, sin, x.shape[3] // 2, *x.shape[:3])
    return y
