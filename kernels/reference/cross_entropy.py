"""The mean cross-entropy of rows of logits against target ids; rows whose target is ignore_index do not count.

With label smoothing ε the target distribution is (1 - ε) on the target and ε/V spread over all V words:
    loss_n = lse_n - (1 - ε) logits[n, target] - ε mean_v logits[n, v],   lse_n = log Σ_v exp(logits[n, v])
"""

import numpy as np

from kernels.reference import reduce


def kept_rows(targets, ignore_index):
    """True for the rows that count."""
    return np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index


def cross_entropy(logits, targets, ignore_index, label_smoothing):
    """logits (N, V); targets (N) → loss (), lse (N)"""
    kept = kept_rows(targets, ignore_index)
    eps = logits.dtype.type(label_smoothing)
    top = logits.max(axis=1)
    lse = top + np.log(reduce.sum(np.exp(logits - top[:, None]), (1,)))
    chosen = logits[np.arange(len(targets)), np.where(kept, targets, 0)]
    losses = lse - (1 - eps) * chosen
    if eps > 0:  # a logit of -inf is allowed without smoothing, and 0 · -inf would be NaN
        losses = losses - eps * reduce.sum(logits, (1,)) / logits.shape[1]
    return np.asarray(losses[kept].mean(), dtype=logits.dtype), lse


def cross_entropy_backward(dloss, logits, lse, targets, ignore_index, label_smoothing):
    """dlogits = dloss / kept · (softmax(logits) - (1 - ε) onehot(target) - ε/V), zero in rows that do not count"""
    kept = kept_rows(targets, ignore_index)
    eps = logits.dtype.type(label_smoothing)
    dlogits = np.exp(logits - lse[:, None]) - eps / logits.shape[1]
    dlogits[np.arange(len(targets)), np.where(kept, targets, 0)] -= 1 - eps
    dlogits[~kept] = 0
    return dlogits * (dloss / logits.dtype.type(np.count_nonzero(kept)))
