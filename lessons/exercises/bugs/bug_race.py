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
from lessons.exercises.exercise import Case, bug

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
