"""Philox 4x32-10 (see reference/philox.py): the same words, one counter at a time."""

import numpy as np

from kernels.cpu.jit import kernel

U = np.uint64
M0, M1 = U(0xD2511F53), U(0xCD9E8D57)
W0, W1 = U(0x9E3779B9), U(0xBB67AE85)
LOW, HALF = U(0xFFFFFFFF), U(32)


@kernel
def philox(c0, c1, c2, c3, seed):
    """Four random 32-bit words, held in uint64, from four counter words and a key, all uint64."""
    key0, key1 = seed & LOW, seed >> HALF
    for _ in range(10):
        product0 = c0 * M0
        product1 = c2 * M1
        c0 = (product1 >> HALF) ^ c1 ^ key0
        c2 = (product0 >> HALF) ^ c3 ^ key1
        c1, c3 = product1 & LOW, product0 & LOW
        key0, key1 = (key0 + W0) & LOW, (key1 + W1) & LOW
    return c0, c1, c2, c3


@kernel
def fill(words, count, c0, c1, c2, c3, seed):
    """The first `count` of the words of the counters c0, c0 + 1, c0 + 2 ..., up to three more.   words (n) uint32"""
    for group in range((count + 3) // 4):
        w0, w1, w2, w3 = philox(c0 + U(group), c1, c2, c3, seed)
        words[4 * group], words[4 * group + 1], words[4 * group + 2], words[4 * group + 3] = w0, w1, w2, w3


def key(seed):
    """A seed of any size and sign as the 64-bit key."""
    return U(int(seed) & 0xFFFFFFFFFFFFFFFF)
