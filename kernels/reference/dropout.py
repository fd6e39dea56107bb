"""Dropout: each element becomes 0 with probability p, else is divided by 1 - p. Backward is the same function on dy.

Element i of the flattened array takes word i mod 4 of counter (i div 4); an attention weight (b, h, t, s) takes
word s mod 4 of counter (s div 4, t, b·H + h, 1). The last counter word keeps the two uses apart.
"""

import numpy as np

from kernels.reference.philox import philox, threshold


def keep_factor(p, dtype):
    """1 / (1 - p) rounded once in the array's own precision, so that every tier multiplies by the same number."""
    return dtype.type(1) / dtype.type(1 - p)


def dropout(x, p, seed):
    """y = x · keep / (1 - p).   x of any shape"""
    groups = np.arange(-(-x.size // 4), dtype=np.uint64)
    words = philox(groups & np.uint64(0xFFFFFFFF), groups >> np.uint64(32), 0, 0, seed)
    random = np.stack(words, axis=1).reshape(-1)[: x.size].reshape(x.shape)
    return np.where(random >= threshold(p), x * keep_factor(p, x.dtype), x.dtype.type(0))


def attention_keep(shape, p, seed, dtype):
    """The factors 0 or 1/(1-p) for the attention weights; shape (B, H, T, S)."""
    if p == 0:
        return np.ones(shape, dtype=dtype)
    B, H, T, S = shape
    groups, t, head = np.arange(-(-S // 4)), np.arange(T)[:, None], np.arange(B * H)[:, None, None]
    words = philox(groups, t, head, 1, seed)
    random = np.stack(np.broadcast_arrays(*words), axis=-1).reshape(B, H, T, -1)[..., :S]
    return np.where(random >= threshold(p), keep_factor(p, dtype), dtype.type(0))
