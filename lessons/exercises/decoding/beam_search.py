"""# Beam search

Greedy decoding can walk into a trap: the best first word may lead to bad second ones. Beam search keeps the K best
beginnings instead of one. At every step each of them is continued by every word, and of all continuations the K best
are kept.

Here the model is a table of log-probabilities: `log_p[a, b]` is that of word b after word a. The log-probability of a
text is the sum over its words.

    beams = [(0, [])]                                     nothing written, probability 1
    repeat n times: all (value + log_p[last word, b], words + [b]), the K best of them
    return the words and the value of the best beam

All texts have n words; there is no end mark. `first` is the word before the text. No two texts have equal values
here.

Example: log_p = log [[0, .6, .4], [.4, .3, .3], [.9, .05, .05]], first = 0, n = 2. Greedy takes 1 (0.6), then 0
(0.4): 0.24. A beam of 2 also keeps 2 (0.4), then 0 (0.9): 0.36, which wins: [2, 0].
"""

import itertools

import numpy as np

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "decoding", "13", 3, 25
RESULTS = ("words", "value")

SOLUTION = '''
import numpy as np


def beam_search(log_p, first, n_words, n_beams):
    """log_p (V, V); first: a word; n_words, n_beams ≥ 1  →  words (a list), value (a number)"""
    beams = [(0.0, [])]
    for _ in range(n_words):
        longer = []
        for value, words in beams:
            last = words[-1] if words else first
            for word in range(len(log_p)):
                longer.append((value + log_p[last, word], words + [word]))
        longer.sort(key=lambda beam: beam[0], reverse=True)
        beams = longer[:n_beams]  # of all beginnings together, not of each
    value, words = beams[0]
    return words, value
'''

ANOTHER = """
import numpy as np


def beam_search(log_p, first, n_words, n_beams):
    V = len(log_p)
    texts, values = np.full((1, 1), first), np.zeros(1)
    for _ in range(n_words):
        table = values[:, None] + log_p[texts[:, -1]]  # (K, V), all continuations at once
        order = np.argsort(table, axis=None)[::-1][:n_beams]
        values = table.reshape(-1)[order]
        texts = np.concatenate([texts[order // V], (order % V)[:, None]], axis=1)
    return texts[0, 1:], values[0]
"""


def expected(log_p, first, n_words, n_beams):
    """The beginnings as strings of words in a dictionary, cut after each step."""
    beams = {(): 0.0}
    for _ in range(n_words):
        longer = {
            (*words, word): value + log_p[(first, *words)[-1], word]
            for (words, value), word in itertools.product(beams.items(), range(len(log_p)))
        }
        beams = dict(sorted(longer.items(), key=lambda one: -one[1])[:n_beams])
    words, value = next(iter(beams.items()))
    return np.array(words), value


def cases():
    with np.errstate(divide="ignore"):
        table = np.log(np.array([[1e-9, 0.6, 0.4], [0.4, 0.3, 0.29], [0.9, 0.05, 0.04]]))
    yield Case("one word", (table, 0, 1, 1))
    yield Case("greedy: a beam of 1", (table, 0, 2, 1))
    yield Case("the example: a beam of 2", (table, 0, 2, 2))
    rng = np.random.default_rng(1)
    for V, n, K in ((4, 3, 2), (6, 5, 2), (5, 4, 30), (5, 6, 3)):
        scores = 2 * rng.normal(size=(V, V))
        yield Case(
            f"{n} words, a beam of {K}",
            (scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True)), 0, n, K),
        )
    trap = np.log(
        np.array(
            [[0.01, 0.5, 0.3, 0.19], [0.3, 0.25, 0.24, 0.21], [0.26, 0.24, 0.27, 0.23], [0.001, 0.001, 0.001, 0.997]]
        )
    )
    yield Case("the best text is missed by a beam of 2", (trap, 0, 3, 2))
