"""Tiled attention with an online softmax. The scores never exist as a whole: a tile of BLOCK queries meets a tile of
BLOCK keys, and all working memory is a handful of tiles a thread, whatever T and S are.

Online softmax: for each query keep the largest score m seen so far, the sum l of exp(score - m), and the weighted
values acc. A new tile may raise m; then l and acc are first multiplied by exp(m_old - m_new). At the end out = acc / l
and lse = m + log l. Tiles wholly above the diagonal or behind the last key are never visited.

Forward reads q, k, v and writes out, lse: each k, v tile is read once per query tile. Flops: 4D a visible pair and
head. Backward recomputes the scores from lse and does five products a tile pair instead of two: 10D a pair.
Threads: forward takes one query tile a task; backward one head of one sequence, so that dq, dk and dv each have a
single owner and no atomics are needed.

Why it looks as it does: D is padded to a multiple of 8 so that rows fill vector registers; a key tile is copied
transposed, because its rows are then long; light and heavy tiles of a causal mask alternate, since threads get equal
counts of tasks.
"""

import math

import numpy as np
from numba import prange

from kernels.cpu.dropout import drop_row
from kernels.cpu.jit import contiguous, kernel
from kernels.cpu.philox import key
from kernels.cpu.tile import load_columns, load_rows, matmul_add
from kernels.cpu.vector_math import exp
from kernels.reference.dropout import keep_factor
from kernels.reference.philox import threshold

BLOCK = 64  # queries or keys a tile; a multiple of 4, as matmul_add and the dropout counters want


@kernel
def visible_keys(t, keys, is_causal, query_offset):
    """Query t sees the keys before this one."""
    return min(keys, t + query_offset + 1) if is_causal else keys


@kernel
def row_max(row):
    """The largest of a row of BLOCK numbers, in eight lanes: a single one would wait for itself at every step."""
    m0, m1, m2, m3, m4, m5, m6, m7 = row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7]
    for j in range(8, BLOCK, 8):
        m0, m1, m2, m3 = max(m0, row[j]), max(m1, row[j + 1]), max(m2, row[j + 2]), max(m3, row[j + 3])
        m4, m5, m6, m7 = max(m4, row[j + 4]), max(m5, row[j + 5]), max(m6, row[j + 6]), max(m7, row[j + 7])
    return max(max(max(m0, m1), max(m2, m3)), max(max(m4, m5), max(m6, m7)))


@kernel
def row_dot(a, b, t):
    """Σ_d a[t, d] b[t, d]"""
    total = a.dtype.type(0)
    for d in range(a.shape[1]):
        total += a[t, d] * b[t, d]
    return total


@kernel
def _forward_tile(out, lse, q, k, v, first, keys, is_causal, query_offset, scale, limit, factor, seed, head):
    """Queries first ... first + BLOCK of one head.   out, q (T, D); lse (T); k, v (S, D)"""
    D = q.shape[1]
    padded = (D + 7) // 8 * 8
    rows = min(BLOCK, q.shape[0] - first)
    q_tile = np.empty((BLOCK, padded), q.dtype)
    k_columns = np.empty((padded, BLOCK), q.dtype)
    v_tile = np.empty((BLOCK, padded), q.dtype)
    p = np.empty((BLOCK, BLOCK), q.dtype)
    acc = np.zeros((BLOCK, padded), q.dtype)
    m = np.full(BLOCK, -np.inf, q.dtype)
    l = np.zeros(BLOCK, q.dtype)  # noqa: E741 - the letter of the algorithm
    zero, one = q.dtype.type(0), q.dtype.type(1)
    load_rows(q_tile, q, first, rows, scale)
    for start in range(0, visible_keys(first + rows - 1, keys, is_causal, query_offset), BLOCK):
        columns = min(BLOCK, keys - start)
        load_columns(k_columns, k, start, columns)
        load_rows(v_tile, v, start, columns, one)
        p[:] = 0
        matmul_add(p, q_tile, k_columns)
        for i in range(rows):
            seen = min(columns, visible_keys(first + i, keys, is_causal, query_offset) - start)
            for j in range(max(seen, 0), BLOCK):
                p[i, j] = -np.inf
            top = max(m[i], row_max(p[i]))  # a NaN score loses every comparison, yet reaches l through the sum
            shift = zero if top == -np.inf else top  # all scores -inf so far: exp must see -inf - 0, not -inf - -inf
            shrink = exp(m[i] - shift)
            total = zero
            for j in range(BLOCK):
                p[i, j] = exp(p[i, j] - shift)
                total += p[i, j]
            l[i] = l[i] * shrink + total
            m[i] = top
            for d in range(padded):
                acc[i, d] *= shrink
            if limit > 0:
                drop_row(p[i], start, seen, first + i, head, limit, factor, seed)
        matmul_add(acc, p, v_tile)
    for i in range(rows):
        if l[i] == 0:  # no key was visible
            lse[first + i] = -np.inf
            out[first + i] = 0
        else:
            lse[first + i] = m[i] + math.log(l[i])
            share = one / l[i]
            for d in range(D):
                out[first + i, d] = acc[i, d] * share


@kernel(parallel=True)
def _forward(out, lse, q, k, v, key_lengths, is_causal, query_offset, scale, limit, factor, seed):
    B, H, T, _ = q.shape
    tiles = (T + BLOCK - 1) // BLOCK
    for task in prange(B * H * tiles):
        head, turn = task // tiles, task % tiles
        tile = turn // 2 if turn % 2 == 0 else tiles - 1 - turn // 2  # light, heavy, light, heavy ...
        b, h = head // H, head % H
        _forward_tile(
            out[b, h], lse[b, h], q[b, h], k[b, h], v[b, h], tile * BLOCK, key_lengths[b],
            is_causal, query_offset, scale, limit, factor, seed, head,
        )  # fmt: skip


@kernel
def _backward_head(
    dq, dk, dv, dout, q, k, v, out, lse, keys, is_causal, query_offset, scale, limit, factor, seed, head
):
    """One head: dq, dout, q, out (T, D); dk, dv, k, v (S, D); lse (T). dq, dk, dv start as zeros."""
    T, D = q.shape
    padded = (D + 7) // 8 * 8
    one = q.dtype.type(1)
    q_tile = np.empty((BLOCK, padded), q.dtype)
    dout_tile = np.empty((BLOCK, padded), q.dtype)
    dq_tile = np.empty((BLOCK, padded), q.dtype)
    k_tile = np.empty((BLOCK, padded), q.dtype)
    dk_tile = np.empty((BLOCK, padded), q.dtype)
    dv_tile = np.empty((BLOCK, padded), q.dtype)
    k_columns = np.empty((padded, BLOCK), q.dtype)
    v_columns = np.empty((padded, BLOCK), q.dtype)
    p = np.empty((BLOCK, BLOCK), q.dtype)
    dp = np.empty((BLOCK, BLOCK), q.dtype)
    for start in range(0, visible_keys(T - 1, keys, is_causal, query_offset), BLOCK):
        columns = min(BLOCK, keys - start)
        load_rows(k_tile, k, start, columns, scale)
        load_columns(k_columns, k, start, columns)
        load_columns(v_columns, v, start, columns)
        dk_tile[:] = 0
        dv_tile[:] = 0
        first_query = max(0, start - query_offset) // BLOCK * BLOCK if is_causal else 0
        for first in range(first_query, T, BLOCK):
            rows = min(BLOCK, T - first)
            load_rows(q_tile, q, first, rows, scale)
            load_rows(dout_tile, dout, first, rows, one)
            p[:] = 0
            dp[:] = 0
            matmul_add(p, q_tile, k_columns)
            matmul_add(dp, dout_tile, v_columns)
            for i in range(rows):
                t = first + i
                seen = min(columns, visible_keys(t, keys, is_causal, query_offset) - start)
                for j in range(max(seen, 0), BLOCK):
                    p[i, j] = -np.inf
                delta = row_dot(dout, out, t)
                shift = lse[t]
                if shift == -np.inf:  # a query that saw nothing: its weights are 0
                    p[i, :] = 0
                else:
                    for j in range(BLOCK):
                        p[i, j] = exp(p[i, j] - shift)
                if limit > 0:
                    # dp must be dropped like p, but ds needs the undropped p
                    drop_row(dp[i], start, seen, t, head, limit, factor, seed)
                for j in range(BLOCK):
                    dp[i, j] = p[i, j] * (dp[i, j] - delta)  # from here on dp holds ds
                if limit > 0:
                    drop_row(p[i], start, seen, t, head, limit, factor, seed)
            for i in range(rows, BLOCK):
                p[i, :] = 0
                dp[i, :] = 0
            matmul_add(dv_tile, p.T, dout_tile)
            matmul_add(dk_tile, dp.T, q_tile)
            dq_tile[:] = 0
            matmul_add(dq_tile, dp, k_tile)
            for i in range(rows):
                for d in range(D):
                    dq[first + i, d] += dq_tile[i, d]
        for j in range(columns):
            for d in range(D):
                dk[start + j, d] = dk_tile[j, d]
                dv[start + j, d] = dv_tile[j, d]


@kernel(parallel=True)
def _backward(dq, dk, dv, dout, q, k, v, out, lse, key_lengths, is_causal, query_offset, scale, limit, factor, seed):
    H = q.shape[1]
    for head in prange(q.shape[0] * H):
        b, h = head // H, head % H
        _backward_head(
            dq[b, h], dk[b, h], dv[b, h], dout[b, h], q[b, h], k[b, h], v[b, h], out[b, h], lse[b, h],
            key_lengths[b], is_causal, query_offset, scale, limit, factor, seed, head,
        )  # fmt: skip


def _options(q, k, key_lengths, is_causal, query_offset, scale, dropout_p, seed):
    """The options with exactly one type each, so that the kernels are compiled once a dtype."""
    lengths = np.full(q.shape[0], k.shape[2]) if key_lengths is None else key_lengths
    return (
        np.ascontiguousarray(lengths, dtype=np.int64), bool(is_causal), min(int(query_offset), k.shape[2]),
        q.dtype.type(scale), np.uint64(threshold(dropout_p)), keep_factor(dropout_p, q.dtype), key(seed),
    )  # fmt: skip


def attention(q, k, v, key_lengths, is_causal, query_offset, scale, dropout_p, seed):
    """q (B, H, T, D); k, v (B, H, S, D) → out (B, H, T, D), lse (B, H, T) = log Σ_s exp(score)"""
    out = np.empty(q.shape, dtype=q.dtype)
    lse = np.empty(q.shape[:3], dtype=q.dtype)
    options = _options(q, k, key_lengths, is_causal, query_offset, scale, dropout_p, seed)
    _forward(out, lse, contiguous(q), contiguous(k), contiguous(v), *options)
    return out, lse


def attention_backward(dout, q, k, v, out, lse, key_lengths, is_causal, query_offset, scale, dropout_p, seed):
    """dv = (p z)ᵀ dout;  ds = p (z dout vᵀ - Σ_d dout out);  dq = scale ds k;  dk = scale dsᵀ q, tile by tile"""
    dq, dk, dv = (np.zeros(x.shape, dtype=x.dtype) for x in (q, k, v))
    options = _options(q, k, key_lengths, is_causal, query_offset, scale, dropout_p, seed)
    _backward(dq, dk, dv, *(contiguous(x) for x in (dout, q, k, v, out, lse)), *options)
    return dq, dk, dv
