"""Attention of one new word for each row, with the keys and values of the words before it at hand.

One word is little work, so that it is done in one call: turning its keys, where positions are angles, and writing keys
and values behind those of the words before; then, a head for each task, turning the queries, the scores, their softmax
and the mean of the values.
Reads all keys and values of the row, 4 D flops a head and word before.
"""

from functools import lru_cache

import numpy as np
from numba import prange

from kernels.cpu.jit import contiguous, ids64, kernel
from kernels.cpu.vector_math import exp


@kernel
def _turn(to, x, cos, sin):
    """Pairs of neighbouring columns, turned; without angles x as it is.   to, x (D); cos, sin (D/2 or none)"""
    if cos.size == 0:
        for d in range(x.size):
            to[d] = x[d]
    for i in range(cos.size):
        left, right = x[2 * i], x[2 * i + 1]
        to[2 * i] = left * cos[i] - right * sin[i]
        to[2 * i + 1] = left * sin[i] + right * cos[i]


@kernel
def _head(out, q, keys, values, count, scale, scores):
    """out = softmax(scale · q keysᵀ) values over the first `count` keys.   out, q (D); keys, values (S, D)"""
    D = q.size
    top = q.dtype.type(-np.inf)
    for s in range(count):
        score = q.dtype.type(0)
        for d in range(D):
            score += q[d] * keys[s, d]
        score *= scale
        scores[s] = score
        top = max(top, score)
    total = q.dtype.type(0)
    for s in range(count):
        weight = exp(scores[s] - top)
        scores[s] = weight
        total += weight
    for d in range(D):
        out[d] = 0
    for s in range(count):
        for d in range(D):
            out[d] += scores[s] * values[s, d]
    for d in range(D):
        out[d] /= total


@kernel(parallel=True)
def _attend_word(out, heads, keys, values, lengths, cos, sin, scale):
    """cos, sin (B, D/2 or none): of the angles by which each row's word is turned"""
    B, H, D = out.shape
    G, S = keys.shape[1], keys.shape[2]
    for b in range(B):
        for g in range(G):
            _turn(keys[b, g, lengths[b]], heads[b, H + g], cos[b], sin[b])
            for d in range(D):
                values[b, g, lengths[b], d] = heads[b, H + G + g, d]
    for task in prange(B * H):
        b, h = task // H, task % H
        g = h // (H // G)
        q, scores = np.empty(D, out.dtype), np.empty(S, out.dtype)
        _turn(q, heads[b, h], cos[b], sin[b])
        _head(out[b, h], q, keys[b, g], values[b, g], lengths[b] + 1, scale, scores)


@lru_cache(maxsize=2)  # all layers of a model turn by the same angles
def _turns(lengths: bytes, base: float | None, D: int, dtype: np.dtype):
    """cos, sin (B, D/2) of the angles, which are formed in double precision; (B, 0) without a base."""
    frequencies = np.empty(0) if base is None else base ** (-np.arange(0, D, 2) / D)
    angles = np.frombuffer(lengths, np.int64)[:, None] * frequencies
    return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)


def attend_word(heads, keys, values, lengths, base, scale):
    """The word's queries and its keys are turned by its position lengths[b], if there is a base; keys and values join
    those before them, in place; the queries look at all of these.

    heads (B, H + 2G, D): queries, keys, values; keys, values (B, G, S, D); lengths (B) → out (B, H, D)"""
    (B, E, D), G = heads.shape, keys.shape[1]
    lengths, out = ids64(lengths), np.empty((B, E - 2 * G, D), heads.dtype)
    turns = _turns(lengths.tobytes(), base, D, heads.dtype)
    places = [contiguous(array) for array in (keys, values)]
    _attend_word(out, contiguous(heads), *places, lengths, *turns, heads.dtype.type(scale))
    for array, place in zip((keys, values), places, strict=True):
        if place is not array:
            array[...] = place
    return out
