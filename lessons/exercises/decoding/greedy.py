"""# Greedy decoding

A language model gives, after every beginning of a text, a score for each word that may come next. Greedy decoding
always takes the word with the highest score, adds it to the text and asks again, until the end mark comes or there is
no room left.

Here the model is a table: `scores[a, b]` is the score of word b after word a. Start from `first`; the result holds
the words after it, without the end mark `eos`.

    next = argmax of scores[last word]       equal scores: the smaller number
    stop before eos, or after `most` words

Example: scores = [[0, 1, 0], [0, 0, 1], [1, 0, 0]], first = 0, eos = 2: after 0 comes 1, after 1 comes 2, the end
mark. The result is [1].
"""

import numpy as np

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "decoding", "11", 1, 10
RESULTS = ("words",)

SOLUTION = '''
import numpy as np


def greedy(scores, first, eos, most):
    """scores (V, V); first, eos: words; most ≥ 0  →  list of words, without first and eos"""
    words, word = [], first
    for _ in range(most):
        word = int(scores[word].argmax())  # of equal scores the first
        if word == eos:
            break  # the mark itself is not part of the text
        words.append(word)
    return words
'''

ANOTHER = """
def greedy(scores, first, eos, most):
    words = [first]
    while len(words) <= most:
        row = list(scores[words[-1]])
        best = row.index(max(row))
        if best == eos:
            return words[1:]
        words.append(best)
    return words[1:]
"""


def expected(scores, first, eos, most):
    text = []
    while len(text) < most:
        row = scores[text[-1] if text else first]
        best = min(range(len(row)), key=lambda word: (-row[word], word))
        if best == eos:
            break
        text.append(best)
    return np.array(text, dtype=np.int64)


def cases():
    cycle = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    yield Case("the example", (cycle, 0, 2, 5))
    yield Case("no end mark on the way", (np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), 0, 2, 3))
    yield Case("the end at once", (cycle, 1, 2, 5))
    yield Case("equal scores", (np.zeros((3, 3)), 1, 2, 2))
    yield Case("no room", (cycle, 0, 2, 0))
    rng = np.random.default_rng(3)
    for V, most in ((4, 6), (7, 20), (20, 30)):
        yield Case(f"{V} words", (rng.normal(size=(V, V)), int(rng.integers(V - 1)), V - 1, most))
