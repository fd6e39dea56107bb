"""# Find the bug: a layer that forgets what it has read

A transformer of these layers learns single words well and never learns anything that depends on two words. The
attention inside was checked: it is right. Yet a change in one word moves the others hardly at all, layer after layer.

Exactly one line is at fault. Mend it, and copy it, as it stood here, into `the_line`.

    h = x + attention(norm(x))
    out = h + feed_forward(norm(h))

Every branch adds to what came before; nothing is taken away.

Example: with all weights of the feed-forward branch zero, the result must be h, what attention has read.
"""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.exercises.exercise import Case, bug

TRACK, LESSON, LEVEL, MINUTES = "bugs", "01", 1, 10
FUNCTION = "layer"
LINE = "    return x + np.maximum(norm(h) @ w1.T, 0) @ w2.T"

STUB = '''
import numpy as np

the_line = ""  # the faulty line, as it stood in this file


def norm(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


def attention(x):
    """Queries, keys and values are the words themselves.   (T, C)  →  (T, C)"""
    scores = x @ x.T / np.sqrt(x.shape[-1])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ x


def layer(x, w1, w2):
    """x (T, C); w1 (F, C); w2 (C, F)  →  (T, C)"""
    h = x + attention(norm(x))
    return x + np.maximum(norm(h) @ w1.T, 0) @ w2.T
'''

MENDED = "    return h + np.maximum(norm(h) @ w1.T, 0) @ w2.T"
SOLUTION = bug(STUB, LINE, MENDED, "h, not x: what attention has read stays in the stream")
ANOTHER = SOLUTION.replace(
    MENDED, "    hidden = norm(h) @ w1.T\n    return x + (hidden * (hidden > 0)) @ w2.T + attention(norm(x))"
)


def expected(x, w1, w2):
    def normed(one):
        C = one.shape[-1]
        return F.layer_norm(one, Tensor(np.ones(C)), Tensor(np.zeros(C)))

    start = Tensor(x)
    n = Tensor(normed(start).numpy()[None, None])
    h = start + Tensor(F.attention(n, n, n).numpy()[0, 0])
    return (h + F.linear(F.relu(F.linear(normed(h), Tensor(w1))), Tensor(w2))).numpy()


def cases():
    rng = np.random.default_rng(0)
    yield Case("without feed-forward: the example", (rng.normal(size=(2, 2)), np.zeros((1, 2)), np.zeros((2, 1))))
    for label, T, C, width in (("two words", 2, 3, 2), ("larger", 5, 4, 7)):
        yield Case(label, (rng.normal(size=(T, C)), rng.normal(size=(width, C)), rng.normal(size=(C, width))))
    yield Case("which line", (), call="the_line", expected=LINE.strip(), secret=True)
