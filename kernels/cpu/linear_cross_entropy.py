"""A linear head and its cross-entropy in one, without ever storing the logits whole.

Rows are taken in chunks, whose logits fit a buffer of 64 MB. The logits lie transposed, a word a row: then neither the
weights nor the logits have to be copied for any of the three products (tiles.py), and the softmax of a row of x is a
plain loop down the words, one row in each lane of a vector. A task takes a run of words, in blocks of BLOCK words by
BLOCK rows, so that everything done to a block finds it in the cache:
    forward    e = exp(W xᵀ + b - shift) and its sums over the words;  dx += eᵀ W
    in between the log-sum-exp of each row from the sums of all tasks
    backward   dW += e (x · share),  share = exp(shift - lse) / N
The target's term is one row of W and of x. The softmax's factor belongs to the rows alone, so it is not multiplied into
the logits, but into the result (dx) or into the rows (dW). Memory sees each exponential written once and read once.
The upstream gradient of a loss is one number, so the backward pass of autograd only has to multiply by it. Rows with an
ignored target are left out before the first product: padding costs nothing.

`shift` is near the largest logit so far: it moves when a logit is greater by more than SLACK, and what was added up is
then multiplied by exp(old - new), as in attention. Nearly all of that happens in the first block.

What a block needs next (exponentials, words, rows of dW) is asked for while the products of this one run: it comes from
memory, and left to itself the processor waits for it.

Each task adds up a dx of its own; their number follows from the sizes, so that the number of threads changes no bit.
"""

import numpy as np
from numba import prange

from kernels.cpu.jit import PARTIALS, contiguous, ids64, kernel
from kernels.cpu.linear import column_sums
from kernels.cpu.parts import blocks
from kernels.cpu.softmax import part_dot
from kernels.cpu.tiles import multiply
from kernels.cpu.vector_math import exp
from kernels.cpu.workspace import recycled, scratch
from kernels.reference.cross_entropy import kept_rows

BUFFER_BYTES = 64 * 2**20
CHUNK = 256  # rows at most: more are no faster, as long as the next block is asked for in time
BLOCK = 128  # words, or rows of x, at a time
FEW = 64  # words for which no further task is worth it
TILE = 32  # columns that a product takes at a time
SLACK = 20  # e^20 times 50,000 words is far from the largest float32


@kernel
def _raise(top, products, bias):
    """The largest logit of each row so far, with those of one more word. A NaN loses every comparison, and comes back
    through the sum.   top, products (rows)"""
    for n in range(top.size):
        top[n] = max(top[n], products[n] + bias)


@kernel
def _add_exp(total, e, bias, shift):
    """e = exp(logit - shift) for one word, and added to the total.   all but the bias (rows)"""
    for n in range(total.size):
        power = exp(e[n] + bias - shift[n])
        e[n] = power
        total[n] += power


@kernel
def _add_to(total, x, bias):
    for n in range(total.size):
        total[n] += x[n] + bias


@kernel
def _move_shifts(dx, shift, total, top, started):
    """Where a logit exceeds the shift by more than SLACK, or is the first one at all.   dx (rows or 0, C); others
    (rows)"""
    slack = top.dtype.type(SLACK)
    for n in range(top.size):
        if top[n] > shift[n] + slack:
            if started:
                shrink = exp(shift[n] - top[n])
                total[n] *= shrink
                if len(dx):
                    for c in range(dx.shape[1]):
                        dx[n, c] *= shrink
            shift[n] = top[n]


@kernel
def _next_tile(e, task, block, group):
    """The tile that a task comes to after this one."""
    if group + 1 < e.shape[2]:
        return e[task, block, group + 1]
    return e[task, (block + 1) % e.shape[1], 0]


@kernel
def _next_words(weight, v0, n0, n1, rows):
    """Of the block of words that begins at v0, as large a part as n0 ... n1 is of all rows.   weight (V, C)"""
    last = weight.shape[0]
    return weight[min(last, v0 + n0 * BLOCK // rows) : min(last, v0 + n1 * BLOCK // rows)]


@kernel(parallel=True)
def _forward(e, dx, shifts, totals, sums, wanted, x, weight, bias, targets, smoothing):
    """One chunk: e = exp(logits - shifts), their sums `totals`, and dx without its factors; `sums` are those of the
    logits themselves (with label smoothing only), `wanted` the logits of the targets.

    e (tasks, blocks or 1, groups of rows, BLOCK, ≤ BLOCK); dx (tasks, n, C) or (0, n, C); shifts (tasks, blocks + 1,
    n), the last one being that of dx and totals; totals, sums (tasks, n) in double precision; wanted, targets (n);
    x (C, ≥ n); weight (V, C)"""
    V, tasks, rows = weight.shape[0], e.shape[0], wanted.size
    zero = e.dtype.type(0)
    for task in prange(tasks):
        first, last = task * V // tasks, (task + 1) * V // tasks
        top, part = np.empty(BLOCK, e.dtype), np.empty(BLOCK, e.dtype)
        shift = shifts[task, shifts.shape[1] - 1]
        shift[:] = -np.inf
        totals[task], sums[task] = 0, 0
        for v0 in range(first, last, BLOCK):
            words, block = min(BLOCK, last - v0), (v0 - first) // BLOCK
            for n0 in range(0, rows, BLOCK):
                n1 = min(n0 + BLOCK, rows)
                n = n1 - n0
                place = block % e.shape[1]
                tile, coming = e[task, place, n0 // BLOCK], _next_tile(e, task, place, n0 // BLOCK)
                multiply(tile[:words, :n], weight[v0 : v0 + words], x[:, n0:n1], False, False, coming)
                top[:] = -np.inf
                for v in range(words):
                    _raise(top[:n], tile[v], bias[v0 + v])
                for i in range(n0, n1):
                    if v0 <= targets[i] < v0 + words:
                        wanted[i] = tile[targets[i] - v0, i - n0] + bias[targets[i]]
                if smoothing:
                    part[:] = 0
                    for v in range(words):
                        _add_to(part[:n], tile[v], bias[v0 + v])
                    _add_to(sums[task][n0:n1], part[:n], zero)
                dx_part = dx[task, n0:n1] if dx.shape[0] else dx[0:0, 0]
                _move_shifts(dx_part, shift[n0:n1], totals[task][n0:n1], top[:n], v0 > first)
                for i in range(n):
                    # all logits -inf so far: exp must see -inf - 0, not -inf - -inf
                    top[i] = 0 if shift[n0 + i] == -np.inf else shift[n0 + i]
                    part[i] = 0
                for v in range(words):
                    _add_exp(part[:n], tile[v][:n], bias[v0 + v], top)
                _add_to(totals[task][n0:n1], part[:n], zero)
                if dx.shape[0]:
                    ahead = _next_words(weight, v0 + BLOCK, n0, n1, rows)
                    multiply(dx_part, tile[:words, :n], weight[v0 : v0 + words], True, v0 > first, ahead)
            shifts[task, block] = shift


@kernel
def _scaled_rows(scaled, x, share, n0, n1):
    """scaled = x · share of rows n0 ... n1"""
    for n in range(n0, n1):
        for c in range(x.shape[1]):
            scaled[n - n0, c] = x[n, c] * share[n - n0]


@kernel(parallel=True)
def _weight_gradient(dweight, dbias, e, shifts, lse, x, x_sum, targets, mean, spread, factor, add):
    """The same chunk: dW = Σ_n (e · share - spread - factor · onehot(target)) x, and the same without x for the bias.

    dbias (V) or (0), in double precision; lse, targets (n); x (n, C); x_sum (C), of all rows; mean, spread, factor:
    1/N, ε/(V N) and (1 - ε)/N; add: not the first chunk"""
    V, tasks, (rows, C) = dweight.shape[0], shifts.shape[0], x.shape
    middle = C // (2 * TILE) * TILE
    for task in prange(tasks):
        first, last = task * V // tasks, (task + 1) * V // tasks
        scaled, share = np.empty((BLOCK, C), x.dtype), np.empty(BLOCK, x.dtype)
        for v0 in range(first, last, BLOCK):
            v1, block = min(v0 + BLOCK, last), (v0 - first) // BLOCK
            for n0 in range(0, rows, BLOCK):
                n1, tile = min(n0 + BLOCK, rows), e[task, block, n0 // BLOCK]
                for n in range(n0, n1):
                    share[n - n0] = exp(shifts[task, block, n] - lse[n]) * mean
                _scaled_rows(scaled, x, share, n0, n1)
                if dbias.size:  # reads the tile in order, which brings it into the cache for the product
                    for v in range(v0, v1):
                        dbias[v] += part_dot(share[: n1 - n0], tile[v - v0])
                # in two parts: one asks for the next exponentials, the other for the next rows of dW
                left, more = tile[: v1 - v0, : n1 - n0], add or n0 > 0
                coming, ahead = _next_tile(e, task, block, n0 // BLOCK), _next_words(dweight, v1, n0, n1, rows)
                multiply(dweight[v0:v1, :middle], left, scaled[: n1 - n0, :middle], False, more, coming)
                multiply(dweight[v0:v1, middle:], left, scaled[: n1 - n0, middle:], False, more, ahead)
            for n in range(rows):
                if v0 <= targets[n] < v1:
                    for c in range(C):
                        dweight[targets[n], c] -= factor * x[n, c]
                    if dbias.size:
                        dbias[targets[n]] -= factor
            if spread != 0 and not add:
                for v in range(v0, v1):
                    for c in range(C):
                        dweight[v, c] -= spread * x_sum[c]


@kernel(parallel=True)
def _row_gradient(dx, parts, shifts, lse, weight, weight_sum, targets, mean, spread, factor):
    """dx = Σ_tasks parts · share - spread Σ_v W[v] - factor · W[target].   dx (n, C); parts (tasks, ≥ n, C);
    shifts (tasks, blocks + 1, ≥ n); weight_sum (C)"""
    for n in prange(dx.shape[0]):
        for c in range(dx.shape[1]):
            dx[n, c] = -factor * weight[targets[n], c] - spread * weight_sum[c]
        for task in range(parts.shape[0]):
            share = exp(shifts[task, shifts.shape[1] - 1, n] - lse[n]) * mean
            for c in range(dx.shape[1]):
                dx[n, c] += share * parts[task, n, c]


def _layout(V):
    """How many tasks share a vocabulary of V words (a power of two, so that threads get equal parts), and how many
    blocks the longest run of words has."""
    tasks = 1
    while tasks < PARTIALS and 2 * FEW * tasks <= V:
        tasks *= 2
    return tasks, blocks(blocks(V, tasks), BLOCK)


def _rows_of_chunk(N, words, itemsize):
    """As many rows as the buffer holds, up to CHUNK, whole blocks of them where it holds one."""
    most = max(1, min(CHUNK, BUFFER_BYTES // (words * itemsize)))
    return min(N, most // BLOCK * BLOCK if most > BLOCK else most)


def linear_cross_entropy(x, weight, bias, targets, ignore_index, label_smoothing, with_gradients):
    """loss = cross_entropy(x weightᵀ + bias, targets), and its gradients for an upstream gradient of 1.

    x (N, C); weight (V, C); bias (V) or None; targets (N)
    → loss (), dx (N, C), dweight (V, C), dbias (V) or None; all three None unless with_gradients"""
    dtype, (V, C) = x.dtype, weight.shape
    kept = np.flatnonzero(kept_rows(targets, ignore_index))
    everything = len(kept) == len(x)
    rows, wanted = (x, targets) if everything else (x[kept], targets[kept])
    rows, wanted, weight = contiguous(rows), ids64(wanted), contiguous(weight)
    offset = np.zeros(V, dtype) if bias is None else contiguous(bias)
    N, (tasks, count) = len(rows), _layout(V)
    longest = max(1, _rows_of_chunk(N, tasks * count * BLOCK, dtype.itemsize))
    groups, width = blocks(longest, BLOCK), min(BLOCK, longest)
    e = scratch("logits", (tasks, count if with_gradients else 1, groups, BLOCK, width), dtype)
    across = scratch("x transposed", (C, longest), dtype)
    losses, drows, dweight, dbias = np.empty(N, dtype), None, None, np.zeros(0)
    x_sum = weight_sum = np.zeros(C, dtype)
    if with_gradients:
        drows, dweight = np.empty((N, C), dtype), recycled((V, C), dtype)
        dbias = np.zeros(0 if bias is None else V)
        if N == 0:
            dweight[:] = 0
        if label_smoothing > 0:
            x_sum, weight_sum = column_sums(rows), column_sums(weight)
    eps, mean = dtype.type(label_smoothing), dtype.type(1) / dtype.type(N)
    spread = mean * eps / dtype.type(V)
    for start in range(0, N, longest):
        end = min(start + longest, N)
        n, part, ids = end - start, rows[start:end], wanted[start:end]
        across[:, :n] = part.T
        dx = scratch("parts of dx", (tasks if with_gradients else 0, n, C), dtype)
        shifts = np.empty((tasks, count + 1, n), dtype)
        totals, sums = np.empty((2, tasks, n))
        expected = np.empty(n, dtype)
        _forward(e, dx, shifts, totals, sums, expected, across, weight, offset, ids, bool(eps > 0))
        shift = shifts[:, -1].astype(np.float64)
        top = shift.max(axis=0)
        with np.errstate(invalid="ignore"):  # a row of -inf alone has no softmax: its loss is NaN
            lse = (top + np.log((totals * np.exp(shift - top)).sum(axis=0))).astype(dtype)
        losses[start:end] = lse - (1 - eps) * expected - (eps / V * sums.sum(axis=0) if eps > 0 else 0)
        if with_gradients:
            numbers = mean, spread, mean * (1 - eps)
            _row_gradient(drows[start:end], dx, shifts, lse, weight, weight_sum, ids, *numbers)
            _weight_gradient(dweight, dbias, e, shifts, lse, part, x_sum, ids, *numbers, start > 0)
    loss = np.asarray(losses.sum() * mean, dtype=dtype)
    if not with_gradients:
        return loss, None, None, None
    dx = drows
    if not everything:
        dx = np.zeros(x.shape, dtype)
        dx[kept] = drows
    return loss, dx, dweight, None if bias is None else (dbias - (eps / V if N else 0)).astype(dtype)
