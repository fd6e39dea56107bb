"""Long sums that keep their digits. Adding n numbers one after another may lose n units in the last place, 6 % of a
million float32. So no more than TERMS numbers (along a row) or ROWS rows are added in the array's own precision; the
sums of these blocks are added in double precision and rounded once. What is lost is then at most TERMS units of
float32, however long the sum is. A sum of one block has the bits of a plain loop.

Along a row, inside a kernel (`kernels/cpu/softmax.py` has it several times):

    total = 0.0
    for start in range(0, row.size, TERMS):
        total += part_sum(row[start : start + TERMS])

where `part_sum` is a kernel of its own with a plain loop: written in place, the inner loop is not vectorised, and takes
two to seven times as long.

Down the rows: `row_tasks` says into how many blocks they are cut, each a task of `prange`; `joined` adds them up."""

import numpy as np

from kernels.cpu.jit import PARTIALS

TERMS = 1024
ROWS = 256


def row_tasks(N):
    """Blocks for a sum over N rows: at least PARTIALS, so that there is work for many cores, and at most ROWS rows
    each. The number follows from N alone, so that the bits do too."""
    return max(min(PARTIALS, N), -(-N // ROWS))


def joined(partials):
    """Σ over the first axis.   (tasks, ...) → (...)"""
    return partials.sum(axis=0, dtype=np.float64).astype(partials.dtype)
