"""y = x Wᵀ + b. Threads take blocks of the result: of some rows and all columns, unless that makes too few of them for
the cores. `kernels/cpu/panels.py` multiplies, and adds the bias while the result is in the cache;
`kernels/cpu/few_rows.py` does where there are too few rows to fill a vector with.

Reads x and W once a block of the other, writes y once; 2 N C F flops. Backward is two such products: dx in blocks of
rows, whose owner also sums them for the bias while they are in the cache; dW in blocks of rows and columns.
"""

import numpy as np
from numba import prange
from numba.extending import register_jitable

from kernels.cpu.few_rows import COLUMNS as TILE
from kernels.cpu.few_rows import few_rows, is_few
from kernels.cpu.jit import contiguous, kernel
from kernels.cpu.panels import STEP, TASKS, WIDE, by_panels, panel_rows
from kernels.cpu.parts import blocks, part
from kernels.cpu.sums import ROWS as SUMMED_ROWS
from kernels.cpu.sums import joined, row_tasks
from kernels.cpu.tiles import ROWS as TILE_ROWS
from kernels.cpu.tiles import multiply_long

# a block of dx: small enough for the cache and for the sum that is the bias's gradient
ROWS, COLUMNS = SUMMED_ROWS, 1024
LOW, NARROW = 64, 96  # rows and columns that a block keeps when it is cut for the sake of more blocks
WEIGHT_BLOCK = 128  # rows and columns of dW that are a task: the less is read of dy and x, the larger it is
SHORT = 16  # rows that a block of dW keeps: a tile needs no more than 8
STRIPS = 64  # blocks of columns for few rows, at most; and each has 8 tiles or more


@kernel(parallel=True)
def _column_sums(partial, x):
    N, C = x.shape
    tasks = partial.shape[0]
    for task in prange(tasks):
        for n in range(task * N // tasks, (task + 1) * N // tasks):
            for c in range(C):
                partial[task, c] += x[n, c]


def column_sums(x):
    """Σ_n x[n], through partial sums of few rows.   x (N, C) → (C)"""
    partial = np.zeros((row_tasks(len(x)), x.shape[1]), dtype=x.dtype)
    _column_sums(partial, contiguous(x))
    return joined(partial)


@kernel
def add_bias(y, bias, n0, n1, f0, f1):
    """y[n, f] += bias[f] in one block; an empty bias is none. Pieces of rows instead of ranges of columns: an index
    that might be negative is looked at each time, and the loop is not vectorised.   y (N, F); bias (F)"""
    if bias.size:
        piece = bias[f0:f1]
        for n in range(n0, n1):
            row = y[n][f0:f1]
            for f in range(row.size):
                row[f] += piece[f]


@register_jitable
def too_few(tasks):
    """Fewer than four, or an odd number of not many, would leave one of two cores without work."""
    return tasks < 4 or tasks == 5 or tasks == 7


@register_jitable
def grid(rows, columns):
    """Into how many blocks a result is cut, down and across."""
    down, across = blocks(rows, ROWS), blocks(columns, COLUMNS)
    while too_few(down * across) and columns >= 2 * across * NARROW:
        across *= 2
    while too_few(down * across) and rows >= 2 * down * LOW:
        down *= 2
    return down, across


@register_jitable
def row_blocks(rows):
    """Into how many blocks rows are cut where a block has all columns."""
    return grid(rows, 1)[0]


def rows_stay_together(rows):
    """Whether a feed-forward layer is cut into blocks of rows, each of which goes through all its products; else each
    product is cut by itself."""
    return blocks(rows, WIDE) >= 4


@register_jitable
def panel_grid(rows, width, columns):
    """Into how many blocks a product by panels is cut, down and across."""
    down, across = panel_rows(rows, width), 1
    while down * across < TASKS and columns >= 2 * across * NARROW:
        across *= 2
    return down, across


@register_jitable
def panel_block(task, down, across, rows, columns):
    """One of these blocks. A thread takes tasks that follow each other: these have different rows, and the last rows
    may be fewer."""
    (n0, n1), (f0, f1) = part(task % down, down, rows, WIDE), part(task // down, across, columns, STEP)
    return n0, n1, f0, f1


@kernel(parallel=True)
def _linear(y, x, weight, bias):
    N, F = y.shape
    down, across = panel_grid(N, x.shape[1], F)
    for task in prange(down * across):
        n0, n1, f0, f1 = panel_block(task, down, across, N, F)
        by_panels(y[n0:n1], x[n0:n1], weight, bias, f0, f1)


@kernel
def strips(columns):
    """Into how many blocks the columns are cut where rows are few."""
    return max(1, min(STRIPS, columns // (8 * TILE)))


@kernel
def strip(task, tasks, columns):
    """Where one of these blocks begins and ends: whole tiles, but for the last one."""
    return part(task, tasks, columns, TILE)


@kernel(parallel=True)
def _linear_few(y, x, weight, bias):
    N, F = y.shape
    tasks = strips(F)
    for task in prange(tasks):
        f0, f1 = strip(task, tasks, F)
        few_rows(y, x, weight, f0, f1)
        add_bias(y, bias, 0, N, f0, f1)


@kernel
def add_rows(total, x, n0, n1):
    """total[c] = Σ x[n, c] for n0 ≤ n < n1.   total (C); x (N, C)"""
    for c in range(x.shape[1]):
        total[c] = 0
    for n in range(n0, n1):
        for c in range(x.shape[1]):
            total[c] += x[n, c]


@kernel
def weight_blocks(dweight):
    """Into how many blocks dW is cut.   dweight (F, C)"""
    F, C = dweight.shape
    down, across = blocks(F, WEIGHT_BLOCK), blocks(C, WEIGHT_BLOCK)
    while too_few(down * across) and 0 < 2 * down * SHORT <= F:
        down *= 2
    return down * across


@kernel
def weight_block(dweight, dy, x, task, tasks):
    """One block of dW = dyᵀ x.   dweight (F, C); dy (N, F); x (N, C)"""
    F, C = dweight.shape
    across = blocks(C, WEIGHT_BLOCK)
    f0, f1 = part(task // across, tasks // across, F, TILE_ROWS)
    c0, c1 = part(task % across, across, C, WIDE)
    multiply_long(dweight[f0:f1, c0:c1], dy[:, f0:f1], x[:, c0:c1], True, False)


@kernel(parallel=True)
def _linear_backward(dx, dweight, sums, dy, x, weight):
    """sums (blocks of rows, F): the bias gradient of each block, or nothing"""
    N, C = dx.shape
    down, across = grid(N, C)
    for task in prange(down * across):
        i, j = task // across, task % across
        n0, n1 = i * N // down, (i + 1) * N // down
        c0, c1 = part(j, across, C, WIDE)
        multiply_long(dx[n0:n1, c0:c1], dy[n0:n1], weight[:, c0:c1], False, False)
        if j == 0 and sums.size:
            add_rows(sums[i], dy, n0, n1)  # these rows are in the cache now
    tasks = weight_blocks(dweight)
    for task in prange(tasks):
        weight_block(dweight, dy, x, task, tasks)


def product(x, weight, bias):
    """x Wᵀ + b on contiguous arrays; an empty bias is none."""
    y = np.empty((len(x), len(weight)), x.dtype)
    _linear_few(y, x, weight, bias) if is_few(len(x)) else _linear(y, x, weight, bias)
    return y


def linear(x, weight, bias):
    """y[n, f] = Σ_c x[n, c] weight[f, c] + bias[f].   x (N, C); weight (F, C); bias (F) or None → y (N, F)"""
    offset = np.empty(0, x.dtype) if bias is None else contiguous(bias)
    return product(contiguous(x), contiguous(weight), offset)


def linear_backward(dy, x, weight, with_bias):
    """dx = dy W;  dW = dyᵀ x;  db = Σ_n dy[n].   dy (N, F) → dx (N, C), dweight (F, C), dbias (F) or None"""
    dy, x, weight = contiguous(dy), contiguous(x), contiguous(weight)
    dx, dweight = np.empty_like(x), np.empty_like(weight)
    sums = np.empty((grid(*x.shape)[0] if with_bias else 0, dy.shape[1]), dy.dtype)
    _linear_backward(dx, dweight, sums, dy, x, weight)
    return dx, dweight, joined(sums) if with_bias else None


def matmul(a, b):
    """c = a b over the last two axes; the leading ones are broadcast.   a (..., n, k); b (..., k, m)

    NumPy's own product: unlike those above, its bits may change with the number of BLAS threads."""
    return np.matmul(a, b)
