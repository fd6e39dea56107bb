// Layer norm over the last axis of x (N, C): n = (x - mean) rstd, y = n weight + bias, rstd = 1 / sqrt(variance + eps).
//
// One warp works on a row, and the lanes exchange their sums by shuffles. Forward reads x once from memory (the second
// and third walk along the row find it in the cache): N C + 2 C reads, N C + 2 N writes, 8 N C flops. The variance is
// taken about the mean in a second walk: the one-pass formula E[x^2] - mean^2 cancels when the mean is large.
//
// Backward is two kernels, because dx sums along rows and dweight, dbias sum along columns. Each reads dy and x:
// 4 N C reads and N C writes in all, 14 N C flops. Joining them would save half of the reads and cost a shared array of
// C numbers for each block, whose size is not known when this is compiled.
#include "common.cuh"

// y, x (N, C); mean, rstd (N); weight, bias (C)
extern "C" __global__ void layer_norm_forward(real* __restrict__ y, real* __restrict__ mean, real* __restrict__ rstd,
                                              const real* __restrict__ x, const real* __restrict__ weight,
                                              const real* __restrict__ bias, long long N, long long C, real eps) {
    WARP_STRIDE_LOOP(n, N) {
        const real* row = x + n * C;
        LongSum sum, squares;
        LANE_STRIDE_LOOP(c, C) sum.add(row[c]);
        const real centre = warp_sum(sum.total()) / C;
        LANE_STRIDE_LOOP(c, C) squares.add((row[c] - centre) * (row[c] - centre));
        const real inverse = 1 / sqrt(warp_sum(squares.total()) / C + eps);
        LANE_STRIDE_LOOP(c, C) y[n * C + c] = (row[c] - centre) * inverse * weight[c] + bias[c];
        if (threadIdx.x % WARP == 0) {
            mean[n] = centre;
            rstd[n] = inverse;
        }
    }
}

// With dn = dy weight:  dx = rstd (dn - mean_c(dn) - n mean_c(dn n)).   dx, dy, x (N, C); weight (C); mean, rstd (N)
extern "C" __global__ void layer_norm_backward(real* __restrict__ dx, const real* __restrict__ dy,
                                               const real* __restrict__ x, const real* __restrict__ weight,
                                               const real* __restrict__ mean, const real* __restrict__ rstd,
                                               long long N, long long C) {
    WARP_STRIDE_LOOP(row, N) {
        const long long first = row * C;
        const real centre = mean[row], inverse = rstd[row];
        LongSum sum_dn, sum_dn_n;
        LANE_STRIDE_LOOP(c, C) {
            const real n = (x[first + c] - centre) * inverse, dn = dy[first + c] * weight[c];
            sum_dn.add(dn);
            sum_dn_n.add(dn * n);
        }
        const real mean_dn = warp_sum(sum_dn.total()) / C, mean_dn_n = warp_sum(sum_dn_n.total()) / C;
        LANE_STRIDE_LOOP(c, C) {
            const real n = (x[first + c] - centre) * inverse;
            dx[first + c] = inverse * (dy[first + c] * weight[c] - mean_dn - n * mean_dn_n);
        }
    }
}

// dweight = sum_n dy n, dbias = sum_n dy: one thread a column and block of ROWS rows; neighbouring threads read
// neighbouring columns. Block b of the grid's first axis writes row b of the partial sums, which column_sums of
// linear.cu adds up in a fixed order.
// dweight, dbias (ceil(N / ROWS), C); dy, x (N, C); mean, rstd (N)
extern "C" __global__ void layer_norm_backward_weights(real* __restrict__ dweight, real* __restrict__ dbias,
                                                       const real* __restrict__ dy, const real* __restrict__ x,
                                                       const real* __restrict__ mean, const real* __restrict__ rstd,
                                                       long long N, long long C) {
    const long long first = (long long)blockIdx.x * ROWS, last = first + ROWS < N ? first + ROWS : N;
    COLUMN_LOOP(c, C) {
        real sum_dy_n = 0, sum_dy = 0;
        for (long long row = first; row < last; row++) {
            const real d = dy[row * C + c];
            sum_dy_n += d * (x[row * C + c] - mean[row]) * rstd[row];
            sum_dy += d;
        }
        dweight[blockIdx.x * C + c] = sum_dy_n;
        dbias[blockIdx.x * C + c] = sum_dy;
    }
}
