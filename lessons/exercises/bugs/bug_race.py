"""# Find the bug: right on one core

This softmax is right on one core. On eight, some rows are wrong, and not the same ones each time. Nobody has seen it
fail twice in the same way.

Exactly one line is at fault: it stands in the wrong place. Mend it by moving it, and copy it, as it stood here, into
`the_line`.

    out[n, c] = exp(x[n, c] - max) / Σ_c exp(x[n, c] - max)

Iterations of a `prange` run at the same time. What one of them writes, no other may touch.

Example: with a single row there is only one iteration, and all is well.
"""

import numpy as np

from kernels import backend
from lessons.exercises.exercise import Case, bug, edit

TRACK, LESSON, LEVEL, MINUTES = "bugs", "10", 2, 10
KIND = "numba"
FUNCTION = "softmax_rows"
LINE = "    scratch = np.empty(C)"

STUB = '''
import numpy as np
from numba import njit, prange

the_line = ""  # the faulty line, as it stood in this file


@njit(parallel=True)
def softmax_rows(x):
    """x (N, C)  →  (N, C), the softmax of each row"""
    N, C = x.shape
    out = np.empty((N, C))
    scratch = np.empty(C)
    for n in prange(N):
        top = x[n, 0]
        for c in range(1, C):
            top = max(top, x[n, c])
        total = 0.0
        for c in range(C):
            scratch[c] = np.exp(x[n, c] - top)
            total += scratch[c]
        for c in range(C):
            out[n, c] = scratch[c] / total
    return out
'''

HINTS = (
    "The judge runs it as plain Python first and names two iterations that use the same element. Which array is it?",
    "Which names does every iteration have for itself, and which are shared by all of them?",
    "An array made inside the loop belongs to one iteration. Move the line that makes scratch.",
)

SOLUTION = (
    bug(STUB, LINE, "", "")
    .replace("\n    # \n\n", "\n")
    .replace(
        "    for n in prange(N):\n",
        "    for n in prange(N):\n        scratch = np.empty(C)  # made inside: every iteration has its own\n",
    )
)
ANOTHER = SOLUTION.replace("        scratch = np.empty(C)  # made inside: every iteration has its own\n", "").replace(
    "scratch[c]", "out[n, c]"
)

WRONG = {
    "not mended": edit(
        "        scratch = np.empty(C)  # made inside: every iteration has its own\n",
        "",
        "    out = np.empty((N, C))\n",
        "    out = np.empty((N, C))\n    scratch = np.empty(C)\n",
        says="same element",
    ),
    "another line named": edit(f"the_line = {LINE.strip()!r}", 'the_line = "total = 0.0"', says="That is not it"),
    "no line named": edit(f"the_line = {LINE.strip()!r}", 'the_line = ""', says="That is not it"),
    "total shared": edit(
        "        total = 0.0\n",
        "        scratch2 = out[0]\n        total = 0.0\n        scratch2[0] = 0.0\n",
        says="same element",
    ),
    "two scratch rows": edit(
        "        scratch = np.empty(C)  # made inside: every iteration has its own\n",
        "        scratch = both[n % 2]\n",
        "    out = np.empty((N, C))\n",
        "    out = np.empty((N, C))\n    both = np.empty((2, C))\n",
        says="same element",
    ),
    "last column lost": edit(
        "        for c in range(C):\n            out[n, c]",
        "        for c in range(C - 1):\n            out[n, c]",
        says="expected",
    ),
    "not divided": edit(
        "scratch[c] / total", "scratch[c]", tell="The division by the total was right; now it is missing."
    ),
    "largest of the first row": edit(
        "            top = max(top, x[n, c])",
        "            top = max(top, x[0, c])",
        "        top = x[n, 0]",
        "        top = x[0, 0]",
        says="overflows",
    ),
    "no largest": edit("np.exp(x[n, c] - top)", "np.exp(x[n, c])", says="overflows"),
    "total never reset": edit(
        "        total = 0.0\n",
        "",
        "    out = np.empty((N, C))\n",
        "    out = np.empty((N, C))\n    total = 0.0\n",
        tell="The total is not set back to 0 for each row.",
    ),
}


def expected(x):
    return backend("numpy").softmax(x)


def cases():
    rng = np.random.default_rng(0)
    yield Case("one row: right already", (rng.normal(size=(1, 3)),))
    yield Case("two rows", (rng.normal(size=(2, 2)),))
    yield Case("three rows", (rng.normal(size=(3, 5)),))
    yield Case("a second row around 1000", (np.array([[0.0, 1.0], [1000.0, 1001.0]]),))
    yield Case("many rows", (rng.normal(size=(500, 20)),), large=True)
    yield Case("which line", (), call="the_line", expected=LINE.strip(), secret=True)
