"""The mean cross-entropy of rows of logits (N, V) against target ids (see reference/cross_entropy.py). One task a row;
logits are read once forward, read and written once backward. Rows that do not count are not read at all."""

import math

import numpy as np
from numba import prange

from kernels.cpu.jit import contiguous, ids64, kernel
from kernels.cpu.softmax import largest, row_sum, sum_exp
from kernels.cpu.vector_math import exp
from kernels.reference.cross_entropy import kept_rows


@kernel
def row_loss(row, lse, target, eps):
    """lse - (1 - ε) row[target] - ε mean(row)"""
    loss = lse - (1 - eps) * row[target]
    return loss - eps * row_sum(row) / row.size if eps > 0 else loss


@kernel
def row_gradient(drow, row, lse, target, eps, factor):
    """drow = factor · (softmax(row) - (1 - ε) onehot(target) - ε/V); drow may be row itself"""
    spread = eps / drow.dtype.type(row.size)
    for v in range(row.size):
        drow[v] = factor * (exp(row[v] - lse) - spread)
    drow[target] -= factor * (drow.dtype.type(1) - eps)


@kernel(parallel=True)
def _cross_entropy(losses, lse, logits, targets, kept, eps):
    for n in prange(logits.shape[0]):
        top = largest(logits[n])
        lse[n] = top + math.log(sum_exp(logits[n], top))
        losses[n] = row_loss(logits[n], lse[n], targets[n], eps) if kept[n] else 0


@kernel(parallel=True)
def _cross_entropy_backward(dlogits, logits, lse, targets, kept, eps, factor):
    for n in prange(logits.shape[0]):
        if kept[n]:
            row_gradient(dlogits[n], logits[n], lse[n], targets[n], eps, factor)
        else:
            dlogits[n] = 0


def cross_entropy(logits, targets, ignore_index, label_smoothing):
    """logits (N, V); targets (N) → loss (), lse (N)"""
    kept = kept_rows(targets, ignore_index)
    losses, lse = np.empty(len(logits), logits.dtype), np.empty(len(logits), logits.dtype)
    eps = logits.dtype.type(label_smoothing)
    _cross_entropy(losses, lse, contiguous(logits), ids64(targets), kept, eps)
    return np.asarray(losses.sum() / logits.dtype.type(np.count_nonzero(kept)), dtype=logits.dtype), lse


def cross_entropy_backward(dloss, logits, lse, targets, ignore_index, label_smoothing):
    """dlogits = dloss / kept · (softmax(logits) - (1 - ε) onehot(target) - ε/V), zero in rows that do not count"""
    kept = kept_rows(targets, ignore_index)
    factor = logits.dtype.type(dloss / logits.dtype.type(np.count_nonzero(kept)))
    dlogits = np.empty(logits.shape, dtype=logits.dtype)
    arrays = (contiguous(logits), contiguous(lse), ids64(targets), kept)
    _cross_entropy_backward(dlogits, *arrays, logits.dtype.type(label_smoothing), factor)
    return dlogits
