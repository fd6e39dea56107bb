"""# Find the bug: the more heads, the vaguer

This attention with heads runs, its shapes are right, and with one head its numbers are right too. But somebody
noticed that every further head makes the weights more uniform: with eight heads, each word looks at all others nearly
alike.

Exactly one line is at fault. Mend it, and copy it, as it stood here, into `the_line`.

    weights = softmax(q kᵀ / √D)        D is the width of one head

Example: with one head the result is right already; with two it is not.
"""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.exercises.exercise import Case, bug

TRACK, LESSON, LEVEL, MINUTES = "bugs", "02", 1, 10
FUNCTION = "heads_attention"
LINE = "    scores = q @ k.swapaxes(-1, -2) / np.sqrt(C)"

STUB = '''
import numpy as np

the_line = ""  # the faulty line, as it stood in this file


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def heads_attention(x, wq, wk, wv, n_heads):
    """x (T, C); wq, wk, wv (C, C)  →  (T, C)"""
    T, C = x.shape
    D = C // n_heads

    def split(y):
        return y.reshape(T, n_heads, D).swapaxes(0, 1)  # (H, T, D)

    q, k, v = split(x @ wq.T), split(x @ wk.T), split(x @ wv.T)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(C)
    out = softmax(scores) @ v
    return out.swapaxes(0, 1).reshape(T, C)
'''

MENDED = "    scores = q @ k.swapaxes(-1, -2) / np.sqrt(D)"
SOLUTION = bug(STUB, LINE, MENDED, "the width of one head: C is the width of all of them")
ANOTHER = SOLUTION.replace(MENDED, "    scores = np.einsum('htd,hsd->hts', q, k) * D**-0.5")


def expected(x, wq, wk, wv, n_heads):
    T, C = x.shape

    def split(w):
        return Tensor((x @ w.T).reshape(1, T, n_heads, C // n_heads).swapaxes(1, 2))

    return F.attention(split(wq), split(wk), split(wv)).numpy().swapaxes(1, 2).reshape(T, C)


def cases():
    rng = np.random.default_rng(0)
    for label, T, C, H in (
        ("one head: right already", 2, 2, 1),
        ("two heads", 2, 4, 2),
        ("three heads", 4, 6, 3),
        ("eight heads", 5, 16, 8),
    ):
        yield Case(label, (*(rng.normal(size=shape) for shape in ((T, C), (C, C), (C, C), (C, C))), H))
    big = (40 * rng.normal(size=(2, 4)), *(5 * rng.normal(size=(3, 4, 4))))
    yield Case("large scores", (*big, 2))
    yield Case("which line", (), call="the_line", expected=LINE.strip(), secret=True)
