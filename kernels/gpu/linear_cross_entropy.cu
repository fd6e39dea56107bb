// The middle of a linear head with its cross-entropy: between the product that makes a chunk of logits and the products
// that turn their gradient into dx and dweight, one kernel reads off the losses and leaves the gradient in the same
// buffer. The logits of all rows never exist at once.
//
// One block a row (V is large). Three walks along it: the maximum of logits + bias; exp, its sum, and exp kept in
// place; the gradient. A chunk of n rows: reads n V + V, writes n V, as long as the rows of all blocks at work fit into
// the L2 cache between the walks; (4 + 3) n V flops, and n V more for a bias.
#include "common.cuh"

// losses[n] = lse - (1 - eps) z[target] - eps mean_v z[v],  z = logits[n] + bias;
// logits[n] <- factor (softmax(z) - (1 - eps) onehot(target) - eps / V), only if with_gradients.
// logits (N, V); losses, targets (N), none of them ignored; bias (V), zeros where there is none; factor = 1 / kept rows
extern "C" __global__ void loss_and_gradient(real* __restrict__ logits, real* __restrict__ losses,
                                             const real* __restrict__ bias, const long long* __restrict__ targets,
                                             long long N, long long V, real eps, real factor, int with_gradients) {
    const real spread = factor * eps / V;
    for (long long n = blockIdx.x; n < N; n += gridDim.x) {
        real* row = logits + n * V;
        const long long target = targets[n];
        real top = NEGATIVE_INFINITY;
        LongSum logit_sum, powers;
        BLOCK_STRIDE_LOOP(v, V) {
            const real z = row[v] + bias[v];
            top = larger(top, z);
            logit_sum.add(z);
        }
        // read before the second walk writes; the barriers of block_max stand between
        const real chosen = row[target] + bias[target];
        top = block_max(top);
        const real plain = eps > 0 ? block_sum(logit_sum.total()) : (real)0;
        BLOCK_STRIDE_LOOP(v, V) {
            const real e = exp(row[v] + bias[v] - top);
            if (with_gradients) row[v] = e;
            powers.add(e);
        }
        const real total = block_sum(powers.total());
        if (threadIdx.x == 0) {
            real expected = (1 - eps) * chosen;  // the mean of z under the (smoothed) target distribution
            if (eps > 0) expected += eps * plain / V;
            losses[n] = top + log(total) - expected;
        }
        if (with_gradients) {
            const real share = factor / total;
            BLOCK_STRIDE_LOOP(v, V) row[v] = row[v] * share - spread - (v == target ? factor * (1 - eps) : (real)0);
        }
    }
}
