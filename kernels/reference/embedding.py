"""Rows of a table, picked by id, and the gradients brought back to the rows they came from."""

import numpy as np


def embedding(weight, ids):
    """y[n] = weight[ids[n]].   weight (V, C); ids (N) → y (N, C)"""
    return weight[ids]


def embedding_backward(dy, ids, V):
    """dweight[v] = Σ of dy[n] over the n with ids[n] = v, added in the order of n.   dy (N, C) → dweight (V, C)"""
    dweight = np.zeros((V, dy.shape[1]), dtype=dy.dtype)
    np.add.at(dweight, ids, dy)
    return dweight
