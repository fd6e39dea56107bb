"""A linear head and its cross-entropy in one, without ever storing the logits whole.

Rows are taken in chunks whose logits fill a buffer of 64 MB. While a chunk is there, its losses are read off, the
buffer is turned into dlogits in place, and both products of the backward pass are formed; dweight is accumulated by
BLAS in place (beta = 1). The upstream gradient of a loss is one number, so backward only has to multiply by it.
For 8 × 256 tokens and 50,001 words that is 64 MB instead of 410 MB of logits and as much again for their gradient,
each of which would cross memory several times. Rows with an ignored target are left out before the first product:
padding costs nothing.

Tried for the labs' head (2,048 rows, two cores): buffers of 16, 32, 64 and 128 MB take 1.49, 1.26, 1.06 and 1.01 s,
since dweight (40 MB) crosses memory once a chunk. The three products alone take 0.9 s of that.
"""

import math

import numpy as np
from numba import prange

from kernels.cpu.blas import add_transposed_product
from kernels.cpu.cross_entropy import row_sum
from kernels.cpu.jit import contiguous, ids64, kernel
from kernels.cpu.linear import column_sums
from kernels.cpu.softmax import largest
from kernels.cpu.vector_math import exp
from kernels.reference.cross_entropy import kept_rows

BUFFER_BYTES = 64 * 2**20


@kernel(parallel=True)
def _loss_and_gradient(logits, losses, bias, targets, eps, factor, with_gradients):
    """Adds the bias, writes each row's loss, and leaves factor · dlogits in place of the logits.

    logits (n, V); losses (n); bias (V); targets (n)"""
    one = logits.dtype.type(1)
    spread = factor * eps / logits.dtype.type(logits.shape[1])
    for n in prange(logits.shape[0]):
        row = logits[n]
        for v in range(row.size):
            row[v] += bias[v]
        top = largest(row)
        expected = (one - eps) * row[targets[n]]  # the mean of the logits under the (smoothed) target distribution
        if eps > 0:
            expected += eps * row_sum(row) / row.size
        total = logits.dtype.type(0)
        for v in range(row.size):
            row[v] = exp(row[v] - top)
            total += row[v]
        losses[n] = top + math.log(total) - expected
        if with_gradients:
            share = factor / total
            for v in range(row.size):
                row[v] = row[v] * share - spread
            row[targets[n]] -= factor * (one - eps)


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
    chunk = max(1, min(len(rows), BUFFER_BYTES // (V * dtype.itemsize)))
    buffer = np.empty((chunk, V), dtype)
    losses = np.empty(len(rows), dtype)
    drows = np.empty((len(rows), C), dtype) if with_gradients else None
    dweight = np.zeros((V, C), dtype) if with_gradients else None
    dbias = np.zeros(V, dtype) if with_gradients and bias is not None else None
    factor = dtype.type(1) / dtype.type(len(rows))
    for start in range(0, len(rows), chunk):
        part = rows[start : start + chunk]
        end = start + len(part)
        logits = np.matmul(part, weight.T, out=buffer[: len(part)])
        eps = dtype.type(label_smoothing)
        _loss_and_gradient(logits, losses[start:end], offset, wanted[start:end], eps, factor, bool(with_gradients))
        if with_gradients:
            np.matmul(logits, weight, out=drows[start:end])
            add_transposed_product(dweight, logits, part)
            if dbias is not None:
                dbias += column_sums(logits)
    loss = np.asarray(losses.sum() * factor, dtype=dtype)
    if not with_gradients:
        return loss, None, None, None
    if everything:
        return loss, drows, dweight, dbias
    dx = np.zeros(x.shape, dtype)
    dx[kept] = drows
    return loss, dx, dweight, dbias
