// One step of Adam or AdamW in a single walk: reads param, grad, m, v and writes param, m, v once each (4 n reads, 3 n
// writes, 15 n flops), where a chain of array operations would cross memory a dozen times. In place; no thread needs
// another.
#include "common.cuh"

// m <- beta1 m + rest1 g;  v <- beta2 v + rest2 g^2;  param <- shrink param - rate m / (sqrt(v) root + eps)
// param, grad, m, v (n); g = grad_factor grad. The launcher forms rest = 1 - beta, rate = lr / (1 - beta1^step) and
// root = 1 / sqrt(1 - beta2^step) in double precision: in float32, 1 - 0.999 has only four right digits. `shrink` is
// AdamW's decay, `weight_decay` Adam's; the one not in use is neutral.
extern "C" __global__ void adam(real* __restrict__ param, const real* __restrict__ grad, real* __restrict__ m,
                                real* __restrict__ v, long long n, real beta1, real rest1, real beta2, real rest2,
                                real rate, real root, real eps, real shrink, real weight_decay, real grad_factor) {
    GRID_STRIDE_LOOP(i, n) {
        const real g = grad_factor * grad[i] + weight_decay * param[i];
        const real m_new = beta1 * m[i] + rest1 * g;
        const real v_new = beta2 * v[i] + rest2 * g * g;
        param[i] = shrink * param[i] - rate * m_new / (sqrt(v_new) * root + eps);
        m[i] = m_new;
        v[i] = v_new;
    }
}
