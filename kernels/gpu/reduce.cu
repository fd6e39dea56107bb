// Reductions over the last axis of x (O, M), in steps: a row is cut into blocks of BLOCK elements, one warp reduces a
// block, and the launcher calls the kernel again on the results until one a row is left. The order of the additions
// depends on M alone, and float32 keeps its digits: a lane adds BLOCK / 32 numbers one after another, then 5 exchanges
// add the lanes. Reads O M, writes O M / BLOCK, O M flops; neighbouring lanes read neighbouring elements.
#include "common.cuh"

// partial[o, b] = sum of block b of row o.   partial (O, blocks); x (O, M)
extern "C" __global__ void sum_rows(real* __restrict__ partial, const real* __restrict__ x, long long O, long long M,
                                    long long blocks) {
    WARP_STRIDE_LOOP(task, O * blocks) {
        const long long o = task / blocks, first = (task - o * blocks) * BLOCK;
        const long long count = M - first < BLOCK ? M - first : BLOCK;
        const real* block = x + o * M + first;
        real total = 0;
        LANE_STRIDE_LOOP(i, count) total += block[i];
        total = warp_sum(total);
        if (threadIdx.x % WARP == 0) partial[task] = total;
    }
}

// partial[o, b] = max of block b of row o, NaN if there is one.   partial (O, blocks); x (O, M)
extern "C" __global__ void max_rows(real* __restrict__ partial, const real* __restrict__ x, long long O, long long M,
                                    long long blocks) {
    WARP_STRIDE_LOOP(task, O * blocks) {
        const long long o = task / blocks, first = (task - o * blocks) * BLOCK;
        const long long count = M - first < BLOCK ? M - first : BLOCK;
        const real* block = x + o * M + first;
        real top = NEGATIVE_INFINITY;
        LANE_STRIDE_LOOP(i, count) top = larger(top, block[i]);
        top = warp_max(top);
        if (threadIdx.x % WARP == 0) partial[task] = top;
    }
}

// partial[b] = sum of x^2 over block b, in double precision whatever x is: a norm over millions of elements. The sums
// leave as the bits of a double, since a pointer to `real` would be one to floats here.
// partial (ceil(M / BLOCK)); x (M).   Reads M, writes M / BLOCK, 2 M flops.
extern "C" __global__ void sum_of_squares(unsigned long long* __restrict__ partial, const real* __restrict__ x,
                                          long long M) {
    WARP_STRIDE_LOOP(task, (M + BLOCK - 1) / BLOCK) {
        const long long first = task * BLOCK, count = M - first < BLOCK ? M - first : BLOCK;
        double total = 0;
        LANE_STRIDE_LOOP(i, count) total += (double)x[first + i] * (double)x[first + i];
        for (int offset = WARP / 2; offset > 0; offset /= 2) total += __shfl_xor_sync(ALL_LANES, total, offset);
        if (threadIdx.x % WARP == 0) partial[task] = (unsigned long long)__double_as_longlong(total);
    }
}
