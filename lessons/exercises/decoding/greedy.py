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

from lessons.exercises.exercise import Case, code, edit

TRACK, LESSON, LEVEL, MINUTES = "decoding", "11", 1, 10
RESULTS = ("words",)

HINTS = (
    "A loop of at most `most` turns. In each: the row of the last word, its argmax, and a test for eos.",
    "np.argmax gives the first of several equal entries, which is the smaller number.",
    "word = int(scores[word].argmax()); if word == eos: break; words.append(word).",
)

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

WRONG = {
    "eos kept": edit(
        "        if word == eos:\n            break  # the mark itself is not part of the text\n        words.append(word)",
        "        words.append(word)\n        if word == eos:\n            break",
        tell="The end mark is in the result; it is not part of the text.",
    ),
    "first kept": edit("return words", "return [first, *words]", tell="The first word is in the result; it was given."),
    "never stops": edit(
        "        if word == eos:\n            break  # the mark itself is not part of the text\n",
        "",
        tell="The end mark does not stop it.",
    ),
    "argmin": edit("argmax", "argmin", tell="The word with the lowest score is taken."),
    "last of equal ones": edit(
        "int(scores[word].argmax())",
        "int(len(scores) - 1 - scores[word][::-1].argmax())",
        tell="Of equal scores the larger number is taken; it should be the smaller.",
    ),
    "one word too many": edit("range(most)", "range(most + 1)", tell="One word more than `most` is written."),
    "one word too few": edit("range(most)", "range(most - 1)", says="expected"),
    "column instead of row": edit(
        "scores[word].argmax()",
        "scores[:, word].argmax()",
        tell="The column of the last word is searched; its row holds what may follow.",
    ),
    "always from the first": edit(
        "int(scores[word].argmax())",
        "int(scores[first].argmax())",
        tell="It always looks at the row of the first word; the last word counts.",
    ),
    "eos skipped": edit(
        "            break  # the mark itself is not part of the text",
        "            continue",
        tell="The end mark is skipped, and the text goes on: it should stop.",
    ),
    "only the example": code(
        """
def greedy(scores, first, eos, most):
    return [1]
""",
        says="does not depend on the input",
    ),
}


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
