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

from lessons.exercises.exercise import Case, code, edit

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

HINTS = (
    "Cut the last axis in two: (B, T, C) → (B, T, H, D). In memory nothing moves.",
    "Then exchange the axes of words and heads: transpose(0, 2, 1, 3) or swapaxes(1, 2).",
    "join does the same backwards: first exchange the axes, then reshape to (B, T, H·D).",
)

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

WRONG = {
    "reshape alone": edit(
        "cut.transpose(0, 2, 1, 3)",
        "x.reshape(B, n_heads, T, C // n_heads)",
        tell="A reshape to (B, H, T, D) mixes words and heads: cut the width first, then exchange two axes.",
    ),
    "join: reshape alone": edit(
        "x.swapaxes(1, 2).reshape(B, T, H * D)",
        "x.reshape(B, T, H * D)",
        tell="In join_heads the axes of words and heads must be exchanged before the reshape.",
    ),
    "no exchange": edit(
        "cut.transpose(0, 2, 1, 3)", "cut", tell="The width is cut, but the axes of words and heads are not exchanged."
    ),
    "interleaved heads": edit(
        "cut = x.reshape(B, T, n_heads, C // n_heads)",
        "cut = x.reshape(B, T, C // n_heads, n_heads).swapaxes(2, 3)",
        tell="Head h takes every H-th column; it owns D columns side by side.",
    ),
    "heads last": edit(
        "transpose(0, 2, 1, 3)",
        "transpose(0, 1, 3, 2)",
        tell="The last two axes are exchanged; it is the axes of words and heads.",
    ),
    "reversed axes": edit("transpose(0, 2, 1, 3)", "transpose(2, 0, 1, 3)", says="shape"),
    "D and H mixed up": edit("n_heads, C // n_heads)", "C // n_heads, n_heads)", says="shape"),
    "join: heads outside": edit(
        "x.swapaxes(1, 2).reshape(B, T, H * D)",
        "x.transpose(0, 2, 3, 1).reshape(B, T, H * D)",
        tell="join_heads interleaves the heads; the D numbers of a head belong side by side.",
    ),
    "join: another shape": edit("reshape(B, T, H * D)", "reshape(B, T * H, D)", says="shape"),
    "words reversed": edit(
        "return cut.transpose(0, 2, 1, 3)", "return cut.transpose(0, 2, 1, 3)[:, :, ::-1]", says="reversed"
    ),
    "two heads only": edit("    B, T, C = x.shape\n", "    B, T, C = x.shape\n    n_heads = 2\n", says="shape"),
    "join missing": code(
        """
import numpy as np


def split_heads(x, n_heads):
    B, T, C = x.shape
    return x.reshape(B, T, n_heads, C // n_heads).transpose(0, 2, 1, 3)
""",
        says="join_heads",
    ),
}


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
