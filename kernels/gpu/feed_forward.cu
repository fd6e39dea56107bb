// Between the two products of a feed-forward layer: bias and activation in one walk, so that pre (N, F) crosses memory
// once instead of three times. One warp a row, lanes along it: neighbours on neighbours, and no index is divided.
#include "common.cuh"
#include "activations.cuh"

#define RELU 0
#define GELU 1
#define TANH 2
#define GELU_TANH 3

// pre[n] += bias;  hidden = activation(pre).   hidden, pre (N, F); bias (F)
// Reads N F + F, writes 2 N F, 2 N F flops. All threads take the same branch: nothing diverges.
extern "C" __global__ void bias_activation(real* __restrict__ hidden, real* __restrict__ pre,
                                           const real* __restrict__ bias, long long N, long long F, int activation) {
    WARP_STRIDE_LOOP(n, N) {
        real* row = pre + n * F;
        real* out = hidden + n * F;
        LANE_STRIDE_LOOP(f, F) {
            const real x = row[f] + bias[f];
            row[f] = x;
            out[f] = activation == RELU        ? relu_value(x)
                     : activation == GELU      ? gelu_value(x)
                     : activation == GELU_TANH ? gelu_tanh_value(x)
                                               : tanh(x);
        }
    }
}

// hidden = activation(pre), formed again so that it need not be kept;  dpre, which holds dhidden, becomes
// dhidden activation'(pre).   hidden, dpre, pre (n).   Reads 2 n, writes 2 n, 2 to 24 flops an element.
extern "C" __global__ void activation_backward(real* __restrict__ hidden, real* __restrict__ dpre,
                                               const real* __restrict__ pre, long long n, int activation) {
    GRID_STRIDE_LOOP(i, n) {
        const real x = pre[i];
        if (activation == RELU) {
            hidden[i] = relu_value(x);
            const real d = dpre[i];
            dpre[i] = x > 0 ? d : (real)0;
        } else if (activation == GELU) {
            hidden[i] = gelu_value(x);
            dpre[i] *= gelu_slope(x);
        } else if (activation == GELU_TANH) {
            hidden[i] = gelu_tanh_value(x);
            dpre[i] *= gelu_tanh_slope(x);
        } else {
            const real y = tanh(x);
            hidden[i] = y;
            dpre[i] *= tanh_slope(y);
        }
    }
}
