// Two threads, the same memory, no order between them. With FAULT=1 each kernel lacks what would order them.
#include "common.cuh"

#if FAULT
#define UNLESS_FAULT(statement)
#else
#define UNLESS_FAULT(statement) statement
#endif

// Each thread leaves a number for its mirror image in the block. Without the barrier, half of them read too early.
extern "C" __global__ void missing_barrier(real* y, const real* x, long long n) {
    __shared__ real tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    UNLESS_FAULT(__syncthreads());
    y[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];  // missing_barrier is found here
}

// Two sums through the same shared memory. The second barrier protects the first sum until all have read it; without it
// a fast thread writes the next sum over it.
extern "C" __global__ void unprotected_reuse(real* y, const real* x, long long n) {
    __shared__ real total[1];
    real mine = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (threadIdx.x == 0) total[0] = x[pass];  // unprotected_reuse is found here
        __syncthreads();
        mine += total[0];  // unprotected_reuse is found here
        UNLESS_FAULT(__syncthreads());
    }
    y[threadIdx.x] = mine;
}

// Each thread takes its right neighbour's number and then changes its own. Without the barrier in between, the
// neighbour may already have changed. When threads run in order it never has (the last to reach a barrier goes on
// first, so nobody reads from the last).
extern "C" __global__ void overwritten_early(real* y, const real* x, long long n) {
    __shared__ real tile[64];
    const int t = threadIdx.x, right = t < 62 ? t + 1 : t;
    tile[t] = x[t];
    __syncthreads();
    y[t] = tile[right];  // overwritten_early is found here
    UNLESS_FAULT(__syncthreads());
    tile[t] = 0;  // overwritten_early is found here
}

// A sum over a warp through shared memory. Lanes need not run in step: only __syncwarp orders their memory.
extern "C" __global__ void missing_syncwarp(real* y, const real* x, long long n) {
    __shared__ real tile[32];
    const int lane = threadIdx.x;
    tile[lane] = x[lane];
    for (int offset = 16; offset > 0; offset /= 2) {
        UNLESS_FAULT(__syncwarp());
        const real other = lane < offset ? tile[lane + offset] : (real)0;  // missing_syncwarp is found here
        UNLESS_FAULT(__syncwarp());
        if (lane < offset) tile[lane] += other;  // missing_syncwarp is found here
    }
    if (lane == 0) y[0] = tile[0];
}

// A shuffle makes lanes meet, but orders no memory: it does not replace __syncwarp.
extern "C" __global__ void shuffle_is_no_barrier(real* y, const real* x, long long n) {
    __shared__ real tile[32];
    const int lane = threadIdx.x;
    tile[lane] = x[lane];
    const real sum = warp_sum(x[lane]);
    UNLESS_FAULT(__syncwarp());
    y[lane] = tile[31 - lane] + sum;  // shuffle_is_no_barrier is found here
}

// Counts in all blocks. Without the atomic, two blocks that read the counter at the same time lose one count; as blocks
// run one after another in the emulator, the result is right all the same.
extern "C" __global__ void lost_update(unsigned long long* total, const real* x, long long n) {
    if (threadIdx.x == 0) {
#if FAULT
        total[0] += n;  // lost_update is found here
#else
        atomicAdd(&total[0], (unsigned long long)n);
#endif
    }
}
