"""# Attention in tiles

Attention needs every key and every value for every query. Fetched from global memory by each thread, they are read T
times. Here each thread has one query, and the 32 threads of a block fetch 32 keys and values *together* into shared
memory, use them, and go on to the next 32. The scores are never stored: the softmax is computed on the way
("online").

For each new score s, with `top` the largest so far, `sum` and `acc` belonging to it:

    higher = max(top, s)
    shrink = exp(top - higher),  w = exp(s - higher)
    sum = sum · shrink + w
    acc = acc · shrink + w · v          D numbers
    top = higher

At the end out = acc / sum. The scores are q · k / √D, with D = 8. Threads without a query still help to fetch, and
reach every barrier. The last tile may have fewer than 32 keys.

Block b has the queries from 32·b. q, out (T, 8); k, v (S, 8); `NEGATIVE_INFINITY` is the largest of no scores.

Example: with a single key, out is v[0] for every query, whatever the scores are.
"""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.exercises.exercise import Case, Launch
from lessons.exercises.traffic import greedy

TRACK, LESSON, LEVEL, MINUTES = "cuda", "09", 3, 45
KIND = "cuda"
RESULTS = ("out",)

STUB = """
#include "common.cuh"
#define D 8
#define TILE 32

// out, q (T, D); k, v (S, D)
extern "C" __global__ void attention(real* out, const real* q, const real* k, const real* v, long long T, long long S) {
    // your turn
}
"""

SOLUTION = """
#include "common.cuh"
#define D 8
#define TILE 32

// out, q (T, D); k, v (S, D)
extern "C" __global__ void attention(real* out, const real* q, const real* k, const real* v, long long T, long long S) {
    __shared__ real keys[TILE * D];
    __shared__ real values[TILE * D];
    const long long query = (long long)blockIdx.x * TILE + threadIdx.x;
    real mine[D], acc[D], top = NEGATIVE_INFINITY, sum = 0;
    for (int d = 0; d < D; d++) {
        mine[d] = query < T ? q[query * D + d] / sqrt((real)D) : (real)0;
        acc[d] = 0;
    }
    for (long long first = 0; first < S; first += TILE) {
        const int n = S - first < TILE ? S - first : TILE;  // keys of this tile
        for (int i = threadIdx.x; i < n * D; i += TILE) {
            keys[i] = k[first * D + i];
            values[i] = v[first * D + i];
        }
        __syncthreads();  // the tile is complete
        for (int j = 0; j < n; j++) {
            real score = 0;
            for (int d = 0; d < D; d++) score += mine[d] * keys[j * D + d];
            const real higher = larger(top, score);
            const real shrink = exp(top - higher), w = exp(score - higher);
            sum = sum * shrink + w;
            for (int d = 0; d < D; d++) acc[d] = acc[d] * shrink + w * values[j * D + d];
            top = higher;
        }
        __syncthreads();  // everybody is done with the tile: it may be overwritten
    }
    if (query < T)
        for (int d = 0; d < D; d++) out[query * D + d] = acc[d] / sum;
}
"""

ANOTHER = """
#include "common.cuh"
#define D 8
#define TILE 16

// Smaller tiles, taken from the end; two passes: the largest score first, then sums that never shrink.
extern "C" __global__ void attention(real* out, const real* q, const real* k, const real* v, long long T, long long S) {
    __shared__ real tile[2][TILE][D];
    const long long query = blockIdx.x * 32LL + threadIdx.x, safe = query < T ? query : T - 1;
    real top = NEGATIVE_INFINITY, sum = 0, mine[D], acc[D];
    for (int d = 0; d < D; d++) mine[d] = q[safe * D + d], acc[d] = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (long long first = (S - 1) / TILE * TILE; first >= 0; first -= TILE) {
            const int n = S - first < TILE ? S - first : TILE;
            __syncthreads();
            for (int i = threadIdx.x; i < n * D; i += 32) {
                tile[0][i / D][i % D] = k[first * D + i];
                if (pass == 1) tile[1][i / D][i % D] = v[first * D + i];
            }
            __syncthreads();
            for (int j = n - 1; j >= 0; j--) {
                real score = 0;
                for (int d = 0; d < D; d++) score += mine[d] * tile[0][j][d];
                score *= rsqrt((real)D);
                if (pass == 0) top = larger(top, score);
                else {
                    const real w = exp(score - top);
                    sum += w;
                    for (int d = 0; d < D; d++) acc[d] += w * tile[1][j][d];
                }
            }
        }
    }
    for (int d = 0; query < T && d < D; d++) out[query * D + d] = acc[d] / sum;
}
"""


def expected(q, k, v):
    tensors = (Tensor(one.astype(np.float64)[None, None]) for one in (q, k, v))
    return F.attention(*tensors).numpy()[0, 0]


def launch(q, k, v):
    return Launch((-(-len(q) // 32),), (32,), (np.zeros_like(q), q, k, v, len(q), len(k)))


def demands(case, counters):
    q, k, _ = case.arguments
    blocks = -(-len(q) // 32)
    return greedy(counters, 2 * blocks * 32 * 8 + 4 * blocks * k.size)  # twice what is needed


def cases():
    rng = np.random.default_rng(0)

    def numbers(*shape):
        return rng.normal(size=shape).astype(np.float32)

    for label, T, S in (
        ("the example: one key", 2, 1),
        ("two keys", 1, 2),
        ("a whole tile", 32, 32),
        ("a tile and one key", 3, 33),
        ("two blocks", 40, 50),
    ):
        yield Case(label, (numbers(T, 8), numbers(S, 8), numbers(S, 8)))
    yield Case("scores near -1000", (np.full((1, 8), 20, np.float32), -18 + numbers(3, 8), numbers(3, 8)))
