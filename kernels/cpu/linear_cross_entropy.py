"""A linear head and its cross-entropy in one, without ever storing the logits whole.

Rows are taken in chunks whose logits fill a buffer of 64 MB; the vocabulary is cut into blocks of WORDS columns. A
thread takes one block at a time, so that everything done to it finds it in the cache:
    forward    logits = x Wᵀ + b;  the block's own maximum and sum per row;  e = exp(logits - own maximum)
    in between the log-sum-exp of each row from those of its blocks
    backward   dlogits = e · share of (row, block) - target;  dx += dlogits W;  dW += dlogitsᵀ x
The exponential is taken once a logit: what backward needs differs from e by one factor per row and block. Memory sees
each logit written once and read once. The upstream gradient of a loss is one number, so the backward pass of autograd
only has to multiply by it. Rows with an ignored target are left out before the first product: padding costs nothing.

dx is added up in a fixed number of partial sums, each of a run of blocks, so that the number of threads changes no bit.

Measured for the labs' head (2,048 rows of 200, 50,001 words, two cores, products alone at peak 0.75 s):
    products by NumPy with its own threads, loops in between    1.04 s
    blocks as described, 256 rows a chunk, 512 or 1,024 words   0.87 s; 128 rows 0.99 s, 512 rows 0.86 s
"""

import numpy as np
from numba import prange

from kernels.cpu.blas import blas_kernel, blocks, gemm
from kernels.cpu.jit import PARTIALS, contiguous, ids64
from kernels.cpu.softmax import row_sum
from kernels.cpu.sums import ROWS, joined
from kernels.cpu.vector_math import exp
from kernels.cpu.workspace import recycled, scratch
from kernels.reference.cross_entropy import kept_rows

BUFFER_BYTES = 64 * 2**20
WORDS = 1024  # columns a block, at most
FEW = 64  # words for which no further task is worth it


@blas_kernel
def _forward(blas, e, tops, totals, sums, wanted, x, weight, bias, targets, smoothing):
    """One chunk: e[j] = exp(logits - tops), the logits of block j, whose row sums are `totals`; `sums` are those of the
    logits themselves (with label smoothing only), `wanted` the logits of the targets.

    e (blocks, ≥ n, ≥ V / blocks); tops, totals, sums (blocks, ≥ n); wanted, targets (n); x (n, C); weight (V, C);
    bias (V)"""
    V = weight.shape[0]
    for j in prange(e.shape[0]):
        v0, v1 = j * V // e.shape[0], (j + 1) * V // e.shape[0]
        gemm(blas, e[j, : x.shape[0], : v1 - v0], x, weight[v0:v1], False, True, False)
        for n in range(x.shape[0]):
            row = e[j, n]
            top = e.dtype.type(-np.inf)
            for v in range(v1 - v0):
                logit = row[v] + bias[v0 + v]
                row[v] = logit
                top = max(top, logit)  # a NaN loses every comparison, and comes back through the sum
            if v0 <= targets[n] < v1:
                wanted[n] = row[targets[n] - v0]
            if smoothing:
                sums[j, n] = row_sum(row[: v1 - v0])
            shift = e.dtype.type(0) if top == -np.inf else top
            total = e.dtype.type(0)
            for v in range(v1 - v0):
                power = exp(row[v] - shift)
                row[v] = power
                total += power
            tops[j, n], totals[j, n] = top, total


@blas_kernel
def _backward(blas, dx, dweight, dbias, e, shares, x, weight, targets, spread, factor, add):
    """The same chunk: dlogits = e · shares - spread - factor · onehot(target), and its products.

    dx (tasks, ≥ n, C); dbias (V) in double precision; shares (blocks, n); spread, factor: ε/(V N) and (1 - ε)/N;
    add: not the first chunk"""
    V, count, tasks = weight.shape[0], e.shape[0], dx.shape[0]
    rows = x.shape[0]
    for task in prange(tasks):
        first, last = task * count // tasks, (task + 1) * count // tasks
        for j in range(first, last):
            v0, v1 = j * V // count, (j + 1) * V // count
            for n in range(rows):
                row, share = e[j, n], shares[j, n]
                for v in range(v1 - v0):
                    row[v] = row[v] * share - spread
                if v0 <= targets[n] < v1:
                    row[targets[n] - v0] -= factor
            if dbias.size:
                block = np.empty(v1 - v0, e.dtype)
                for n0 in range(0, rows, ROWS):  # their sum in the array's own precision, then in double (sums.py)
                    block[:] = 0
                    for n in range(n0, min(rows, n0 + ROWS)):
                        for v in range(v1 - v0):
                            block[v] += e[j, n, v]
                    for v in range(v1 - v0):
                        dbias[v0 + v] += block[v]
            dlogits = e[j, :rows, : v1 - v0]
            gemm(blas, dx[task, :rows], dlogits, weight[v0:v1], False, False, j > first)
            gemm(blas, dweight[v0:v1], dlogits, x, True, False, add)


def _layout(V):
    """How many tasks share a vocabulary of V words (a power of two, so that threads get equal parts), into how many
    blocks it is cut, and how long a row of a block is (padded to whole vectors)."""
    tasks = 1
    while tasks < PARTIALS and 2 * FEW * tasks <= V:
        tasks *= 2
    count = tasks * blocks(V, tasks * WORDS)
    return tasks, count, 16 * blocks(blocks(V, count), 16)


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
    N, (tasks, count, width) = len(rows), _layout(V)
    chunks = blocks(N, max(1, BUFFER_BYTES // (count * width * dtype.itemsize)))
    longest = blocks(N, max(chunks, 1))
    buffer = scratch("logits", (count, longest, width), dtype)
    statistics = np.empty((3, count, longest), dtype)
    losses, drows, parts, dweight, dbias = np.empty(N, dtype), None, None, None, None
    if with_gradients:
        drows, dweight = np.empty((N, C), dtype), recycled((V, C), dtype)
        parts = scratch("parts of dx", (tasks, longest, C), dtype)
        dbias = np.zeros(0 if bias is None else V)
        if N == 0:
            dweight[:] = 0
    eps, factor = dtype.type(label_smoothing), dtype.type(1) / dtype.type(N)
    for chunk in range(chunks):
        start, end = chunk * N // chunks, (chunk + 1) * N // chunks
        n, part, ids = end - start, rows[start:end], wanted[start:end]
        expected = np.empty(n, dtype)
        _forward(buffer, *statistics, expected, part, weight, offset, ids, bool(eps > 0))
        tops, totals, sums = statistics[:, :, :n]
        top = tops.max(axis=0)
        with np.errstate(invalid="ignore"):  # a row of -inf alone has no softmax: its loss is NaN
            lse = top + np.log(joined(totals * np.exp(tops - top)))
        losses[start:end] = lse - (1 - eps) * expected - (eps / V * joined(sums) if eps > 0 else 0)
        if with_gradients:
            with np.errstate(invalid="ignore"):
                shares = np.exp(tops - lse) * factor
            spread = factor * eps / dtype.type(V)
            numbers = spread, factor * (1 - eps), chunk > 0
            _backward(parts, dweight, dbias, buffer, shares, part, weight, ids, *numbers)
            drows[start:end] = parts[:, :n].sum(axis=0)
    loss = np.asarray(losses.sum() * factor, dtype=dtype)
    if not with_gradients:
        return loss, None, None, None
    dx = drows
    if not everything:
        dx = np.zeros(x.shape, dtype)
        dx[kept] = drows
    return loss, dx, dweight, None if bias is None else dbias.astype(dtype)
