"""Tiled attention with an online softmax. The scores never exist as a whole: a tile of BLOCK queries meets a tile of
BLOCK keys, and all working memory is two tiles a thread, whatever T and S are.

Online softmax: for each query keep the largest score m seen so far, the sum l of exp(score - m), and the weighted
values. A new tile may raise m; then l and the values are first multiplied by exp(m_old - m_new). At the end the values
are divided by l, and lse = m + log l. Tiles wholly above the diagonal or behind the last key are never visited.

Forward reads q, k, v and writes out, lse: each k, v tile is read once per query tile. Flops: 4D a visible pair and
head. Backward recomputes the scores from lse and does five products a tile pair instead of two: 10D a pair.
Threads: forward takes one query tile a task, light and heavy tiles of a causal mask in turn. Backward takes one head,
or where there are few heads one share of a head's key tiles: dk and dv of a key tile have a single owner, dq is added
up from as many arrays as there are shares. No atomics.

The products are BLAS's, straight from the arrays, which may be heads cut out of a wider projection: rows of D numbers
at any distance. Results are laid out like q, so that joining the heads again is free. Measured on tiles of width 100,
two cores: 64 × 64 reaches 70 GFLOPS, 128 × 128 105 to 148, which outweighs the larger part of a diagonal tile that is
thrown away. A product of our own (sixteen accumulators a sweep, keys copied transposed) had 37 to 45 GFLOPS a core.
"""

import math

import numpy as np
from numba import prange
from numpy.lib.stride_tricks import as_strided

from kernels.contract import Mask
from kernels.cpu.blas import blas_kernel, gemm
from kernels.cpu.dropout import drop, numbers_of
from kernels.cpu.jit import contiguous, ids64, kernel
from kernels.cpu.philox import fill
from kernels.cpu.vector_math import exp

U = np.uint64
BLOCK = 128  # queries or keys a tile; a multiple of 4, as the dropout counters want
SHARES = 8  # tasks that backward wants: with fewer heads than this, a head is shared


def any_layout(x):
    """x behind an axis of two that are the same. Numba compiles a kernel anew for each kind of memory layout it meets;
    seen like this they are all of one kind. Rows are copied unless they are runs of neighbours, one after another."""
    strides, size = x.strides, x.itemsize
    neighbours = x.shape[-1] == 1 or strides[-1] == size
    rows_apart = x.shape[-2] == 1 or strides[-2] >= x.shape[-1] * size
    aligned = all(stride >= 0 and stride % size == 0 for stride in strides)
    if not (neighbours and rows_apart and aligned and x.flags.writeable):
        x = np.array(x, order="C")
    return as_strided(x, (2, *x.shape), (0, *x.strides))


@kernel
def visible_keys(t, keys, mask):
    """Query t sees the keys before this one."""
    return min(keys, t + mask.query_offset + 1) if mask.is_causal else keys


@kernel
def row_dot(a, b):
    """Σ_d a[d] b[d]"""
    total = a.dtype.type(0)
    for d in range(a.size):
        total += a[d] * b[d]
    return total


@kernel
def scale_row(row, count, factor):
    """row[:count] *= factor, and the largest of the products. A NaN loses every comparison, yet stays in the row."""
    top = row.dtype.type(-np.inf)
    for j in range(count):
        score = row[j] * factor
        row[j] = score
        top = max(top, score)
    return top


@kernel
def exp_row(row, count, end, shift):
    """row[:count] = exp(row - shift), row[count:end] = 0; returns the sum."""
    total = row.dtype.type(0)
    for j in range(count):
        weight = exp(row[j] - shift)
        row[j] = weight
        total += weight
    for j in range(count, end):
        row[j] = 0
    return total


@kernel
def _forward_tile(blas, out, lse, q, k, v, first, keys, mask, scale, dropout, head):
    """Queries first ... first + BLOCK of one head.   out, q (T, D); lse (T); k, v (S, D)"""
    rows = min(BLOCK, q.shape[0] - first)
    acc = np.zeros((rows, q.shape[1]), q.dtype)
    p = np.empty((rows, BLOCK), q.dtype)
    m = np.full(rows, -np.inf, q.dtype)
    l = np.zeros(rows, q.dtype)  # noqa: E741 - the letter of the algorithm
    words = np.empty(BLOCK, np.uint32)
    zero, one = q.dtype.type(0), q.dtype.type(1)
    end = visible_keys(first + rows - 1, keys, mask)
    for start in range(0, end, BLOCK):
        columns = min(BLOCK, end - start)
        gemm(blas, p[:, :columns], q[first : first + rows], k[start : start + columns], False, True, False)
        for i in range(rows):
            seen = max(0, min(columns, visible_keys(first + i, keys, mask) - start))
            top = max(m[i], scale_row(p[i], seen, scale))
            shift = zero if top == -np.inf else top  # all scores -inf so far: exp must see -inf - 0, not -inf - -inf
            shrink = exp(m[i] - shift)
            l[i] = l[i] * shrink + exp_row(p[i], seen, columns, shift)
            m[i] = top
            if start > 0:
                for d in range(acc.shape[1]):
                    acc[i, d] *= shrink
            if dropout.limit > 0 or dropout.factor != 1:
                fill(words, seen, U(start // 4), U(first + i), U(head), U(1), dropout.key)
                drop(p[i], seen, words, dropout)
        gemm(blas, acc, p[:, :columns], v[start : start + columns], False, False, start > 0)
    for i in range(rows):
        visible = l[i] != 0  # else there is nothing to attend to: zeros
        lse[first + i] = m[i] + math.log(l[i]) if visible else -np.inf
        share = one / l[i] if visible else zero
        for d in range(acc.shape[1]):
            out[first + i, d] = acc[i, d] * share


@blas_kernel
def _forward(blas, out, lse, q, k, v, mask, scale, dropout):
    _, B, H, T, _ = q.shape
    tiles = (T + BLOCK - 1) // BLOCK
    for task in prange(B * H * tiles):
        head, turn = task // tiles, task % tiles
        tile = turn // 2 if turn % 2 == 0 else tiles - 1 - turn // 2  # light, heavy, light, heavy ...
        b, h = head // H, head % H
        _forward_tile(
            blas, out[0, b, h], lse[b, h], q[0, b, h], k[0, b, h], v[0, b, h], tile * BLOCK,
            mask.key_lengths[b], mask, scale, dropout, head,
        )  # fmt: skip


@kernel
def _backward_tile(
    blas, dq, dk, dv, p, dp, dout, q, k, v, delta, lse, first, start, columns, keys, mask, scale, dropout, head
):
    """Queries first ... first + rows meet keys start ... start + columns.   dq, dout, q (rows, D); dk, dv, k, v
    (columns, D); delta, lse (T); p, dp (rows, BLOCK)"""
    words = np.empty(BLOCK, np.uint32)
    gemm(blas, p[:, :columns], q, k, False, True, False)
    gemm(blas, dp[:, :columns], dout, v, False, True, False)
    for i in range(q.shape[0]):
        t = first + i
        seen = max(0, min(columns, visible_keys(t, keys, mask) - start))
        if lse[t] == -np.inf:  # a query that saw nothing: its weights are 0
            seen = 0
        scale_row(p[i], seen, scale)
        exp_row(p[i], seen, columns, lse[t])
        if dropout.limit > 0 or dropout.factor != 1:
            fill(words, seen, U(start // 4), U(t), U(head), U(1), dropout.key)
            drop(dp[i], seen, words, dropout)  # dropped like p; ds needs the undropped p
        for j in range(seen):
            dp[i, j] = p[i, j] * (dp[i, j] - delta[t]) * scale  # from here on dp holds scale · ds
        for j in range(seen, columns):
            dp[i, j] = 0
        if dropout.limit > 0 or dropout.factor != 1:
            drop(p[i], seen, words, dropout)
    gemm(blas, dv, p[:, :columns], dout, True, False, True)
    gemm(blas, dk, dp[:, :columns], q, True, False, True)
    gemm(blas, dq, dp[:, :columns], k, False, False, True)


@blas_kernel
def _backward(blas, dq, dk, dv, dout, q, k, v, out, lse, mask, scale, dropout):
    """dq (2, shares, B, H, T, D); the others behind an axis of two as well; dq, dk, dv start as zeros"""
    _, B, H, T, _ = q.shape
    shares = dq.shape[1]
    for task in prange(B * H * shares):
        head, share = task // shares, task % shares
        b, h = head // H, head % H
        p, dp = np.empty((BLOCK, BLOCK), q.dtype), np.empty((BLOCK, BLOCK), q.dtype)
        delta = np.empty(T, q.dtype)
        for t in range(T):
            delta[t] = row_dot(dout[0, b, h, t], out[0, b, h, t])
        end = visible_keys(T - 1, mask.key_lengths[b], mask)
        for start in range(share * BLOCK, end, shares * BLOCK):
            last = min(start + BLOCK, end)
            first_query = max(0, start - mask.query_offset) // BLOCK * BLOCK if mask.is_causal else 0
            for first in range(first_query, T, BLOCK):
                stop = min(first + BLOCK, T)
                _backward_tile(
                    blas, dq[0, share, b, h, first:stop], dk[0, b, h, start:last], dv[0, b, h, start:last],
                    p[: stop - first], dp[: stop - first], dout[0, b, h, first:stop], q[0, b, h, first:stop],
                    k[0, b, h, start:last], v[0, b, h, start:last], delta, lse[b, h], first, start, last - start,
                    mask.key_lengths[b], mask, scale, dropout, head,
                )  # fmt: skip


def fresh_like(x):
    """An empty array whose axes lie in memory in the order of x's, without gaps."""
    order = sorted(range(x.ndim - 1), key=lambda axis: -x.strides[axis]) + [x.ndim - 1]
    if order == list(range(x.ndim)):
        return np.empty(x.shape, x.dtype)  # no view: a leaf keeps it as its gradient, where it would copy a view
    array = np.empty([x.shape[axis] for axis in order], x.dtype)
    return array.transpose(np.argsort(order))


def _options(q, k, mask, scale, dropout):
    """The options with exactly one type each, so that the kernels are compiled once a dtype."""
    keys = k.shape[2]
    lengths = np.full(len(q), keys, np.int64) if mask.key_lengths is None else ids64(mask.key_lengths)
    mask = Mask(lengths, bool(mask.is_causal), min(int(mask.query_offset), keys))
    return mask, q.dtype.type(scale), numbers_of(dropout.p, dropout.seed, q.dtype)


def attention(q, k, v, mask, scale, dropout):
    """q (B, H, T, D); k, v (B, H, S, D) → out (B, H, T, D), lse (B, H, T) = log Σ_s exp(score)"""
    out, lse = fresh_like(q), np.empty(q.shape[:3], dtype=q.dtype)
    options = _options(q, k, mask, scale, dropout)
    _forward(any_layout(out), lse, any_layout(q), any_layout(k), any_layout(v), *options)
    return out, lse


def attention_backward(dout, q, k, v, out, lse, mask, scale, dropout):
    """dv = (p z)ᵀ dout;  ds = p (z dout vᵀ - Σ_d dout out);  dq = scale ds k;  dk = scale dsᵀ q, tile by tile"""
    heads, key_tiles = q.shape[0] * q.shape[1], -(-k.shape[2] // BLOCK)
    shares = max(1, min(SHARES // heads, key_tiles))
    dk, dv = fresh_like(k), fresh_like(v)
    dq = fresh_like(q) if shares == 1 else None
    parts = np.empty((shares, *q.shape), q.dtype) if dq is None else dq[None]
    for array in (parts, dk, dv):
        array[...] = 0
    options = _options(q, k, mask, scale, dropout)
    _backward(*(any_layout(x) for x in (parts, dk, dv, dout, q, k, v, out)), contiguous(lse), *options)
    return parts.sum(axis=0) if dq is None else dq, dk, dv
