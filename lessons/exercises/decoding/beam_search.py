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

from lessons.exercises.exercise import Case, code, edit

TRACK, LESSON, LEVEL, MINUTES = "decoding", "13", 3, 25
RESULTS = ("words", "value")

HINTS = (
    "Keep a list of pairs (value, words). One step makes a longer list of all continuations.",
    "Sort the continuations by value, the largest first, and cut the list after n_beams.",
    "last = words[-1] if words else first; continuations.append((value + log_p[last, b], words + [b])) for every b.",
)

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

WRONG = {
    "greedy": edit("longer[:n_beams]", "longer[:1]", tell="Only one beginning is kept: that is greedy decoding."),
    "keeps the worst": edit(
        ", reverse=True", "", tell="The least likely beginnings are kept: the sort runs the wrong way."
    ),
    "last step only": edit("value + log_p[last, word]", "log_p[last, word]", says="expected"),
    "probabilities added": edit("value + log_p[last, word]", "value + np.exp(log_p[last, word])", says="expected"),
    "K for each beginning": edit(
        "            for word in range(len(log_p)):\n                longer",
        "            for word in np.argsort(log_p[last])[::-1][:1]:\n                longer",
        says="expected",
    ),
    "always after the first": edit(
        "words[-1] if words else first",
        "first",
        tell="Every word is scored after `first`; it comes after the last word of its beginning.",
    ),
    "one word too many": edit("range(n_words)", "range(n_words + 1)", says="shape"),
    "one word too few": edit("range(n_words)", "range(n_words - 1)", says="shape"),
    "beam too wide": edit("longer[:n_beams]", "longer[: n_beams + 1]", tell="One beginning more than n_beams is kept."),
    "second best": edit("beams[0]", "beams[-1]", says="expected"),
    "transposed": edit(
        "log_p[last, word]", "log_p[word, last]", tell="log_p is read the wrong way round: the row is the word before."
    ),
    "mean": edit(
        "return words, value",
        "return words, value / n_words",
        tell="The value is divided by the length; it is the plain sum.",
    ),
    "results swapped": edit("return words, value", "return value, words", says="expected"),
    "exhaustive": code(
        """
import itertools

import numpy as np


def beam_search(log_p, first, n_words, n_beams):
    best, found = -np.inf, None
    for words in itertools.product(range(len(log_p)), repeat=n_words):
        value = sum(log_p[a, b] for a, b in zip((first, *words), words))
        if value > best:
            best, found = value, words
    return list(found), best
""",
        tell="This is the best of all texts; a beam keeps n_beams beginnings only, and may miss it.",
    ),
}


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
    for label, V, n, K in (
        ("three words", 4, 3, 2),
        ("a narrow beam", 6, 5, 2),
        ("a wide beam", 5, 4, 30),
        ("longer", 5, 6, 3),
    ):
        scores = 2 * rng.normal(size=(V, V))
        yield Case(label, (scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True)), 0, n, K))
    trap = np.log(
        np.array(
            [[0.01, 0.5, 0.3, 0.19], [0.3, 0.25, 0.24, 0.21], [0.26, 0.24, 0.27, 0.23], [0.001, 0.001, 0.001, 0.997]]
        )
    )
    yield Case("the best text is missed by a beam of 2", (trap, 0, 3, 2))
