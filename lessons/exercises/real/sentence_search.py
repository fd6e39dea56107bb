"""# Nearest sentences

A BERT gives a vector for each word of a sentence. Their mean stands for the sentence, and two sentences are compared by
the cosine of the angle between their means. In a batch short sentences are filled up: sentence b has `lengths[b]`
words, and what stands behind them is no word and must not count.

    mean[b]    = Σ_t hidden[b, t] / lengths[b]                   over t < lengths[b]
    cosine     = mean[a] · mean[b] / (|mean[a]| |mean[b]|)
    nearest[a] = the other sentence b with the largest cosine    b ≠ a

Example: three sentences of one word, [1, 0], [9, 9] and [0, 1]. The cosine of the first with the second is 0.71, with
the third 0, so the nearest to the first is the second, 1. That its vector is longer plays no part.
"""

import numpy as np

from autograd import Tensor
from lessons.exercises.exercise import Case
from minitransformer.models.base import mean_of_rows

TRACK, LESSON, LEVEL, MINUTES = "real", "16", 1, 15
RESULTS = ("mean", "nearest")

SOLUTION = '''
import numpy as np


def search(hidden, lengths):
    """hidden (B, T, C); lengths (B) integers from 1 to T  →  mean (B, C), nearest (B) integers"""
    real = np.arange(hidden.shape[1])[None, :] < lengths[:, None]  # (B, T)
    mean = np.where(real[:, :, None], hidden, 0.0).sum(axis=1) / lengths[:, None]
    unit = mean / np.linalg.norm(mean, axis=-1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -np.inf)  # nobody is its own neighbour
    return mean, cosine.argmax(axis=1)
'''

ANOTHER = """
import numpy as np


def search(hidden, lengths):
    mean = [np.mean(rows[:n], axis=0) for rows, n in zip(hidden, lengths)]

    def angle(a, b):
        return np.arccos(np.clip(a @ b / np.sqrt((a @ a) * (b @ b)), -1, 1))

    others = [[b for b in range(len(mean)) if b != a] for a in range(len(mean))]
    return np.array(mean), [min(others[a], key=lambda b: angle(mean[a], mean[b])) for a in range(len(mean))]
"""


def expected(hidden, lengths):
    """The means by the engine; the nearest as the end points on a sphere that are least apart."""
    mean = mean_of_rows(Tensor(hidden), lengths).numpy()
    ends = mean / np.sqrt((mean**2).sum(axis=-1))[:, None]
    apart = ((ends[:, None] - ends[None]) ** 2).sum(axis=-1)
    return mean, (apart + 9 * np.eye(len(ends))).argmin(axis=-1)  # points of the sphere are at most 4 apart, squared


def cases():
    yield Case("the example", (np.array([[[1.0, 0.0]], [[9.0, 9.0]], [[0.0, 1.0]]]), np.array([1, 1, 1])))
    rng = np.random.default_rng(2)
    yield Case("two sentences", (rng.normal(size=(2, 2, 3)), np.array([2, 2])))
    filler = np.array([[[1.0, 0.0], [50.0, 50.0]], [[0.0, 2.0], [1.0, 1.0]], [[1.0, 0.1], [-90.0, 90.0]]])
    yield Case("filler behind the words", (filler, np.array([1, 2, 1])))
    opposite = np.array([[[2.0, 1.0]], [[-2.0, -1.0]], [[-1.0, 3.0]]])
    yield Case("one points the other way", (opposite, np.array([1, 1, 1])))
    for B, T, C in ((5, 4, 3), (12, 7, 8)):
        hidden = rng.normal(size=(B, T, C)) * rng.uniform(0.1, 10, (B, 1, 1))
        yield Case(f"B = {B}, T = {T}, C = {C}", (hidden + 0.3, rng.integers(1, T + 1, B)))
