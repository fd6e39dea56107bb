// Functions of one element, their derivatives, and arithmetic of two arrays with broadcasting.
//
// One thread works on elements i, i + threads of the grid, ...: neighbouring threads read neighbouring elements, so a
// warp's load is one or two memory transactions. No shared memory, no barriers. Each element is read once and written
// once; a function costs 1 to 9 flops an element against 8 to 24 bytes, so memory alone sets the time.
//
// Unary, M elements: reads M, writes M. Backward reads 2 M (dy and the saved x or y), writes M.
#include "common.cuh"
#include "activations.cuh"

// y = exp(x).   y, x (n)
extern "C" __global__ void exp_forward(real* __restrict__ y, const real* __restrict__ x, long long n) {
    GRID_STRIDE_LOOP(i, n) y[i] = exp(x[i]);
}

// y' = y.   dx, dy, y (n)
extern "C" __global__ void exp_backward(real* __restrict__ dx, const real* __restrict__ dy,
                                        const real* __restrict__ y, long long n) {
    GRID_STRIDE_LOOP(i, n) dx[i] = dy[i] * y[i];
}

// y = log x: -inf at 0, NaN below.   y, x (n)
extern "C" __global__ void log_forward(real* __restrict__ y, const real* __restrict__ x, long long n) {
    GRID_STRIDE_LOOP(i, n) y[i] = log(x[i]);
}

// y' = 1 / x.   dx, dy, x (n)
extern "C" __global__ void log_backward(real* __restrict__ dx, const real* __restrict__ dy,
                                        const real* __restrict__ x, long long n) {
    GRID_STRIDE_LOOP(i, n) dx[i] = dy[i] / x[i];
}

// y = sqrt x.   y, x (n)
extern "C" __global__ void sqrt_forward(real* __restrict__ y, const real* __restrict__ x, long long n) {
    GRID_STRIDE_LOOP(i, n) y[i] = sqrt(x[i]);
}

// y' = 1 / (2 y).   dx, dy, y (n)
extern "C" __global__ void sqrt_backward(real* __restrict__ dx, const real* __restrict__ dy,
                                         const real* __restrict__ y, long long n) {
    GRID_STRIDE_LOOP(i, n) dx[i] = dy[i] / (2 * y[i]);
}

// y = tanh x.   y, x (n)
extern "C" __global__ void tanh_forward(real* __restrict__ y, const real* __restrict__ x, long long n) {
    GRID_STRIDE_LOOP(i, n) y[i] = tanh(x[i]);
}

// y' = 1 - y^2.   dx, dy, y (n)
extern "C" __global__ void tanh_backward(real* __restrict__ dx, const real* __restrict__ dy,
                                         const real* __restrict__ y, long long n) {
    GRID_STRIDE_LOOP(i, n) dx[i] = dy[i] * tanh_slope(y[i]);
}

// y = 1 / (1 + exp(-x)).   y, x (n)
extern "C" __global__ void sigmoid_forward(real* __restrict__ y, const real* __restrict__ x, long long n) {
    GRID_STRIDE_LOOP(i, n) y[i] = sigmoid_value(x[i]);
}

// y' = y (1 - y).   dx, dy, y (n)
extern "C" __global__ void sigmoid_backward(real* __restrict__ dx, const real* __restrict__ dy,
                                            const real* __restrict__ y, long long n) {
    GRID_STRIDE_LOOP(i, n) dx[i] = dy[i] * y[i] * (1 - y[i]);
}

// y = max(x, 0); NaN stays NaN.   y, x (n)
extern "C" __global__ void relu_forward(real* __restrict__ y, const real* __restrict__ x, long long n) {
    GRID_STRIDE_LOOP(i, n) y[i] = relu_value(x[i]);
}

// y' = 1 for x > 0, else 0 (also at the corner). A choice, not a product: dy may be infinite.   dx, dy, x (n)
extern "C" __global__ void relu_backward(real* __restrict__ dx, const real* __restrict__ dy,
                                         const real* __restrict__ x, long long n) {
    GRID_STRIDE_LOOP(i, n) {
        const real d = dy[i];
        dx[i] = x[i] > 0 ? d : (real)0;
    }
}

// y = x Phi(x).   y, x (n)
extern "C" __global__ void gelu_forward(real* __restrict__ y, const real* __restrict__ x, long long n) {
    GRID_STRIDE_LOOP(i, n) y[i] = gelu_value(x[i]);
}

// y' = Phi(x) + x phi(x).   dx, dy, x (n)
extern "C" __global__ void gelu_backward(real* __restrict__ dx, const real* __restrict__ dy,
                                         const real* __restrict__ x, long long n) {
    GRID_STRIDE_LOOP(i, n) dx[i] = dy[i] * gelu_slope(x[i]);
}

// y = x (1 + tanh u) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3).   y, x (n)
extern "C" __global__ void gelu_tanh_forward(real* __restrict__ y, const real* __restrict__ x, long long n) {
    GRID_STRIDE_LOOP(i, n) y[i] = gelu_tanh_value(x[i]);
}

// y' = s + x s (1 - s) (2 u)', s = sigmoid(2 u).   dx, dy, x (n)
extern "C" __global__ void gelu_tanh_backward(real* __restrict__ dx, const real* __restrict__ dy,
                                              const real* __restrict__ x, long long n) {
    GRID_STRIDE_LOOP(i, n) dx[i] = dy[i] * gelu_tanh_slope(x[i]);
}

// y = x sigmoid(x).   y, x (n)
extern "C" __global__ void silu_forward(real* __restrict__ y, const real* __restrict__ x, long long n) {
    GRID_STRIDE_LOOP(i, n) y[i] = silu_value(x[i]);
}

// y' = s + x s (1 - s), s = sigmoid(x).   dx, dy, x (n)
extern "C" __global__ void silu_backward(real* __restrict__ dx, const real* __restrict__ dy,
                                         const real* __restrict__ x, long long n) {
    GRID_STRIDE_LOOP(i, n) dx[i] = dy[i] * silu_slope(x[i]);
}

// ------------------------------------------------------------------------------------------------------ two arrays
//
// c = a (op) b, J elements in c: reads a and b (a repeated element comes from the cache), writes J, J flops.
// `axes` (rank, 3) lists the axes of c from the outermost to the innermost: size, step in a, step in b, where the step
// along a repeated axis is 0. The launcher joins axes that both arrays walk alike; rank 0 says that a and b have the
// shape of c, and no index is taken apart at all.

struct Places {
    long long a, b;
};

// Where element i of c finds its two operands: one division for each axis but the outermost.
static __device__ Places places(long long i, const long long* axes, long long rank) {
    if (rank == 0) return Places{i, i};
    Places at = {0, 0};
    for (long long axis = rank - 1; axis > 0; axis--) {
        const long long size = axes[3 * axis], rest = i / size, index = i - rest * size;
        at.a += index * axes[3 * axis + 1];
        at.b += index * axes[3 * axis + 2];
        i = rest;
    }
    at.a += i * axes[1];
    at.b += i * axes[2];
    return at;
}

// c = a + b.   c (n); a, b: whatever `axes` reaches
extern "C" __global__ void add_forward(real* __restrict__ c, const real* __restrict__ a, const real* __restrict__ b,
                                       const long long* __restrict__ axes, long long rank, long long n) {
    GRID_STRIDE_LOOP(i, n) {
        const Places at = places(i, axes, rank);
        c[i] = a[at.a] + b[at.b];
    }
}

// c = a - b
extern "C" __global__ void subtract_forward(real* __restrict__ c, const real* __restrict__ a,
                                            const real* __restrict__ b, const long long* __restrict__ axes,
                                            long long rank, long long n) {
    GRID_STRIDE_LOOP(i, n) {
        const Places at = places(i, axes, rank);
        c[i] = a[at.a] - b[at.b];
    }
}

// c = a b
extern "C" __global__ void multiply_forward(real* __restrict__ c, const real* __restrict__ a,
                                            const real* __restrict__ b, const long long* __restrict__ axes,
                                            long long rank, long long n) {
    GRID_STRIDE_LOOP(i, n) {
        const Places at = places(i, axes, rank);
        c[i] = a[at.a] * b[at.b];
    }
}

// c = a / b
extern "C" __global__ void divide_forward(real* __restrict__ c, const real* __restrict__ a, const real* __restrict__ b,
                                          const long long* __restrict__ axes, long long rank, long long n) {
    GRID_STRIDE_LOOP(i, n) {
        const Places at = places(i, axes, rank);
        c[i] = a[at.a] / b[at.b];
    }
}

// c = a to the power of b
extern "C" __global__ void power_forward(real* __restrict__ c, const real* __restrict__ a, const real* __restrict__ b,
                                         const long long* __restrict__ axes, long long rank, long long n) {
    GRID_STRIDE_LOOP(i, n) {
        const Places at = places(i, axes, rank);
        c[i] = pow(a[at.a], b[at.b]);
    }
}
