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
from lessons.exercises.exercise import Case, bug, edit

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

HINTS = (
    "A loss near zero on text, nonsense on its own: what does the model have during training that it lacks when writing?",
    "Print the mask for three words. How many entries of the first row are True?",
    "The third argument of np.tri moves the diagonal: 0 is the main one.",
)

MENDED = "    causal = np.tri(T, T, dtype=bool)"
SOLUTION = bug(STUB, LINE, MENDED, "the diagonal itself: a word sees itself, not the next one")
ANOTHER = SOLUTION.replace(MENDED, "    causal = np.arange(T)[:, None] >= np.arange(T)[None, :]")

WRONG = {
    "not mended": edit("np.tri(T, T, dtype=bool)", "np.tri(T, T, 1, dtype=bool)", says="two words"),
    "another line named": edit(
        f"the_line = {LINE.strip()!r}",
        'the_line = "scores = np.where(causal[None] & real, scores, -np.inf)"',
        says="That is not it",
    ),
    "no line named": edit(f"the_line = {LINE.strip()!r}", 'the_line = ""', says="That is not it"),
    "does not see itself": edit("np.tri(T, T, dtype=bool)", "np.tri(T, T, -1, dtype=bool)", says="NaN"),
    "transposed": edit(
        "np.tri(T, T, dtype=bool)", "np.tri(T, T, dtype=bool).T", tell="Now words see the later ones only."
    ),
    "no causal mask": edit("causal[None] & real", "real", tell="Now every word sees all words."),
    "no padding mask": edit("causal[None] & real", "causal[None]", says="expected"),
    "one or the other": edit(
        "causal[None] & real",
        "causal[None] | real",
        tell="A word must be both: not later, and not filler. `|` lets either do.",
    ),
    "zero for masked": edit("-np.inf)", "0.0)", tell="Masked scores are 0 now: exp(0) = 1 is not nothing."),
    "mask after the softmax": edit(
        "    scores = np.where(causal[None] & real, scores, -np.inf)\n",
        "",
        "return e / e.sum(axis=-1, keepdims=True) @ v",
        "return e / e.sum(axis=-1, keepdims=True) * (causal[None] & real) @ v",
        tell="The mask comes after the softmax now: the rows no longer sum to 1.",
    ),
    "one word less": edit(
        "< lengths[", "< lengths[", "np.tri(T, T, dtype=bool)", "np.tri(T, T, 2, dtype=bool)", says="expected"
    ),
}


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
