"""# Find the bug: whole texts are fine, words one by one are not

A model reads a text at once and predicts well. When it writes, it gets its own words one at a time, together with
`start`, the number of words that came before, and it soon repeats itself. Reading a text in one piece or word by word
should give the same vectors.

Exactly one line is at fault. Mend it, and copy it, as it stood here, into `the_line`.

    vector of word t = embedding[ids[t]] · √C + table[start + t]

Example: for start = 0 the result is right already.
"""

import numpy as np

from lessons.exercises.exercise import Case, bug
from minitransformer import positional_encoding

TRACK, LESSON, LEVEL, MINUTES = "bugs", "04", 1, 10
FUNCTION = "embed"
LINE = "    positions = np.arange(len(ids))"

STUB = '''
import numpy as np

the_line = ""  # the faulty line, as it stood in this file


def waves(positions, width):
    """positions (T)  →  (T, C)"""
    angle = positions[:, None] / 10000.0 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(len(positions), width)


def embed(ids, embedding, start):
    """ids (T); embedding (V, C), C even; start: number of words before these  →  (T, C)"""
    C = embedding.shape[1]
    positions = np.arange(len(ids))
    return embedding[ids] * np.sqrt(C) + waves(positions, C)
'''

MENDED = "    positions = np.arange(start, start + len(ids))"
SOLUTION = bug(STUB, LINE, MENDED, "these words come after `start` others")
ANOTHER = SOLUTION.replace(MENDED, "    positions = np.array([start + t for t in range(len(ids))])")


def expected(ids, embedding, start):
    C = embedding.shape[1]
    return embedding[ids] * np.sqrt(C) + positional_encoding(start + len(ids), C)[start:]


def cases():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(5, 4))
    yield Case("start = 0: right already", (np.array([3, 1, 4]), table, 0))
    yield Case("the third word alone", (np.array([4]), table, 2))
    yield Case("two words after one", (np.array([1, 4]), table, 1))
    yield Case("larger", (rng.integers(0, 5, 9), table, 40))
    yield Case("which line", (), call="the_line", expected=LINE.strip(), secret=True)
