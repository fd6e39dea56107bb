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

Scores lie transposed, a key a row and a query a column. So the largest score and the sum of a query are plain loops
down the rows, one query in each lane of a vector, and the products (tiles.py) read keys, values and the results of the
softmax where they are: only the queries, and in backward dout, are copied, once a query tile or head. The arrays may be
heads cut out of a wider projection: rows of D numbers at any distance. Results are laid out like q, so that joining the
heads again is free. A tile on the diagonal is taken in strips of CUT keys, and of each only the queries that see some
of it, in steps of CUT.
"""

import math

import numpy as np
from numba import prange
from numpy.lib.stride_tricks import as_strided

from kernels.contract import Mask
from kernels.cpu.dropout import drop, numbers_of
from kernels.cpu.jit import contiguous, ids64, kernel
from kernels.cpu.philox import philox
from kernels.cpu.softmax import part_dot
from kernels.cpu.tiles import multiply
from kernels.cpu.vector_math import exp

U = np.uint64
BLOCK = 128  # queries or keys a tile
CUT = 32  # of them are looked at together; a multiple of 4, as the dropout counters want
SLACK = 20  # a query's shift moves when a score exceeds it by more than this: e^20 times any length fits float32
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
def columns_of_group(x, first, queries, factor):
    """factor · x of the queries first ... first + queries of each head, one head after the other, transposed.
    x (heads, T, D) → (D, heads * queries)"""
    heads, _, D = x.shape
    columns = np.empty((D, heads * queries), x.dtype)
    for h in range(heads):
        for t in range(queries):
            row = x[h, first + t]
            for d in range(D):
                columns[d, h * queries + t] = row[d] * factor
    return columns


@kernel
def first_column(key, first, heads, mask):
    """The first query of a tile, in steps of CUT, that sees this key. The queries of several heads lie side by side."""
    if heads > 1 or not mask.is_causal:
        return 0
    return max(0, key - mask.query_offset - first) // CUT * CUT


@kernel
def keys_seen(column, first, start, keys, heads, mask):
    """How many of a tile's keys, beginning at `start`, the queries before this column see."""
    if heads > 1 or not mask.is_causal:
        return keys
    return max(0, min(keys, first + column + mask.query_offset - start))


@kernel
def hide(scores, key, first, queries, mask):
    """-inf for the queries before this key: the first ones of each head.   scores (heads * queries)"""
    hidden = min(queries, key - mask.query_offset - first)
    if hidden > 0:
        for h in range(scores.size // queries):
            scores[h * queries : h * queries + hidden] = -np.inf


@kernel
def raise_to(top, scores):
    """A NaN loses every comparison, and comes back through the sum.   both (queries)"""
    for i in range(top.size):
        top[i] = max(top[i], scores[i])


@kernel
def add_exp(total, scores, shift):
    """scores = exp(scores - shift), added to the total.   all (queries)"""
    for i in range(total.size):
        weight = exp(scores[i] - shift[i])
        scores[i] = weight
        total[i] += weight


@kernel
def fill_words(words, key, first, queries, head, dropout):
    """The random words of four keys, the first being `key`, for the queries of some heads.   words (4, ≥ queries)"""
    for h in range(words.shape[1] // queries):
        for i in range(queries):
            w0, w1, w2, w3 = philox(U(key // 4), U(first + i), U(head + h), U(1), dropout.key)
            column = h * queries + i
            words[0, column], words[1, column], words[2, column], words[3, column] = w0, w1, w2, w3


@kernel
def attend_tile(out, lse, q, k, v, first, queries, keys, mask, scale, dropout, head):
    """Queries first ... first + queries of the heads of a group.   out, q (heads, T, D); lse (heads, T); k, v (S, D)"""
    queries = min(queries, q.shape[1] - first)
    heads, D = q.shape[0], q.shape[2]
    tile = columns_of_group(q, first, queries, scale)
    width = heads * queries
    acc = np.zeros((width, D), q.dtype)
    p = np.empty((BLOCK, width), q.dtype)
    m, shift = np.full(width, -np.inf, q.dtype), np.full(width, -np.inf, q.dtype)
    l = np.zeros(width, q.dtype)  # noqa: E741 - the letter of the algorithm
    part, used = np.empty(width, q.dtype), np.empty(width, q.dtype)
    dropping = dropout.limit > 0 or dropout.factor != 1
    words = np.empty((4, width if dropping else 0), np.uint32)
    zero, one, slack = q.dtype.type(0), q.dtype.type(1), q.dtype.type(SLACK)
    end = visible_keys(first + queries - 1, keys, mask)
    for start in range(0, end, BLOCK):
        count = min(BLOCK, end - start)
        for j0 in range(0, count, CUT):
            j1, i0 = min(j0 + CUT, count), first_column(start + j0, first, heads, mask)
            multiply(p[j0:j1, i0:], k[start + j0 : start + j1], tile[:, i0:], False, False)
            for j in range(j0, j1):
                if mask.is_causal:
                    hide(p[j], start + j, first, queries, mask)
                raise_to(m[i0:], p[j][i0:])
        for i in range(width):
            if m[i] > shift[i] + slack:
                shrink = exp(shift[i] - m[i])
                l[i] *= shrink
                for d in range(D):
                    acc[i, d] *= shrink
                shift[i] = m[i]
            used[i] = zero if shift[i] == -np.inf else shift[i]  # all scores -inf so far: not -inf - -inf
            part[i] = 0
        for j0 in range(0, count, CUT):
            i0 = first_column(start + j0, first, heads, mask)
            for j in range(j0, min(j0 + CUT, count)):
                add_exp(part[i0:], p[j][i0:], used[i0:])
                if dropping:
                    if j % 4 == 0:
                        fill_words(words, start + j, first, queries, head, dropout)
                    drop(p[j], width, words[j % 4], dropout)
        for i in range(width):
            l[i] += part[i]
        for i0 in range(0, width, CUT):
            i1 = min(i0 + CUT, width)
            seen = keys_seen(i1, first, start, count, heads, mask)
            multiply(acc[i0:i1], p[:seen, i0:i1], v[start : start + seen], True, start > 0)
    for i in range(width):
        h, t = i // queries, first + i % queries
        visible = l[i] != 0  # else there is nothing to attend to: zeros
        lse[h, t] = shift[i] + math.log(l[i]) if visible else -np.inf
        share = one / l[i] if visible else zero
        for d in range(D):
            out[h, t, d] = acc[i, d] * share


@kernel(parallel=True)
def _forward(out, lse, q, k, v, mask, scale, dropout):
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
        attend_tile(
            out[0, b, h : h + heads], lse[b, h : h + heads], q[0, b, h : h + heads], k[0, b, g], v[0, b, g],
            tile * queries, queries, mask.key_lengths[b], mask, scale, dropout, b * H + h,
        )  # fmt: skip


@kernel
def weigh(p, dp, lse, delta, scale):
    """p = exp(score - lse); dp = scale · ds, ds = p (dp - delta), for one key.   all (queries)"""
    for i in range(lse.size):
        weight = exp(p[i] - lse[i])
        p[i] = weight
        dp[i] = weight * (dp[i] - delta[i]) * scale


@kernel
def _backward_tile(
    dq, dk, dv, p, dp, dout_columns, q_columns, dout, q, k, v, delta, lse, first, start, mask, scale, dropout, head
):
    """Queries first ... first + width meet keys start ... start + count.   dq, dout, q (width, D); q_columns,
    dout_columns (D, width); dk, dv, k, v (count, D); delta, lse (width); p, dp (BLOCK, BLOCK)"""
    width, count = q.shape[0], k.shape[0]
    dropping = dropout.limit > 0 or dropout.factor != 1
    words = np.empty((4, width if dropping else 0), np.uint32)
    for j0 in range(0, count, CUT):
        j1, i0 = min(j0 + CUT, count), first_column(start + j0, first, 1, mask)
        multiply(p[j0:j1, i0:width], k[j0:j1], q_columns[:, i0:], False, False)
        multiply(dp[j0:j1, i0:width], v[j0:j1], dout_columns[:, i0:], False, False)
        for j in range(j0, j1):
            if mask.is_causal:
                hide(p[j][:width], start + j, first, width, mask)
            if dropping:
                if j % 4 == 0:
                    fill_words(words, start + j, first, width, head, dropout)
                drop(dp[j], width, words[j % 4], dropout)  # dropped like p; ds needs the undropped p
            weigh(p[j][i0:], dp[j][i0:], lse[i0:], delta[i0:], scale)
            if dropping:
                drop(p[j], width, words[j % 4], dropout)
        multiply(dv[j0:j1], p[j0:j1, i0:width], dout[i0:], False, True)
        multiply(dk[j0:j1], dp[j0:j1, i0:width], q[i0:], False, True)
    for i0 in range(0, width, CUT):
        i1 = min(i0 + CUT, width)
        seen = keys_seen(i1, first, start, count, 1, mask)
        multiply(dq[i0:i1], dp[:seen, i0:i1], k[:seen], True, True)


@kernel
def clear(x, first, step):
    """x = 0 in every tile of rows that begins at first, first + step, ...   x (heads, T, D)"""
    for h in range(x.shape[0]):
        for start in range(first, x.shape[1], step):
            for t in range(start, min(start + BLOCK, x.shape[1])):
                for d in range(x.shape[2]):
                    x[h, t, d] = 0


@kernel(parallel=True)
def _backward(dq, dk, dv, dout, q, k, v, out, lse, mask, scale, dropout):
    """dq (2, shares, B, H, T, D); dk, dv (2, owners, B, G, S, D); the others behind an axis of two as well"""
    _, B, H, T, _ = q.shape
    G, shares, owners = k.shape[2], dq.shape[1], dk.shape[1]
    heads = H // G
    for task in prange(B * G * owners * shares):
        group, owner, share = task // shares // owners, task // shares % owners, task % shares
        b, g = group // G, group % G
        h0, h1 = g * heads + owner * heads // owners, g * heads + (owner + 1) * heads // owners
        clear(dq[0, share, b, h0:h1], 0, BLOCK)
        clear(dk[0, owner, b, g : g + 1], share * BLOCK, shares * BLOCK)
        clear(dv[0, owner, b, g : g + 1], share * BLOCK, shares * BLOCK)
        p, dp = np.empty((BLOCK, BLOCK), q.dtype), np.empty((BLOCK, BLOCK), q.dtype)
        delta, shift = np.empty((h1 - h0, T), q.dtype), np.empty((h1 - h0, T), q.dtype)
        for h in range(h0, h1):
            for t in range(T):
                delta[h - h0, t] = part_dot(dout[0, b, h, t], out[0, b, h, t])
                # a query that saw nothing: its weights are exp(-inf) = 0
                shift[h - h0, t] = np.inf if lse[b, h, t] == -np.inf else lse[b, h, t]
        q_columns = columns_of_group(q[0, b, h0:h1], 0, T, scale)
        dout_columns = columns_of_group(dout[0, b, h0:h1], 0, T, q.dtype.type(1))
        end = visible_keys(T - 1, mask.key_lengths[b], mask)
        for start in range(share * BLOCK, end, shares * BLOCK):
            last = min(start + BLOCK, end)
            first_query = max(0, start - mask.query_offset) // BLOCK * BLOCK if mask.is_causal else 0
            for h in range(h0, h1):
                for first in range(first_query, T, BLOCK):
                    stop = min(first + BLOCK, T)
                    column = (h - h0) * T
                    _backward_tile(
                        dq[0, share, b, h, first:stop], dk[0, owner, b, g, start:last], dv[0, owner, b, g, start:last],
                        p, dp, dout_columns[:, column + first : column + stop],
                        q_columns[:, column + first : column + stop], dout[0, b, h, first:stop], q[0, b, h, first:stop],
                        k[0, b, g, start:last], v[0, b, g, start:last], delta[h - h0, first:stop],
                        shift[h - h0, first:stop], first, start, mask, scale, dropout, b * H + h,
                    )  # fmt: skip


def fresh_like(x):
    """An empty array whose axes lie in memory in the order of x's, without gaps."""
    axes = list(range(x.ndim))
    order = axes if x.flags.c_contiguous else sorted(axes[:-1], key=lambda axis: -x.strides[axis]) + axes[-1:]
    if order == axes:
        return np.empty(x.shape, x.dtype)  # no view: a leaf keeps it as its gradient, where it would copy a view
    array = np.empty([x.shape[axis] for axis in order], x.dtype)
    return array.transpose(np.argsort(order))


def one_after_another(arrays):
    """Whether these are all heads of one array (B, T, columns): those of the first, then those of the second and so on.
    each (B, heads, T, D)"""
    whole = arrays[0].base
    if whole is None or any(x.base is not whole for x in arrays) or not whole.flags.c_contiguous:
        return False
    (B, _, T, D), size = arrays[0].shape, arrays[0].itemsize
    row, start = sum(x.shape[1] for x in arrays) * D * size, whole.ctypes.data
    for x in arrays:
        if x.ctypes.data != start or x.strides != (T * row, D * size, row, size) or x.shape != (B, x.shape[1], T, D):
            return False
        start += x.shape[1] * D * size
    return whole.nbytes == B * T * row


def gradients_like(*arrays):
    """Empty arrays, laid out like these. Where these are the heads of one projection, so are the gradients: then the
    gradient of the projection is there already, and nobody needs to join them."""
    if one_after_another(arrays):
        whole, start = np.empty_like(arrays[0].base), arrays[0].ctypes.data
        return [np.ndarray(x.shape, x.dtype, whole, x.ctypes.data - start, x.strides) for x in arrays]
    first, *others = arrays
    return [fresh_like(first), *(gradients_like(*others) if others else ())]


def plain_options(q, k, mask, scale, dropout):
    """The options with exactly one type each, so that the kernels are compiled once a dtype."""
    keys = k.shape[2]
    lengths = np.full(len(q), keys, np.int64) if mask.key_lengths is None else ids64(mask.key_lengths)
    mask = Mask(lengths, bool(mask.is_causal), min(int(mask.query_offset), keys))
    return mask, q.dtype.type(scale), numbers_of(dropout.p, dropout.seed, q.dtype)


def attention(q, k, v, mask, scale, dropout):
    """q (B, H, T, D); k, v (B, G, S, D) → out (B, H, T, D), lse (B, H, T) = log Σ_s exp(score)"""
    out, lse = fresh_like(q), np.empty(q.shape[:3], dtype=q.dtype)
    options = plain_options(q, k, mask, scale, dropout)
    _forward(any_layout(out), lse, any_layout(q), any_layout(k), any_layout(v), *options)
    return out, lse


def attention_backward(dout, q, k, v, out, lse, mask, scale, dropout):
    """dv = (p z)ᵀ dout;  ds = p (z dout vᵀ - Σ_d dout out);  dq = scale ds k;  dk = scale dsᵀ q, tile by tile"""
    groups, heads, key_tiles = k.shape[0] * k.shape[1], q.shape[1] // k.shape[1], -(-k.shape[2] // BLOCK)
    owners = max(1, min(TASKS // groups, heads))
    shares = max(1, min(TASKS // (groups * owners), key_tiles))
    gradients = gradients_like(q, k, v)
    parts = [  # where they are added up: in the gradient itself, unless several do so
        dx[None] if count == 1 else np.empty((count, *dx.shape), dx.dtype)
        for dx, count in zip(gradients, (shares, owners, owners), strict=True)
    ]
    options = plain_options(q, k, mask, scale, dropout)
    _backward(*(any_layout(x) for x in (*parts, dout, q, k, v, out)), contiguous(lse), *options)
    for dx, part in zip(gradients, parts, strict=True):
        if len(part) > 1:
            part.sum(axis=0, out=dx)
    return tuple(gradients)
