// Softmax and log-softmax over the last axis of x (N, C), and their derivatives.
//
// One warp works on a row: lane l takes columns l, l + 32, ..., the row's maximum and sum are exchanged between the
// lanes by shuffles, without shared memory or barriers. The row is walked three times (maximum, sum, result); the
// second and third walk find it in the cache, so memory sees N C reads and N C writes. About 5 N C flops.
//
// The largest element is subtracted first, so that exp cannot overflow. -inf gives the probability 0; a row of -inf
// only has no softmax and gives NaN, as the formula does.
#include "common.cuh"

static __device__ real row_max(const real* row, long long C) {
    real top = NEGATIVE_INFINITY;
    LANE_STRIDE_LOOP(c, C) top = larger(top, row[c]);
    return warp_max(top);
}

// y = exp(x) / sum_c exp(x).   y, x (N, C)
extern "C" __global__ void softmax_forward(real* __restrict__ y, const real* __restrict__ x, long long N, long long C) {
    WARP_STRIDE_LOOP(n, N) {
        const real* row = x + n * C;
        real* out = y + n * C;
        const real top = row_max(row, C);
        LongSum sum;
        LANE_STRIDE_LOOP(c, C) {
            out[c] = exp(row[c] - top);  // kept, so that exp is taken once; each lane reads back its own
            sum.add(out[c]);
        }
        const real share = 1 / warp_sum(sum.total());
        LANE_STRIDE_LOOP(c, C) out[c] *= share;
    }
}

// dx = y (dy - sum_c dy y).   dx, dy, y (N, C); reads 2 N C, writes N C, 4 N C flops
extern "C" __global__ void softmax_backward(real* __restrict__ dx, const real* __restrict__ dy,
                                            const real* __restrict__ y, long long N, long long C) {
    WARP_STRIDE_LOOP(n, N) {
        const long long first = n * C;
        LongSum sum;
        LANE_STRIDE_LOOP(c, C) sum.add(dy[first + c] * y[first + c]);
        const real total = warp_sum(sum.total());
        LANE_STRIDE_LOOP(c, C) dx[first + c] = y[first + c] * (dy[first + c] - total);
    }
}

// y = x - log sum_c exp(x).   y, x (N, C)
extern "C" __global__ void log_softmax_forward(real* __restrict__ y, const real* __restrict__ x, long long N,
                                               long long C) {
    WARP_STRIDE_LOOP(n, N) {
        const real* row = x + n * C;
        const real top = row_max(row, C);
        LongSum sum;
        LANE_STRIDE_LOOP(c, C) sum.add(exp(row[c] - top));
        const real lse = log(warp_sum(sum.total()));
        LANE_STRIDE_LOOP(c, C) y[n * C + c] = (row[c] - top) - lse;  // not top + lse: that sum would round away digits
    }
}

// dx = dy - exp(y) sum_c dy.   dx, dy, y (N, C); reads 2 N C, writes N C, 4 N C flops
extern "C" __global__ void log_softmax_backward(real* __restrict__ dx, const real* __restrict__ dy,
                                                const real* __restrict__ y, long long N, long long C) {
    WARP_STRIDE_LOOP(n, N) {
        const long long first = n * C;
        LongSum sum;
        LANE_STRIDE_LOOP(c, C) sum.add(dy[first + c]);
        const real total = warp_sum(sum.total());
        LANE_STRIDE_LOOP(c, C) dx[first + c] = dy[first + c] - exp(y[first + c]) * total;
    }
}
