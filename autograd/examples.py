"""A function and inputs for each derivative rule that has no kernel of its own, to check it on.

Rules with a kernel are checked on kernels/samples.py."""

from collections.abc import Callable

import numpy as np

import autograd.functional as F
from autograd.tensor import Tensor

MASK = np.array([[True, False, True], [False, True, False]])


def _leaf(*shape):
    return Tensor(np.random.default_rng(len(shape)).standard_normal(shape), requires_grad=True)


EXAMPLES: dict[str, Callable[[], tuple[Callable, tuple]]] = {
    "Where": lambda: (lambda a, b: F.where(MASK, a, b), (_leaf(2, 3), _leaf(3))),
    "Reshape": lambda: (lambda x: x.reshape(3, 2) * Tensor(np.arange(6.0).reshape(3, 2)), (_leaf(2, 3),)),
    "Transpose": lambda: (lambda x: x.transpose(1, 2, 0), (_leaf(2, 3, 4),)),
    "Expand": lambda: (lambda x: x.expand(4, 2, 3), (_leaf(2, 1),)),
    "Index": lambda: (lambda x: (x[1:, ::2], x[[0, 1, 1]], x[:, [2, 0]]), (_leaf(2, 3),)),
    "Heads": lambda: (lambda x: (F.heads(x, 0, 1, 2), F.heads(x, 1, 3, 2)), (_leaf(2, 3, 6),)),
    "RowsOfHeads": lambda: (F.joined_heads, (_leaf(2, 2, 3, 2),)),
    "Clone": lambda: (lambda x: x.clone() * x, (_leaf(2, 3),)),
    "Concatenate": lambda: (lambda a, b: F.concatenate([a, b, a], axis=1), (_leaf(2, 3), _leaf(2, 2))),
}
