"""# A sum that goes round

N machines (ranks) stand in a ring, each with an array of P numbers, and all want the sum of all arrays. Everyone cuts
its array into N parts of P / N numbers. In step t = 0, 1, 2, ... every rank r sends *one* part, number (r - t) mod N,
to the right neighbour, rank (r + 1) mod N, all at the same time. What arrives is

    added to one's own part of that number     in the first N - 1 steps
    put in its place                           in the N - 1 steps after that

Write down what all ranks have after the given number of steps. After 2 (N - 1) steps that is the sum, everywhere, and
nobody has sent more than 2 (N - 1) / N of an array.

Example: two ranks with [1, 2] and [10, 20]. In step 0 rank 0 sends its part 0, the number 1, and rank 1 its part 1, the
number 20: they then have [1, 22] and [11, 20]. In step 1 rank 0 sends part 1 (22) and rank 1 part 0 (11), which are put
in place: [11, 22] twice.
"""

import numpy as np

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "scale", "19", 2, 20
RESULTS = ("arrays",)

SOLUTION = '''
import numpy as np


def ring(arrays, steps):
    """arrays (N, P), P a multiple of N; steps from 0 to 2 (N - 1)  →  (N, P) what the ranks have then"""
    N, P = arrays.shape
    parts = arrays.reshape(N, N, P // N).copy()  # [rank, number of the part]
    rank = np.arange(N)
    for t in range(steps):
        number = (rank - t) % N  # that each rank sends
        sent = parts[rank, number]
        right = (rank + 1) % N
        if t < N - 1:
            parts[right, number] += sent
        else:
            parts[right, number] = sent
    return parts.reshape(arrays.shape)
'''

ANOTHER = """
import numpy as np


def ring(arrays, steps):
    N, P = arrays.shape
    size = P // N
    held = {(r, c): arrays[r, c * size : (c + 1) * size].tolist() for r in range(N) for c in range(N)}
    for t in range(steps):
        letters = [((r + 1) % N, (r - t) % N, held[r, (r - t) % N]) for r in range(N)]  # to whom, which, what
        for to, c, numbers in letters:
            own = held[to, c] if t < N - 1 else [0.0] * size
            held[to, c] = [a + b for a, b in zip(own, numbers)]
    return np.array([sum((held[r, c] for c in range(N)), []) for r in range(N)])
"""


def expected(arrays, steps):
    """Without a ring: part c of rank r is touched in the steps s with (r - 1 - s) mod N = c, and it is known which
    ranks are in it then."""
    N, P = arrays.shape
    result, size = arrays.copy(), P // N
    for r in range(N):
        for c in range(N):
            where = slice(c * size, (c + 1) * size)
            added = (r - 1 - c) % N
            if added < min(steps, N - 1):  # the sum of its own and the added + 1 ranks to the left
                result[r, where] = arrays[[(r - back) % N for back in range(added + 2)], where].sum(axis=0)
            again = added + N if added < N - 1 else added
            if N > 1 and again < steps:
                result[r, where] = arrays[:, where].sum(axis=0)
    return result


def cases():
    example = np.array([[1.0, 2.0], [10.0, 20.0]])
    for steps in (0, 1, 2):
        yield Case(f"the example after {steps} steps", (example, steps))
    yield Case("one rank", (np.array([[3.0, 4.0]]), 0))
    rng = np.random.default_rng(0)
    for N, P, steps in ((3, 3, 1), (3, 6, 2), (3, 6, 3), (3, 3, 4), (4, 4, 2), (4, 8, 5), (5, 10, 4), (5, 10, 8)):
        # whole numbers: sums are exact in any order
        arrays = rng.integers(-99, 99, (N, P)).astype(float)
        yield Case(f"{N} ranks, {steps} steps", (arrays, steps))
