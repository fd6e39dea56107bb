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

from lessons.exercises.exercise import Case, code, edit
from minitransformer.decoding.constraints import forbid

TRACK, LESSON, LEVEL, MINUTES = "decoding", "13", 2, 15
RESULTS = ("scores",)

HINTS = (
    "The last n - 1 words: text[len(text) - (n - 1):]. For n = 1 that is an empty list, and it stands everywhere.",
    "Go through all places i where a phrase of n words fits: range(len(text) - n + 1).",
    "if text[i : i + n - 1] == last: out[text[i + n - 1]] = -np.inf, on a copy of the scores.",
)

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

WRONG = {
    "every word of the text": edit(
        "if text[i : i + n - 1] == last:",
        "if True:",
        tell="Words are forbidden whatever stood before them; only those after the same n - 1 words are.",
    ),
    "whole text for n = 1": edit(
        "text[len(text) - (n - 1) :]",
        "text[-(n - 1) :]",
        tell="For n = 1 nothing is forbidden: text[-0:] is the whole text, not an empty list.",
    ),
    "n for n - 1": edit("text[len(text) - (n - 1) :]", "text[len(text) - n :]", says="expected"),
    "first match only": edit(
        "            out[text[i + n - 1]] = -np.inf",
        "            out[text[i + n - 1]] = -np.inf\n            break",
        tell="Only the first place is found; the phrase may stand in several, with different words after it.",
    ),
    "the word before": edit("out[text[i + n - 1]]", "out[text[i + n - 2]]", says="expected"),
    "last place left out": edit(
        "range(len(text) - n + 1)",
        "range(len(text) - n)",
        tell="The last place where a phrase stands is left out: off by one.",
    ),
    "one place too many": edit("range(len(text) - n + 1)", "range(len(text) - n + 2)", says="IndexError"),
    "zero for forbidden": edit(
        "-np.inf", "0.0", tell="Forbidden words get the score 0, which may be the highest; it must be minus infinity."
    ),
    "zero probability elsewhere": edit(
        "    return out", "    return np.where(np.isinf(out), -np.inf, 0.0)", says="expected"
    ),
    "in place": edit("scores.copy()", "scores", says="writes to its inputs"),
    "nothing forbidden": code(
        """
def no_repeat(scores, text, n):
    return scores.copy()
""",
        tell="Nothing is forbidden.",
    ),
    "last word only": edit(
        "if text[i : i + n - 1] == last:",
        "if text[i + n - 2] == text[-1]:",
        tell="Only the last word is compared; all n - 1 last words must agree.",
    ),
    "the engine's own": code(
        """
from minitransformer.decoding.constraints import forbid


def no_repeat(scores, text, n):
    out = scores.copy()
    forbid(out, text, n, None, ())
    return out
""",
        says="not to call",
    ),
}


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
