"""# Label smoothing

Cross-entropy is only content when the right word has all the probability, so scores grow without end. Label smoothing
asks for a little less: the right word should have 1 - eps, and eps is spread evenly over all V words (the right one
among them).

    target[v] = (1 - eps) · [v = right] + eps / V
    loss = mean over n of  - Σ_v target[v] log p[n, v],     p = softmax(logits)

So loss = (1 - eps) · cross-entropy + eps · (mean over v of -log p[v]).

Example: equal scores: log p is -log V for all words, and the loss is log V whatever eps is. With eps = 0 it is plain
cross-entropy.
"""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "training", "13", 2, 15
RESULTS = ("loss",)

SOLUTION = '''
import numpy as np


def smoothed_loss(logits, targets, eps):
    """logits (N, V); targets (N); 0 ≤ eps < 1  →  loss, a number"""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    right = log_p[np.arange(len(targets)), targets]
    spread = log_p.mean(axis=-1)  # eps / V for each of the V words
    return -((1 - eps) * right + eps * spread).mean()
'''

ANOTHER = """
import numpy as np


def smoothed_loss(logits, targets, eps):
    N, V = logits.shape
    wanted = np.full((N, V), eps / V)  # the targets written out
    for n in range(N):
        wanted[n, targets[n]] += 1 - eps
    top = np.max(logits, axis=1)
    log_sum = top + np.log(np.sum(np.exp(logits - top[:, None]), axis=1))
    return np.mean(log_sum - np.sum(wanted * logits, axis=1))
"""


def expected(logits, targets, eps):
    log_p = F.log_softmax(Tensor(logits)).numpy()
    wanted = np.full(logits.shape, eps / logits.shape[1])
    wanted[np.arange(len(targets)), targets] += 1 - eps
    return -(wanted * log_p).sum(axis=1).mean()


def cases():
    yield Case("the example: equal scores", (np.zeros((1, 3)), np.array([1]), 0.1))
    yield Case("no smoothing", (np.array([[1.0, 3.0, 0.0]]), np.array([0]), 0.0))
    yield Case("one row", (np.array([[1.0, 3.0, 0.0]]), np.array([0]), 0.2))
    rng = np.random.default_rng(0)
    yield Case("three rows", (rng.normal(size=(3, 4)), np.array([2, 0, 3]), 0.1))
    yield Case("scores around 1000", (rng.normal(size=(2, 3)) + 1000, np.array([0, 1]), 0.1))
    yield Case("larger", (rng.normal(size=(9, 11)) * 3, rng.integers(0, 11, 9), 0.3))
