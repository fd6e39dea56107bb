"""Tiled attention with an online softmax. The scores never exist as a whole: a tile of BLOCK queries meets a tile of
BLOCK keys, and all working memory is two tiles a thread, whatever T and S are.

Online softmax: for each query keep the largest score m seen so far, the sum l of exp(score - m), and the weighted
values. A new tile may raise m; then l and the values are first multiplied by exp(m_old - m_new). At the end the values
are divided by l, and lse = m + log l. Tiles wholly above the diagonal or behind the last key are never visited.

Forward reads q, k, v and writes out, lse: each k, v tile is read once per query tile. Flops: 4D a visible pair and
head. Backward recomputes the scores from lse and does five products a tile pair instead of two: 10D a pair.
Threads: forward takes one query tile a task, light and heavy tiles of a causal mask in turn. Backward takes one group
of heads, or where there are few groups some heads of a group, and where there are few heads one share of the key tiles.
dk and dv of a key tile are added up by a single owner, or from as many arrays as a group has owners; dq from as many
arrays as there are shares. Both numbers follow from the shapes. No atomics.

Groups: the H/G heads that share their keys and values lie in one query tile, BLOCK // (H/G) queries of each, so that a
tile of keys is read once for all of them, also by a model that writes word by word (T = 1). Backward keeps the tile of
keys while the heads pass by.

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
TASKS = 8  # that backward wants: with fewer groups than this, a group is shared, and with fewer heads a head


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
def rows_of_group(x, first, queries):
    """Queries first ... first + queries of each head, one head below the other; a single head is not copied.
    x (heads, T, D) → (heads * queries, D)"""
    heads, _, D = x.shape
    if heads == 1:
        return x[0, first : first + queries]
    rows = np.empty((heads * queries, D), x.dtype)[:, :D]  # sliced, so that both returns are of one type
    for i in range(len(rows)):
        for d in range(D):
            rows[i, d] = x[i // queries, first + i % queries, d]
    return rows


@kernel
def _forward_tile(blas, out, lse, q, k, v, first, queries, keys, mask, scale, dropout, head):
    """Queries first ... first + queries of the heads of a group.   out, q (heads, T, D); lse (heads, T); k, v (S, D)"""
    queries = min(queries, q.shape[1] - first)
    tile = rows_of_group(q, first, queries)
    rows = len(tile)
    acc = np.zeros((rows, q.shape[2]), q.dtype)
    p = np.empty((rows, BLOCK), q.dtype)
    m = np.full(rows, -np.inf, q.dtype)
    l = np.zeros(rows, q.dtype)  # noqa: E741 - the letter of the algorithm
    words = np.empty(BLOCK, np.uint32)
    zero, one = q.dtype.type(0), q.dtype.type(1)
    end = visible_keys(first + queries - 1, keys, mask)
    for start in range(0, end, BLOCK):
        columns = min(BLOCK, end - start)
        gemm(blas, p[:, :columns], tile, k[start : start + columns], False, True, False)
        for i in range(rows):
            h, t = i // queries, first + i % queries
            seen = max(0, min(columns, visible_keys(t, keys, mask) - start))
            top = max(m[i], scale_row(p[i], seen, scale))
            shift = zero if top == -np.inf else top  # all scores -inf so far: exp must see -inf - 0, not -inf - -inf
            shrink = exp(m[i] - shift)
            l[i] = l[i] * shrink + exp_row(p[i], seen, columns, shift)
            m[i] = top
            if start > 0:
                for d in range(acc.shape[1]):
                    acc[i, d] *= shrink
            if dropout.limit > 0 or dropout.factor != 1:
                fill(words, seen, U(start // 4), U(t), U(head + h), U(1), dropout.key)
                drop(p[i], seen, words, dropout)
        gemm(blas, acc, p[:, :columns], v[start : start + columns], False, False, start > 0)
    for i in range(rows):
        h, t = i // queries, first + i % queries
        visible = l[i] != 0  # else there is nothing to attend to: zeros
        lse[h, t] = m[i] + math.log(l[i]) if visible else -np.inf
        share = one / l[i] if visible else zero
        for d in range(acc.shape[1]):
            out[h, t, d] = acc[i, d] * share


@blas_kernel
def _forward(blas, out, lse, q, k, v, mask, scale, dropout):
    _, B, H, T, _ = q.shape
    G = k.shape[2]
    heads = H // G
    queries = max(1, BLOCK // heads)
    tiles = (T + queries - 1) // queries
    for task in prange(B * G * tiles):
        group, turn = task // tiles, task % tiles
        tile = turn // 2 if turn % 2 == 0 else tiles - 1 - turn // 2  # light, heavy, light, heavy ...
        b, g = group // G, group % G
        h = g * heads
        _forward_tile(
            blas, out[0, b, h : h + heads], lse[b, h : h + heads], q[0, b, h : h + heads], k[0, b, g], v[0, b, g],
            tile * queries, queries, mask.key_lengths[b], mask, scale, dropout, b * H + h,
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
    """dq (2, shares, B, H, T, D); dk, dv (2, owners, B, G, S, D); the others behind an axis of two as well; dq, dk, dv
    start as zeros"""
    _, B, H, T, _ = q.shape
    G, shares, owners = k.shape[2], dq.shape[1], dk.shape[1]
    heads = H // G
    for task in prange(B * G * owners * shares):
        group, owner, share = task // shares // owners, task // shares % owners, task % shares
        b, g = group // G, group % G
        h0, h1 = g * heads + owner * heads // owners, g * heads + (owner + 1) * heads // owners
        p, dp = np.empty((BLOCK, BLOCK), q.dtype), np.empty((BLOCK, BLOCK), q.dtype)
        delta = np.empty((h1 - h0, T), q.dtype)
        for h in range(h0, h1):
            for t in range(T):
                delta[h - h0, t] = row_dot(dout[0, b, h, t], out[0, b, h, t])
        end = visible_keys(T - 1, mask.key_lengths[b], mask)
        for start in range(share * BLOCK, end, shares * BLOCK):
            last = min(start + BLOCK, end)
            first_query = max(0, start - mask.query_offset) // BLOCK * BLOCK if mask.is_causal else 0
            for h in range(h0, h1):
                for first in range(first_query, T, BLOCK):
                    stop = min(first + BLOCK, T)
                    _backward_tile(
                        blas, dq[0, share, b, h, first:stop], dk[0, owner, b, g, start:last],
                        dv[0, owner, b, g, start:last], p[: stop - first], dp[: stop - first],
                        dout[0, b, h, first:stop], q[0, b, h, first:stop], k[0, b, g, start:last],
                        v[0, b, g, start:last], delta[h - h0], lse[b, h], first, start, last - start,
                        mask.key_lengths[b], mask, scale, dropout, b * H + h,
                    )  # fmt: skip


def fresh_like(x):
    """An empty array whose axes lie in memory in the order of x's, without gaps."""
    order = sorted(range(x.ndim - 1), key=lambda axis: -x.strides[axis]) + [x.ndim - 1]
    if order == list(range(x.ndim)):
        return np.empty(x.shape, x.dtype)  # no view: a leaf keeps it as its gradient, where it would copy a view
    array = np.empty([x.shape[axis] for axis in order], x.dtype)
    return array.transpose(np.argsort(order))


def _gradient(x, count):
    """A gradient of x, and the zeros to add it up in: `count` parts, or the gradient itself where there is one."""
    whole = fresh_like(x)
    parts = whole[None] if count == 1 else np.empty((count, *x.shape), x.dtype)
    parts[...] = 0
    return whole, parts


def _options(q, k, mask, scale, dropout):
    """The options with exactly one type each, so that the kernels are compiled once a dtype."""
    keys = k.shape[2]
    lengths = np.full(len(q), keys, np.int64) if mask.key_lengths is None else ids64(mask.key_lengths)
    mask = Mask(lengths, bool(mask.is_causal), min(int(mask.query_offset), keys))
    return mask, q.dtype.type(scale), numbers_of(dropout.p, dropout.seed, q.dtype)


def attention(q, k, v, mask, scale, dropout):
    """q (B, H, T, D); k, v (B, G, S, D) → out (B, H, T, D), lse (B, H, T) = log Σ_s exp(score)"""
    out, lse = fresh_like(q), np.empty(q.shape[:3], dtype=q.dtype)
    options = _options(q, k, mask, scale, dropout)
    _forward(any_layout(out), lse, any_layout(q), any_layout(k), any_layout(v), *options)
    return out, lse


def attention_backward(dout, q, k, v, out, lse, mask, scale, dropout):
    """dv = (p z)ᵀ dout;  ds = p (z dout vᵀ - Σ_d dout out);  dq = scale ds k;  dk = scale dsᵀ q, tile by tile"""
    groups, heads, key_tiles = k.shape[0] * k.shape[1], q.shape[1] // k.shape[1], -(-k.shape[2] // BLOCK)
    owners = max(1, min(TASKS // groups, heads))
    shares = max(1, min(TASKS // (groups * owners), key_tiles))
    gradients = [_gradient(x, count) for x, count in ((q, shares), (k, owners), (v, owners))]
    parts = [part for _, part in gradients]
    options = _options(q, k, mask, scale, dropout)
    _backward(*(any_layout(x) for x in (*parts, dout, q, k, v, out)), contiguous(lse), *options)
    for whole, part in gradients:
        if len(part) > 1:
            part.sum(axis=0, out=whole)
    return tuple(whole for whole, _ in gradients)
