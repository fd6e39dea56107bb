"""# Softmax of a row, by a block

A row is shared by the 64 threads of a block, two warps. Two numbers must be known to all of them: the largest score,
and the sum of the exponentials.

    y[n, c] = exp(x[n, c] - max) / Σ_c exp(x[n, c] - max)

Within a warp, `warp_max(value)` and `warp_sum(value)` of common.cuh give every lane the largest value or the sum.
Between the warps it goes through shared memory: one lane of each warp writes its result, `__syncthreads()` waits
until all have written, then everybody reads both. Before the same shared memory is written again, another
`__syncthreads()` must make sure that all have read.

The grid has N blocks of 64 threads: `blockIdx.x` is the row. Rows may be shorter or longer than 64.
`NEGATIVE_INFINITY` is the largest of no numbers.

Example: the row 0, 0 gives 0.5, 0.5; 62 threads have nothing to add, but must reach every barrier.
"""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.exercises.exercise import Case, Launch
from lessons.exercises.traffic import scattered

TRACK, LESSON, LEVEL, MINUTES = "cuda", "08", 2, 30
KIND = "cuda"
RESULTS = ("y",)
FORBIDDEN = ("block_max", "block_sum")

STUB = """
#include "common.cuh"

// y, x (N, C)
extern "C" __global__ void softmax_row(real* y, const real* x, long long C) {
    // your turn
}
"""

SOLUTION = """
#include "common.cuh"

// y, x (N, C)
extern "C" __global__ void softmax_row(real* y, const real* x, long long C) {
    __shared__ real partial[2];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const real* row = x + blockIdx.x * C;
    real top = NEGATIVE_INFINITY;  // of the entries of this thread, which may be none
    for (long long c = threadIdx.x; c < C; c += blockDim.x) top = larger(top, row[c]);
    top = warp_max(top);
    if (lane == 0) partial[warp] = top;
    __syncthreads();  // both warps have written
    top = larger(partial[0], partial[1]);
    __syncthreads();  // both warps have read: partial may be used again
    real sum = 0;
    for (long long c = threadIdx.x; c < C; c += blockDim.x) sum += exp(row[c] - top);
    sum = warp_sum(sum);
    if (lane == 0) partial[warp] = sum;
    __syncthreads();
    sum = partial[0] + partial[1];
    for (long long c = threadIdx.x; c < C; c += blockDim.x) y[blockIdx.x * C + c] = exp(row[c] - top) / sum;
}
"""

ANOTHER = """
#include "common.cuh"

// A tree in shared memory, one number for each thread; two arrays, so that no barrier protects the first.
extern "C" __global__ void softmax_row(real* y, const real* x, long long C) {
    __shared__ real tops[64];
    __shared__ real sums[64];
    const int t = threadIdx.x;
    const long long first = blockIdx.x * C;
    real top = NEGATIVE_INFINITY, sum = 0;
    for (long long c = t; c < C; c += 64)  // one pass: when a larger one comes, the sum so far shrinks
    {
        const real score = x[first + c], higher = larger(top, score);
        sum = sum * exp(top - higher) + exp(score - higher);
        top = higher;
    }
    tops[t] = top;
    sums[t] = sum;
    for (int half = 32; half > 0; half /= 2) {
        __syncthreads();
        if (t < half && tops[t + half] > NEGATIVE_INFINITY) {
            const real higher = larger(tops[t], tops[t + half]);
            const real own = tops[t] > NEGATIVE_INFINITY ? sums[t] * exp(tops[t] - higher) : (real)0;
            sums[t] = own + sums[t + half] * exp(tops[t + half] - higher);
            tops[t] = higher;
        }
    }
    __syncthreads();
    for (long long c = t; c < C; c += 64) y[first + c] = exp(x[first + c] - tops[0]) / sums[0];
}
"""


def expected(x):
    return F.softmax(Tensor(x.astype(np.float64))).numpy()


def launch(x):
    N, C = x.shape
    return Launch((N,), (64,), (np.zeros_like(x), x, C))


def demands(case, counters):
    return scattered(counters, 0.6) if case.arguments[0].shape[1] % 32 == 0 else None


def cases():
    rng = np.random.default_rng(0)
    yield Case("the example", (np.zeros((1, 2), np.float32),))
    for N, C in ((1, 3), (2, 40), (2, 64), (2, 65), (3, 200)):
        yield Case(f"{N} rows, {C} columns", (rng.normal(size=(N, C)).astype(np.float32) * 3,))
    yield Case("scores around 1000", (rng.normal(size=(1, 7)).astype(np.float32) + 1000,))
    yield Case("scores around -1000", (rng.normal(size=(1, 7)).astype(np.float32) - 1000,))
