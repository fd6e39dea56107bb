"""Rows of a table, picked by id, and the gradients brought back to the rows they came from."""

import numpy as np

from kernels.reference import reduce


def embedding(weight, ids):
    """y[n] = weight[ids[n]].   weight (V, C); ids (N) → y (N, C)"""
    return weight[ids]


def embedding_backward(dy, ids, V):
    """dweight[v] = Σ of dy[n] over the n with ids[n] = v.   dy (N, C) → dweight (V, C)"""
    dweight = np.zeros((V, dy.shape[1]), dtype=dy.dtype)
    order = np.argsort(ids, kind="stable")
    different, starts = np.unique(ids[order], return_index=True)
    for v, rows in zip(different, np.split(order, starts)[1:], strict=True):
        dweight[v] = reduce.sum(dy[rows], (0,))
    return dweight
