"""# Find the bug: too good to be true

A language model trained with this attention reaches a loss near zero within minutes. When it writes on its own, it
produces nonsense. No number is NaN, every row of weights sums to 1.

Exactly one line is at fault. Mend it, and copy it, as it stood here, into `the_line`.

    word t may look at the words s ≤ t, and at none of the filler (s ≥ length)

Example: with one word the result is right; with two, the first word knows the second.
"""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.exercises.exercise import Case, bug

TRACK, LESSON, LEVEL, MINUTES = "bugs", "03", 1, 10
FUNCTION = "masked_attention"
LINE = "    causal = np.tri(T, T, 1, dtype=bool)"

STUB = '''
import numpy as np

the_line = ""  # the faulty line, as it stood in this file


def masked_attention(q, k, v, lengths):
    """q, k, v (B, T, D); lengths (B)  →  (B, T, D)"""
    B, T, D = q.shape
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(D)
    causal = np.tri(T, T, 1, dtype=bool)
    real = np.arange(T)[None, None, :] < lengths[:, None, None]
    scores = np.where(causal[None] & real, scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v
'''

MENDED = "    causal = np.tri(T, T, dtype=bool)"
SOLUTION = bug(STUB, LINE, MENDED, "the diagonal itself: a word sees itself, not the next one")
ANOTHER = SOLUTION.replace(MENDED, "    causal = np.arange(T)[:, None] >= np.arange(T)[None, :]")


def expected(q, k, v, lengths):
    tensors = (Tensor(one[:, None]) for one in (q, k, v))
    return F.attention(*tensors, is_causal=True, key_lengths=lengths).numpy()[:, 0]


def cases():
    rng = np.random.default_rng(0)
    for label, B, T, lengths in (
        ("one word: right already", 1, 1, [1]),
        ("two words", 1, 2, [2]),
        ("three words", 1, 3, [3]),
        ("filler", 2, 4, [2, 4]),
        ("larger", 3, 7, [1, 7, 5]),
    ):
        yield Case(label, (*(rng.normal(size=(B, T, 4)) for _ in range(3)), np.array(lengths)))
    big = (60 * rng.normal(size=(1, 3, 4)) for _ in range(3))
    yield Case("large scores", (*big, np.array([3])))
    yield Case("which line", (), call="the_line", expected=LINE.strip(), secret=True)
