// The mean cross-entropy of rows of logits (N, V) against target ids; rows whose target is ignore_index do not count.
//     loss_n = lse_n - (1 - eps) logits[n, target] - eps mean_v logits[n, v],   lse_n = log sum_v exp(logits[n, v])
// with label smoothing eps. V is large, so one block works on a row: thread t takes words t, t + threads, ... and the
// threads join their maxima and sums by shuffles and a shared array of 32 numbers.
//
// Forward reads N V logits from memory (the second walk along the row finds it in the cache) and writes 2 N numbers,
// 4 N V flops; backward reads N V, writes N V, 3 N V flops. The count of kept rows stays on the device.
// Care: the maximum is subtracted before exp; logits of -inf are allowed as long as no smoothing takes their mean.
#include "common.cuh"

// losses[n] = loss_n, or 0 if the row does not count; lse[n] for every row.   losses, lse, targets (N); logits (N, V)
extern "C" __global__ void cross_entropy_rows(real* __restrict__ losses, real* __restrict__ lse,
                                              const real* __restrict__ logits, const long long* __restrict__ targets,
                                              long long N, long long V, long long ignore_index, int ignoring,
                                              real eps) {
    for (long long n = blockIdx.x; n < N; n += gridDim.x) {
        const real* row = logits + n * V;
        real top = NEGATIVE_INFINITY;
        BLOCK_STRIDE_LOOP(v, V) top = larger(top, row[v]);
        top = block_max(top);
        LongSum powers, logit_sum;
        BLOCK_STRIDE_LOOP(v, V) {
            powers.add(exp(row[v] - top));
            logit_sum.add(row[v]);
        }
        const real total = block_sum(powers.total()), plain = eps > 0 ? block_sum(logit_sum.total()) : (real)0;
        if (threadIdx.x == 0) {
            const long long target = targets[n];
            lse[n] = top + log(total);
            real loss = 0;
            if (!ignoring || target != ignore_index) {
                loss = lse[n] - (1 - eps) * row[target];
                if (eps > 0) loss -= eps * plain / V;  // 0 times -inf would be NaN
            }
            losses[n] = loss;
        }
    }
}

// loss = sum of the losses / number of kept rows, by a single block.   loss (1); losses, targets (N)
extern "C" __global__ void cross_entropy_mean(real* __restrict__ loss, const real* __restrict__ losses,
                                              const long long* __restrict__ targets, long long N,
                                              long long ignore_index, int ignoring) {
    LongSum losses_kept, rows_kept;
    BLOCK_STRIDE_LOOP(n, N) {
        losses_kept.add(losses[n]);
        rows_kept.add(!ignoring || targets[n] != ignore_index);
    }
    const real total = block_sum(losses_kept.total());
    const real kept = block_sum(rows_kept.total());  // whole numbers: exact, in float32 up to 2^24 rows
    if (threadIdx.x == 0) loss[0] = total / kept;
}

// factor = dloss / number of kept rows, by a single block.   factor, dloss (1); targets (N)
extern "C" __global__ void cross_entropy_factor(real* __restrict__ factor, const real* __restrict__ dloss,
                                                const long long* __restrict__ targets, long long N,
                                                long long ignore_index, int ignoring) {
    LongSum rows_kept;
    BLOCK_STRIDE_LOOP(n, N) rows_kept.add(!ignoring || targets[n] != ignore_index);
    const real kept = block_sum(rows_kept.total());
    if (threadIdx.x == 0) factor[0] = dloss[0] / kept;
}

// dlogits = factor (softmax(logits) - (1 - eps) onehot(target) - eps / V), 0 in rows that do not count, which are not
// read.   dlogits, logits (N, V); lse, targets (N); factor (1)
extern "C" __global__ void cross_entropy_backward(real* __restrict__ dlogits, const real* __restrict__ logits,
                                                  const real* __restrict__ lse, const long long* __restrict__ targets,
                                                  const real* __restrict__ factor, long long N, long long V,
                                                  long long ignore_index, int ignoring, real eps) {
    const real spread = eps / V;
    for (long long n = blockIdx.x; n < N; n += gridDim.x) {
        const long long target = targets[n];
        const bool kept = !ignoring || target != ignore_index;
        BLOCK_STRIDE_LOOP(v, V) {
            real d = 0;
            if (kept) {
                d = exp(logits[n * V + v] - lse[n]) - spread;
                if (v == target) d -= 1 - eps;
                d *= factor[0];
            }
            dlogits[n * V + v] = d;
        }
    }
}
