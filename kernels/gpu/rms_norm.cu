// RMS norm over the last axis of x (N, C): n = x rstd, y = n weight, rstd = 1 / sqrt(mean(x^2) + eps).
//
// One warp works on a row, and the lanes exchange their sums by shuffles. Forward reads x once from memory (the second
// walk along the row finds it in the cache): N C + C reads, N C + N writes, 4 N C flops.
//
// Backward is two kernels, as for layer norm: dx sums along rows, dweight along columns. Each reads dy and x: 4 N C reads
// and N C writes in all, 9 N C flops.
#include "common.cuh"

// y, x (N, C); rstd (N); weight (C)
extern "C" __global__ void rms_norm_forward(real* __restrict__ y, real* __restrict__ rstd, const real* __restrict__ x,
                                            const real* __restrict__ weight, long long N, long long C, real eps) {
    WARP_STRIDE_LOOP(n, N) {
        const real* row = x + n * C;
        LongSum squares;
        LANE_STRIDE_LOOP(c, C) squares.add(row[c] * row[c]);
        const real inverse = 1 / sqrt(warp_sum(squares.total()) / C + eps);
        LANE_STRIDE_LOOP(c, C) y[n * C + c] = row[c] * inverse * weight[c];
        if (threadIdx.x % WARP == 0) rstd[n] = inverse;
    }
}

// With dn = dy weight:  dx = rstd (dn - n mean_c(dn n)).   dx, dy, x (N, C); weight (C); rstd (N)
extern "C" __global__ void rms_norm_backward(real* __restrict__ dx, const real* __restrict__ dy,
                                             const real* __restrict__ x, const real* __restrict__ weight,
                                             const real* __restrict__ rstd, long long N, long long C) {
    WARP_STRIDE_LOOP(row, N) {
        const long long first = row * C;
        const real inverse = rstd[row];
        LongSum sum_dn_n;
        LANE_STRIDE_LOOP(c, C) {
            const real n = x[first + c] * inverse, dn = dy[first + c] * weight[c];
            sum_dn_n.add(dn * n);
        }
        const real mean_dn_n = warp_sum(sum_dn_n.total()) / C;
        LANE_STRIDE_LOOP(c, C) {
            const real n = x[first + c] * inverse;
            dx[first + c] = inverse * (dy[first + c] * weight[c] - n * mean_dn_n);
        }
    }
}

// dweight = sum_n dy n: one thread a column and block of ROWS rows; neighbouring threads read neighbouring columns. Block b
// of the grid's first axis writes row b of the partial sums, which column_sums of linear.cu adds up in a fixed order.
// dweight (ceil(N / ROWS), C); dy, x (N, C); rstd (N)
extern "C" __global__ void rms_norm_backward_weight(real* __restrict__ dweight, const real* __restrict__ dy,
                                                    const real* __restrict__ x, const real* __restrict__ rstd,
                                                    long long N, long long C) {
    const long long first = (long long)blockIdx.x * ROWS, last = first + ROWS < N ? first + ROWS : N;
    COLUMN_LOOP(c, C) {
        real sum_dy_n = 0;
        for (long long row = first; row < last; row++) sum_dy_n += dy[row * C + c] * x[row * C + c] * rstd[row];
        dweight[blockIdx.x * C + c] = sum_dy_n;
    }
}
