// Between the products of a gated feed-forward layer: biases, activation and gating in one walk, so that gate and up (N, F)
// cross memory once each. One warp a row, lanes along it: neighbours on neighbours, and no index is divided.
#include "common.cuh"
#include "activations.cuh"

#define SILU 0
#define GELU 1

// gate[n] += b_gate;  up[n] += b_up;  hidden = activation(gate) up.   hidden, gate, up (N, F); b_gate, b_up (F), or null
// for none.   Reads 2 N F + 2 F, writes 3 N F, 4 N F flops. All threads take the same branch: nothing diverges.
extern "C" __global__ void gate_forward(real* __restrict__ hidden, real* __restrict__ gate, real* __restrict__ up,
                                        const real* __restrict__ b_gate, const real* __restrict__ b_up, long long N,
                                        long long F, int activation) {
    WARP_STRIDE_LOOP(n, N) {
        LANE_STRIDE_LOOP(f, F) {
            const long long at = n * F + f;
            const real x = b_gate ? gate[at] + b_gate[f] : gate[at];
            const real y = b_up ? up[at] + b_up[f] : up[at];
            if (b_gate) gate[at] = x;
            if (b_up) up[at] = y;
            hidden[at] = (activation == SILU ? silu_value(x) : gelu_value(x)) * y;
        }
    }
}

// hidden = activation(gate) up, formed again so that it need not be kept;  dgate = dhidden up activation'(gate);  dup, which
// holds dhidden, becomes dhidden activation(gate).   all (n).   Reads 3 n, writes 3 n, some 15 flops an element.
extern "C" __global__ void gate_backward(real* __restrict__ hidden, real* __restrict__ dgate, real* __restrict__ dup,
                                         const real* __restrict__ gate, const real* __restrict__ up, long long n,
                                         int activation) {
    GRID_STRIDE_LOOP(i, n) {
        const real x = gate[i], y = up[i], dhidden = dup[i];
        const real value = activation == SILU ? silu_value(x) : gelu_value(x);
        const real slope = activation == SILU ? silu_slope(x) : gelu_slope(x);
        hidden[i] = value * y;
        dgate[i] = dhidden * y * slope;
        dup[i] = dhidden * value;
    }
}
