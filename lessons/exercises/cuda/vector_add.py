"""# A first kernel: y = a + b

A CUDA kernel is the body of a loop. Thousands of threads run it at the same time, each with its own number:
`threadIdx.x` inside its block, `blockIdx.x` of the block, `blockDim.x` threads in a block. Together

    i = blockIdx.x · blockDim.x + threadIdx.x

counts all threads of the grid. The grid is as large as needed, rounded up to whole blocks of 64 threads, so the last
block usually has threads that have nothing to do: they must not touch anything.

    y[i] = a[i] + b[i]     for 0 ≤ i < n

Example: n = 3, a = [1, 2, 3], b = [10, 20, 30] give y = [11, 22, 33]; one block runs, and 61 of its threads do
nothing.

Neighbouring threads should use neighbouring numbers: a GPU fetches 128 bytes at a time, 32 numbers in float32, and a
warp of 32 threads that needs them all at once gets them in one go. The judge runs your kernel in the emulator, which
looks at every access; no GPU is needed. `real` is float.
"""

import numpy as np

from lessons.exercises.exercise import Case, Launch
from lessons.exercises.traffic import scattered

TRACK, LESSON, LEVEL, MINUTES = "cuda", "08", 1, 15
KIND = "cuda"
RESULTS = ("y",)

STUB = """
#include "common.cuh"

// y, a, b (n)
extern "C" __global__ void vector_add(real* y, const real* a, const real* b, long long n) {
    // your turn
}
"""

SOLUTION = """
#include "common.cuh"

// y, a, b (n)
extern "C" __global__ void vector_add(real* y, const real* a, const real* b, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;  // this thread's number in the grid
    if (i < n) y[i] = a[i] + b[i];  // the last block has threads to spare
}
"""

ANOTHER = """
#include "common.cuh"

// The blocks from the last to the first, and a loop that works for a grid of any size.
extern "C" __global__ void vector_add(real* y, const real* a, const real* b, long long n) {
    const long long threads = (long long)gridDim.x * blockDim.x;
    const long long block = gridDim.x - 1 - blockIdx.x;
    for (long long i = block * blockDim.x + threadIdx.x; i < n; i += threads) {
        y[i] = b[i] + a[i];
    }
}
"""


def expected(a, b):
    return a.astype(np.float64) + b


def launch(a, b):
    blocks = -(-len(a) // 64)
    return Launch((blocks,), (64,), (np.zeros_like(a), a, b, len(a)))


def demands(case, counters):
    n = len(case.arguments[0])
    if said := scattered(counters):
        return said
    if n > 64 and counters["load_lines"] > 2 * (-(-n // 32) + 1):
        return (
            f"The numbers are right, but {counters['load_lines']} loads of a line of memory are made where "
            f"{2 * -(-n // 32)} would do: is the work shared out among the threads?"
        )
    return None


def cases():
    yield Case("the example", (np.float32([1, 2, 3]), np.float32([10, 20, 30])))
    rng = np.random.default_rng(0)
    for n in (1, 64, 65, 200):
        yield Case(f"{n} numbers", tuple(rng.normal(size=n).astype(np.float32) for _ in range(2)))
