"""A number that tells whether an array is still what it was: how autograd notices a change in place. Reads x once.

Each block of the array goes through LANES chains of xor and multiply side by side, which fit vector registers (26 GB/s
on two cores; four chains of 64-bit products, which do not, had 18). A step of a chain can be undone, so one changed
word is always noticed, and several in one lane but for one case in four billion."""

import numpy as np
from numba import prange

from kernels.cpu.jit import flat, kernel

U = np.uint32
PRIME, START = U(0x9E3779B1), U(0x811C9DC5)
LANES, BLOCK = 64, 16384  # words side by side, words a task


@kernel
def mix(h, word):
    """A product moves differences upwards only, and a sign is the topmost bit: the shift brings them down again."""
    h = (h ^ word) * PRIME
    return h ^ (h >> U(15))


@kernel(parallel=True)
def _fingerprint(lanes, words):
    """lanes (blocks, LANES)"""
    for b in prange(lanes.shape[0]):
        h = np.full(LANES, START)
        first, last = b * BLOCK, min(words.size, (b + 1) * BLOCK)
        rows = (last - first) // LANES
        whole = words[first : first + rows * LANES].reshape(rows, LANES)
        for row in range(rows):
            for lane in range(LANES):
                h[lane] = mix(h[lane], whole[row, lane])
        for i in range(first + rows * LANES, last):
            h[i % LANES] = mix(h[i % LANES], words[i])
        lanes[b] = h


def fingerprint(x):
    """A hash of the elements in row order (their bits, so that -0 and 0 differ)."""
    words = flat(x).view(np.uint32)
    lanes = np.empty((-(-words.size // BLOCK), LANES), dtype=np.uint32)
    _fingerprint(lanes, words)
    return hash(lanes.tobytes())
