"""# No phrase twice

Small models repeat themselves. A simple cure: forbid every word that would complete a phrase of n words (an n-gram)
which the text already has. The last n - 1 words are the beginning of such a phrase; wherever they stand earlier in
the text, the word that followed them there is forbidden now.

    forbidden = { text[i + n - 1] : text[i : i + n - 1] = the last n - 1 words }
    score of a forbidden word = -∞, the others stay as they are

For n = 1 every word of the text is forbidden. A text shorter than n forbids nothing. Return new scores: those that
were given must stay.

Example: text = [5, 1, 2, 5, 1] and n = 3. The last two words are 5, 1; they stood at the beginning too, followed by
2. So 2 is forbidden.
"""

import numpy as np

from lessons.exercises.exercise import Case
from minitransformer.decoding.constraints import forbid

TRACK, LESSON, LEVEL, MINUTES = "decoding", "13", 2, 15
RESULTS = ("scores",)

SOLUTION = '''
import numpy as np


def no_repeat(scores, text, n):
    """scores (V); text: a list of words; n ≥ 1  →  scores (V) with -inf where a phrase would come again"""
    out, text = scores.copy(), list(text)
    last = text[len(text) - (n - 1) :]  # not text[-(n - 1):], which is the whole text for n = 1
    for i in range(len(text) - n + 1):  # every place where a whole phrase stands
        if text[i : i + n - 1] == last:
            out[text[i + n - 1]] = -np.inf
    return out
'''

ANOTHER = """
import numpy as np


def no_repeat(scores, text, n):
    seen = {tuple(text[i : i + n]) for i in range(len(text) - n + 1)}
    beginning = tuple(text[len(text) - n + 1 :]) if len(text) >= n - 1 else None
    out = np.array(scores, dtype=float)
    for word in range(len(scores)):
        if beginning is not None and (*beginning, word) in seen:
            out[word] = -np.inf
    return out
"""


def expected(scores, text, n):
    out = scores.copy()
    forbid(out, text, n, None, ())
    return out


def cases():
    yield Case("one word, n = 1", (np.array([1.0, 2.0]), [1], 1))
    yield Case("two words, n = 2", (np.array([1.0, -2.0, 3.0]), [1, 2, 1], 2))
    rng = np.random.default_rng(0)
    scores = rng.normal(size=7)
    yield Case("the example", (scores, [5, 1, 2, 5, 1], 3))
    yield Case("an empty text", (scores, [], 2))
    yield Case("shorter than a phrase", (scores, [3, 3], 4))
    yield Case("the last two words are equal", (scores, [1, 3, 3], 2))
    yield Case("the same word again and again", (scores, [3, 3, 3], 2))
    yield Case("three places", (scores, [1, 2, 3, 1, 2, 4, 1, 2, 5, 6, 2, 0, 1, 2], 3))
    yield Case("larger", (rng.normal(size=5), [int(word) for word in rng.integers(0, 5, 60)], 3))
