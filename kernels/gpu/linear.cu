// What stands around the products of a linear layer, y = x W^T + b: the products themselves are the vendor's BLAS.
#include "common.cuh"

// y[n] += bias, in place: one warp a row, so that no index is divided.   y (N, F); bias (F)
// Reads N F + F, writes N F, N F flops.
extern "C" __global__ void add_bias(real* __restrict__ y, const real* __restrict__ bias, long long N, long long F) {
    WARP_STRIDE_LOOP(n, N) {
        real* row = y + n * F;
        LANE_STRIDE_LOOP(f, F) row[f] += bias[f];
    }
}

// y += x, in place: where a product has to be added to what is there.   y, x (n)
extern "C" __global__ void accumulate(real* __restrict__ y, const real* __restrict__ x, long long n) {
    GRID_STRIDE_LOOP(i, n) y[i] += x[i];
}

// partial[b] = sum of the rows b ROWS ... (b + 1) ROWS - 1 of x: one thread a column, added in the order of n. The
// launcher calls it again on the partial sums until one row is left, so the order of the additions depends on N alone.
// partial (ceil(N / ROWS), C); x (N, C).   Reads N C, writes N C / ROWS, N C flops.
extern "C" __global__ void column_sums(real* __restrict__ partial, const real* __restrict__ x, long long N,
                                       long long C) {
    const long long first = (long long)blockIdx.x * ROWS, last = first + ROWS < N ? first + ROWS : N;
    COLUMN_LOOP(c, C) {
        real total = 0;
        for (long long n = first; n < last; n++) total += x[n * C + c];
        partial[blockIdx.x * C + c] = total;
    }
}
