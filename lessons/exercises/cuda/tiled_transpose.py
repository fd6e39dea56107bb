"""# A transpose without bank conflicts

Read a matrix along its rows and write along its columns: one of the two is slow, because neighbouring threads then
use numbers that lie far apart. The way out is a tile in shared memory: read a square of 32 x 32 along its rows, wait,
write it along the rows of the *result*.

    y[c, r] = x[r, c]          x (R, C), y (C, R)

But reading a column of the tile is slow as well: shared memory has 32 banks, number i lies in bank i mod 32, and
lanes that want different numbers of one bank wait for each other. A tile with rows of 33 numbers puts the entries of
a column into 32 different banks.

The blocks have 32 x 8 threads: each thread handles four entries of the tile, 8 rows apart. Block (bx, by) has the
columns from 32·bx and the rows from 32·by of x. At the edges a part of the tile does not exist.

Example: x = [[1, 2, 3]] (one row) becomes y = [[1], [2], [3]].
"""

import numpy as np

from lessons.exercises.exercise import Case, Launch
from lessons.exercises.traffic import conflicting, scattered

TRACK, LESSON, LEVEL, MINUTES = "cuda", "09", 3, 30
KIND = "cuda"
RESULTS = ("y",)

STUB = """
#include "common.cuh"

// y (C, R), x (R, C)
extern "C" __global__ void transpose(real* y, const real* x, long long R, long long C) {
    // your turn: threadIdx.x is 0 ... 31, threadIdx.y is 0 ... 7
}
"""

SOLUTION = """
#include "common.cuh"

// y (C, R), x (R, C)
extern "C" __global__ void transpose(real* y, const real* x, long long R, long long C) {
    __shared__ real tile[32][33];  // 33: the entries of a column lie in 32 different banks
    const long long r0 = blockIdx.y * 32LL, c0 = blockIdx.x * 32LL;
    for (int j = threadIdx.y; j < 32; j += 8)
        if (r0 + j < R && c0 + threadIdx.x < C) tile[j][threadIdx.x] = x[(r0 + j) * C + c0 + threadIdx.x];
    __syncthreads();  // outside of every branch: all threads come here
    for (int j = threadIdx.y; j < 32; j += 8)
        if (c0 + j < C && r0 + threadIdx.x < R) y[(c0 + j) * R + r0 + threadIdx.x] = tile[threadIdx.x][j];
}
"""

ANOTHER = """
#include "common.cuh"

// The other way of avoiding conflicts: no padding, but the columns of row r are rotated by r places.
extern "C" __global__ void transpose(real* y, const real* x, long long R, long long C) {
    __shared__ real tile[32 * 32];
    const int lane = threadIdx.x;
    for (int j = threadIdx.y + 24; j >= 0; j -= 8) {
        const long long r = blockIdx.y * 32LL + j, c = blockIdx.x * 32LL + lane;
        if (r < R && c < C) tile[j * 32 + (lane + j) % 32] = x[r * C + c];
    }
    __syncthreads();
    for (int j = threadIdx.y + 24; j >= 0; j -= 8) {
        const long long r = blockIdx.y * 32LL + lane, c = blockIdx.x * 32LL + j;
        if (r < R && c < C) y[c * R + r] = tile[lane * 32 + (lane + j) % 32];
    }
}
"""


def expected(x):
    return x.T.astype(np.float64)


def launch(x):
    R, C = x.shape
    return Launch((-(-C // 32), -(-R // 32)), (32, 8), (np.zeros((C, R), np.float32), x, R, C))


def demands(case, counters):
    R, C = case.arguments[0].shape
    if R % 32 == 0 and C % 32 == 0:
        return scattered(counters) or conflicting(counters)
    return None


def cases():
    rng = np.random.default_rng(0)
    yield Case("the example", (np.float32([[1, 2, 3]]),))
    for R, C in ((2, 3), (32, 32), (33, 5), (64, 96), (40, 70)):
        yield Case(f"{R} rows, {C} columns", (rng.normal(size=(R, C)).astype(np.float32),))
