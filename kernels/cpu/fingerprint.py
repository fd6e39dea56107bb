"""A number that tells whether an array is still what it was: how autograd notices a change in place. Reads x once, in
four independent chains of multiply and xor, because one chain would wait for its multiplier."""

import numpy as np
from numba import prange

from kernels.cpu.jit import flat, kernel

U = np.uint64
PRIME, START = U(0x9E3779B97F4A7C15), U(0xCBF29CE484222325)
BLOCK = 8192  # words a task


@kernel
def mix(h, word):
    """A product moves differences upwards only, and a sign is the topmost bit: the shift brings them down again."""
    h = (h ^ U(word)) * PRIME
    return h ^ (h >> U(32))


@kernel(parallel=True)
def _fingerprint(partial, words):
    for b in prange(partial.size):
        h0, h1, h2, h3 = START, START + U(1), START + U(2), START + U(3)
        first, last = b * BLOCK, min(words.size, (b + 1) * BLOCK)
        aligned = first + (last - first) // 4 * 4
        for i in range(first, aligned, 4):
            h0, h1 = mix(h0, words[i]), mix(h1, words[i + 1])
            h2, h3 = mix(h2, words[i + 2]), mix(h3, words[i + 3])
        for i in range(aligned, last):
            h0 = mix(h0, words[i])
        partial[b] = mix(mix(mix(h0, h1), h2), h3)


def fingerprint(x):
    """A 64-bit hash of the elements in row order (their bits, so that -0 and 0 differ)."""
    words = flat(x).view(np.uint64 if x.itemsize == 8 or x.size % 2 == 0 else np.uint32)
    partial = np.empty(-(-words.size // BLOCK), dtype=np.uint64)
    _fingerprint(partial, words)
    return hash(partial.tobytes())
