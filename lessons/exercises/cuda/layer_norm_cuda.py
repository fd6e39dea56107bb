"""# Layer norm, one warp for each row

Every row gets mean 0 and variance 1, then each column its weight and bias.

    mean = Σ x / C,   var = Σ (x - mean)² / C
    y = (x - mean) / sqrt(var + eps) · weight + bias

A warp of 32 threads takes a row; `warp_sum(value)` of common.cuh gives every lane the sum over the warp. A block has
64 threads, two warps, so block b has the rows 2b and 2b + 1. If N is odd, the last warp has no row.

Subtract the mean *before* squaring. The shorter formula, mean of squares minus square of the mean, subtracts two
large numbers that are nearly equal: in float32 nothing is left of a small variance.

Example: the row -1, 1 with weight 1, 1 and bias 0, 0 gives -1, 1 (nearly, because of eps = 1e-5).
"""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.exercises.exercise import Case, Launch
from lessons.exercises.traffic import scattered

TRACK, LESSON, LEVEL, MINUTES = "cuda", "08", 2, 25
KIND = "cuda"
RESULTS = ("y",)

STUB = """
#include "common.cuh"

// y, x (N, C); weight, bias (C)
extern "C" __global__ void layer_norm(real* y, const real* x, const real* weight, const real* bias, long long N,
                                      long long C, real eps) {
    // your turn
}
"""

SOLUTION = """
#include "common.cuh"

// y, x (N, C); weight, bias (C)
extern "C" __global__ void layer_norm(real* y, const real* x, const real* weight, const real* bias, long long N,
                                      long long C, real eps) {
    const int lane = threadIdx.x % WARP;
    const long long row = 2LL * blockIdx.x + threadIdx.x / WARP;
    if (row >= N) return;  // the whole warp leaves together: nobody waits for it
    const real* in = x + row * C;
    real sum = 0;
    for (long long c = lane; c < C; c += WARP) sum += in[c];
    const real mean = warp_sum(sum) / C;
    real squares = 0;
    for (long long c = lane; c < C; c += WARP) squares += (in[c] - mean) * (in[c] - mean);  // subtract, then square
    const real rstd = 1 / sqrt(warp_sum(squares) / C + eps);
    for (long long c = lane; c < C; c += WARP) y[row * C + c] = (in[c] - mean) * rstd * weight[c] + bias[c];
}
"""

ANOTHER = """
#include "common.cuh"

// Welford: mean and squares in one pass, then the lanes' results are joined pair by pair.
extern "C" __global__ void layer_norm(real* y, const real* x, const real* weight, const real* bias, long long N,
                                      long long C, real eps) {
    const int lane = threadIdx.x & 31;
    const long long row = (blockIdx.x * 64LL + threadIdx.x) / 32;
    if (row < N) {
        real count = 0, mean = 0, squares = 0;
        for (long long c = lane; c < C; c += 32) {
            const real value = x[row * C + c], away = value - mean;
            count += 1;
            mean += away / count;
            squares += away * (value - mean);
        }
        for (int offset = 16; offset > 0; offset /= 2) {
            const real n = __shfl_xor_sync(ALL_LANES, count, offset), m = __shfl_xor_sync(ALL_LANES, mean, offset);
            const real s = __shfl_xor_sync(ALL_LANES, squares, offset), both = count + n;
            if (both > 0) {
                const real away = m - mean, joined = (count * mean + n * m) / both;
                squares += s + away * away * count * n / both;
                mean = joined;
                count = both;
            }
        }
        const real scale = rsqrt(squares / C + eps);
        for (long long c = lane; c < C; c += 32)
            y[row * C + c] = bias[c] + weight[c] * ((x[row * C + c] - mean) * scale);
    }
}
"""


def expected(x, weight, bias):
    return F.layer_norm(*(Tensor(one.astype(np.float64)) for one in (x, weight, bias))).numpy()


def launch(x, weight, bias):
    N, C = x.shape
    return Launch((-(-N // 2),), (64,), (np.zeros_like(x), x, weight, bias, N, C, 1e-5))


def demands(case, counters):
    return scattered(counters, 0.9) if case.arguments[0].shape[1] % 64 == 0 else None


def cases():
    rng = np.random.default_rng(0)
    yield Case("the example", (np.float32([[-1, 1]]), np.ones(2, np.float32), np.zeros(2, np.float32)))

    def numbers(*shape):
        return rng.normal(size=shape).astype(np.float32)

    for N, C in ((2, 3), (1, 5), (3, 33), (2, 128)):
        yield Case(f"{N} rows, {C} columns", (numbers(N, C), numbers(C), numbers(C)))
    yield Case("a small variance", (numbers(2, 8) * np.float32(1e-3), numbers(8), numbers(8)))
    yield Case("numbers around 1000", (1000 + np.round(numbers(2, 8) * 64) / 1024, numbers(8), numbers(8)))
