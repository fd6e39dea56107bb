"""Philox 4x32-10: random numbers by counting. Four 32-bit words of counter and a 64-bit key are mixed in ten rounds
into four random words. There is no state: the same counter and key give the same bits on every tier, in any order,
so a dropout mask is computed again in the backward pass and never stored.
(Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. 2011.)"""

import numpy as np

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
KEY_STEPS = 0x9E3779B9, 0xBB67AE85
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def philox(c0, c1, c2, c3, seed):
    """Four arrays of random 32-bit words (held in uint64) from four counter words, arrays or ints, and a key."""
    c0, c1, c2, c3 = (np.asarray(c, dtype=np.uint64) for c in (c0, c1, c2, c3))
    seed = int(seed)
    key0, key1 = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
    for _ in range(10):
        product0 = c0 * np.uint64(MULTIPLIERS[0])
        product1 = c2 * np.uint64(MULTIPLIERS[1])
        c0 = (product1 >> HALF) ^ c1 ^ np.uint64(key0)
        c2 = (product0 >> HALF) ^ c3 ^ np.uint64(key1)
        c1, c3 = product1 & LOW, product0 & LOW
        key0, key1 = (key0 + KEY_STEPS[0]) & 0xFFFFFFFF, (key1 + KEY_STEPS[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def threshold(p):
    """An element is dropped when its random word lies below this: probability p to within 2⁻³²."""
    return round(p * 2**32)
