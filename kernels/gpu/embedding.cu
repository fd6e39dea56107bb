// Rows of a table, picked by id, and the gradients brought back to the rows they came from.
#include "common.cuh"

// y[n] = weight[ids[n]]: one warp copies a row, neighbouring lanes copy neighbouring columns.
// y (N, C); weight (V, C); ids (N).   Reads N C + N, writes N C.
extern "C" __global__ void embedding_forward(real* __restrict__ y, const real* __restrict__ weight,
                                             const long long* __restrict__ ids, long long N, long long C) {
    WARP_STRIDE_LOOP(n, N) {
        const real* row = weight + ids[n] * C;
        LANE_STRIDE_LOOP(c, C) y[n * C + c] = row[c];
    }
}

// dweight[v] = sum of dy[n] over the n with ids[n] = v, added in the order of n. An atomic addition would be shorter,
// but its order, and so the last bits, would change from run to run. Instead the launcher sorts the ids (stably): each
// row of the result then has one owner. One warp a row that occurs and 32 columns, so that a frequent id, whose
// additions are a chain, at least has several warps at work. Rows that do not occur are zero beforehand.
// dweight (V, C); dy (N, C); ids (N); order (N) sorts the ids; starts (U + 1) are the borders between the U different
// ids in that order.   Reads N C + 3 N, writes U C, N C flops.
extern "C" __global__ void embedding_backward(real* __restrict__ dweight, const real* __restrict__ dy,
                                              const long long* __restrict__ ids, const long long* __restrict__ order,
                                              const long long* __restrict__ starts, long long U, long long C) {
    const long long strips = (C + WARP - 1) / WARP;
    WARP_STRIDE_LOOP(task, U * strips) {
        const long long u = task / strips, c = (task - u * strips) * WARP + threadIdx.x % WARP;
        if (c >= C) continue;
        LongSum sum;
        for (long long position = starts[u]; position < starts[u + 1]; position++) sum.add(dy[order[position] * C + c]);
        dweight[ids[order[starts[u]]] * C + c] = sum.total();
    }
}
