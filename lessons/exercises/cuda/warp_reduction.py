"""# A sum by shuffles

The 32 threads of a warp can read each other's variables: `__shfl_xor_sync(ALL_LANES, value, offset)` gives every lane
the value of the lane whose number differs in the bits of `offset`. Five such exchanges, with offsets 16, 8, 4, 2, 1,
and every lane has the sum of all 32. No memory, no barrier.

    out[n] = Σ_c x[n, c]          x (N, C), one warp of 32 threads for each row

A row may be longer than 32: first each lane adds up the entries lane, lane + 32, lane + 64, ... in a variable of its
own. At the end one lane writes the result. All 32 lanes must take part in every exchange.

The grid has N blocks of 32 threads: `blockIdx.x` is the row, `threadIdx.x` the lane. From common.cuh you have `real`,
`WARP` (32) and `ALL_LANES`; its warp_sum is what you are to write.

Example: a row of 32 ones: after the exchange with offset 16 every lane has 2, then 4, 8, 16, and at last 32.
"""

import numpy as np

from lessons.exercises.exercise import Case, Launch
from lessons.exercises.traffic import scattered

TRACK, LESSON, LEVEL, MINUTES = "cuda", "10", 2, 20
KIND = "cuda"
RESULTS = ("out",)
FORBIDDEN = ("warp_sum", "block_sum")

STUB = """
#include "common.cuh"

// out (N), x (N, C)
extern "C" __global__ void row_sums(real* out, const real* x, long long C) {
    // your turn
}
"""

SOLUTION = """
#include "common.cuh"

// out (N), x (N, C)
extern "C" __global__ void row_sums(real* out, const real* x, long long C) {
    const real* row = x + blockIdx.x * C;
    real value = 0;
    for (long long c = threadIdx.x; c < C; c += WARP) value += row[c];  // neighbouring lanes, neighbouring numbers
    for (int offset = WARP / 2; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL_LANES, value, offset);  // all lanes, also those that added up nothing
    if (threadIdx.x == 0) out[blockIdx.x] = value;
}
"""

ANOTHER = """
#include "common.cuh"

// Downwards instead of across: only lane 0 has the whole sum at the end. The row is read from its end.
extern "C" __global__ void row_sums(real* out, const real* x, long long C) {
    const int lane = threadIdx.x;
    real value = 0;
    for (long long first = (C - 1) / WARP * WARP; first >= 0; first -= WARP)
        if (first + lane < C) value += x[blockIdx.x * C + first + lane];
    for (int offset = 1; offset < WARP; offset *= 2) value += __shfl_down_sync(ALL_LANES, value, offset);
    if (lane == 0) out[blockIdx.x] = value;
}
"""


def expected(x):
    return x.astype(np.float64).sum(axis=1)


def launch(x):
    N, C = x.shape
    return Launch((N,), (32,), (np.zeros(N, np.float32), x, C))


def demands(case, counters):
    N, C = case.arguments[0].shape
    if C >= 64 and counters["load_lines"] > N * (C // 32 + 2) * 2:
        return (
            f"The numbers are right, but {counters['load_lines']} times a line of memory is fetched where some "
            f"{N * -(-C // 32)} would do: do the lanes read one after another, or far from each other (most at "
            f"{counters['uncoalesced_at'] or 'the loop over the row'})?"
        )
    if not counters["shuffles"]:
        return "The numbers are right, but no lane ever asks another: the task is to do it with shuffles."
    return scattered(counters, 0.6) if C % 32 == 0 else None


def cases():
    rng = np.random.default_rng(0)
    yield Case("the example: 32 ones", (np.ones((1, 32), np.float32),))
    for N, C in ((1, 1), (1, 5), (2, 32), (2, 33), (3, 100), (2, 256)):
        yield Case(f"{N} rows, {C} columns", (rng.normal(size=(N, C)).astype(np.float32),))
