"""# When was it said?

A recogniser of speech writes words, and each word looks at the moments of the sound: `gaze[h, w, p]` is the weight that
head h of word w puts on moment p. To put a time on each word, take the mean over the heads, and choose a moment for
each word such that

    the moments rise strictly (words are spoken one after another), and
    the sum of the mean weights at the chosen moments is as large as possible.

Taking each word's brightest moment is not enough: a word may glance elsewhere. There are always at least as many
moments as words, and too many choices to try them all.

Example: one head, two words, three moments, gaze [[[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]]. Each word alone would choose 1
and 0, which does not rise. Of the choices that do, 0 and 1 give 0.4, 0 and 2 give 0.2, and 1 and 2 give 0.6: the
moments are [1, 2].
"""

import itertools

import numpy as np

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "real", "18", 3, 30
RESULTS = ("moments",)

SOLUTION = '''
import numpy as np


def align(gaze):
    """gaze (H, W, P) with P ≥ W  →  moments (W) integers, rising"""
    mean = gaze.mean(axis=0)
    W, P = mean.shape
    best = np.zeros(P)  # of the words so far: the largest sum, if the next moment is p or later
    choice = np.zeros((W, P), dtype=int)  # the moment of word w in it
    for w in range(W):
        ending = best + mean[w]  # word w exactly at p, the others before
        ending[:w] = -np.inf  # no room for the words before it
        choice[w] = [np.argmax(ending[: p + 1]) for p in range(P)]
        best = np.concatenate([[-np.inf], np.maximum.accumulate(ending)[:-1]])
    moments, last = [], P - 1
    for w in reversed(range(W)):  # back from the last word, each before the one after it
        moments.append(choice[w, last])
        last = moments[-1] - 1
    return moments[::-1]
'''

ANOTHER = """
from functools import cache


def align(gaze):
    H, W, P = gaze.shape
    mean = (gaze.sum(axis=0) / H).tolist()

    @cache
    def rest(w, p):  # the best sum and moments of the words from w on, at moments from p on
        if w == W:
            return 0.0, ()
        if P - p < W - w:
            return float("-inf"), ()
        total, moments = rest(w + 1, p + 1)
        return max((mean[w][p] + total, (p, *moments)), rest(w, p + 1), key=lambda found: found[0])

    return list(rest(0, 0)[1])
"""


def expected(gaze):
    """By trying all choices."""
    mean = np.mean(gaze, axis=0)
    words = range(mean.shape[0])
    choices = itertools.combinations(range(mean.shape[1]), mean.shape[0])
    return np.array(max(choices, key=lambda moments: sum(mean[w, moments[w]] for w in words)))


def cases():
    yield Case("the example", (np.array([[[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]]),))
    yield Case("a glance that costs little", (np.array([[[0.3, 0.69, 0.01], [0.69, 0.3, 0.01]]]),))
    rng = np.random.default_rng(3)
    for H, W, P in ((1, 1, 4), (1, 3, 3), (2, 2, 5), (1, 4, 9), (3, 5, 12)):
        gaze = rng.exponential(size=(H, W, P))
        yield Case(f"H = {H}, W = {W}, P = {P}", (gaze / gaze.sum(axis=-1, keepdims=True),))
    # too long to try all choices: every word looks most at its own moment, and these rise
    moments = np.sort(rng.choice(150, 20, replace=False))
    gaze = rng.uniform(0, 0.4, (2, 20, 150))
    gaze[:, np.arange(20), moments] = 0.5
    yield Case("twenty words, 150 moments", (gaze,), expected=moments)
