"""# Cross-entropy

How surprised is the model by the word that came? It gives a score for every word; softmax makes probabilities of
them, and the surprise is minus the logarithm of the probability of the right word. The loss is the mean over all
words that count.

    loss = mean over n of  log Σ_v exp(logits[n, v]) - logits[n, targets[n]]

Words whose target is `ignore` do not count: neither in the sum nor in the number that it is divided by. Subtract the
largest score of a row before exp; the logarithm then adds it back.

Example: two words and equal scores, logits = [[0, 0]], targets = [1]: the surprise is log 2 = 0.6931.
"""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "training", "07", 2, 15
RESULTS = ("loss",)

SOLUTION = '''
import numpy as np


def cross_entropy(logits, targets, ignore):
    """logits (N, V); targets (N) integers, some of them `ignore`  →  loss, a number"""
    counts = targets != ignore
    logits, targets = logits[counts], targets[counts]
    top = logits.max(axis=-1, keepdims=True)
    log_sum = top[:, 0] + np.log(np.exp(logits - top).sum(axis=-1))  # nothing overflows
    right = logits[np.arange(len(targets)), targets]
    return (log_sum - right).mean()  # over the words that count
'''

ANOTHER = """
import math


def cross_entropy(logits, targets, ignore):
    surprises = []
    for row, target in zip(logits, targets):
        if target != ignore:  # relative to the right word: log Σ exp(score - right)
            away = [float(score - row[target]) for score in row]
            top = max(away)
            surprises.append(top + math.log(math.fsum(math.exp(a - top) for a in away)))
    return math.fsum(surprises) / len(surprises)
"""


def expected(logits, targets, ignore):
    return F.cross_entropy(Tensor(logits), targets, ignore_index=ignore).item()


def cases():
    yield Case("the example", (np.zeros((1, 2)), np.array([1]), -1))
    rng = np.random.default_rng(0)
    yield Case("scores that differ", (np.array([[1.0, 3.0]]), np.array([0]), -1))
    yield Case("two rows", (rng.normal(size=(2, 3)), np.array([2, 0]), -1))
    yield Case("one of them ignored", (rng.normal(size=(2, 3)), np.array([-1, 1]), -1))
    yield Case("larger", (rng.normal(size=(9, 7)) * 3, np.array([0, 6, 3, 3, 5, 0, 1, 2, 3]), 3))
    yield Case("scores around 1000", (rng.normal(size=(2, 3)) + 1000, np.array([0, 1]), -1))
