"""# Split into heads, and join again

Several heads look at different things at once. Each has its own part of the width: C = H · D, and head h owns the
columns from h·D to (h+1)·D. For attention the heads become an axis of their own, before the words:

    split:  (B, T, C) → (B, H, T, D)       out[b, h, t, d] = x[b, t, h·D + d]
    join:   (B, H, T, D) → (B, T, C)       the way back

The same numbers, in another order: a reshape that cuts the width, then an exchange of two axes. A reshape alone would
mix words and heads, and no error would tell you.

Write both functions.

Example: x = [[[1, 2, 3, 4], [5, 6, 7, 8]]] with two heads becomes [[[[1, 2], [5, 6]], [[3, 4], [7, 8]]]].
"""

import numpy as np

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "attention", "06", 1, 10
FUNCTION = "split_heads"

STUB = '''
import numpy as np


def split_heads(x, n_heads):
    """x (B, T, C)  →  (B, H, T, D) with D = C / H"""
    raise NotImplementedError("your turn")


def join_heads(x):
    """x (B, H, T, D)  →  (B, T, C)"""
    raise NotImplementedError("your turn")
'''

SOLUTION = '''
import numpy as np


def split_heads(x, n_heads):
    """x (B, T, C)  →  (B, H, T, D) with D = C / H"""
    B, T, C = x.shape
    cut = x.reshape(B, T, n_heads, C // n_heads)  # the width alone is cut; the words stay where they are
    return cut.transpose(0, 2, 1, 3)


def join_heads(x):
    """x (B, H, T, D)  →  (B, T, C)"""
    B, H, T, D = x.shape
    return x.swapaxes(1, 2).reshape(B, T, H * D)  # the heads of a word side by side, then one axis
'''

ANOTHER = """
import numpy as np


def split_heads(x, n_heads):
    D = x.shape[2] // n_heads
    return np.stack([x[:, :, h * D : (h + 1) * D] for h in range(n_heads)], axis=1)


def join_heads(x):
    return np.concatenate([x[:, h] for h in range(x.shape[1])], axis=-1)
"""


def expected(x, n_heads):
    D = x.shape[-1] // n_heads
    out = np.empty((x.shape[0], n_heads, x.shape[1], D))
    for b, h, t, d in np.ndindex(out.shape):
        out[b, h, t, d] = x[b, t, h * D + d]
    return out


def cases():
    yield Case("the example", (np.arange(1.0, 9).reshape(1, 2, 4), 2))
    rng = np.random.default_rng(0)
    for label, B, T, H, D in (
        ("one head", 1, 2, 1, 3),
        ("three heads of one column", 1, 2, 3, 1),
        ("two sentences", 2, 3, 2, 2),
        ("four heads", 2, 5, 4, 3),
    ):
        x = rng.normal(size=(B, T, H * D))
        yield Case(label, (x, H))
        yield Case(f"join: {label}", (expected(x, H),), call="join_heads", expected=x)
