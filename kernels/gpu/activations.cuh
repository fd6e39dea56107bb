// Activations of one element and their slopes, for elementwise.cu and the feed-forward layers. gelu is the exact form
// x Phi(x) with Phi(x) = (1 + erf(x / sqrt 2)) / 2; gelu_tanh is the approximation x (1 + tanh u) / 2 = x sigmoid(2 u) with
// u = sqrt(2 / pi) (x + 0.044715 x^3).
#pragma once

#define ROOT_HALF ((real)0.70710678118654752440)  // 1 / sqrt 2
#define DENSITY ((real)0.39894228040143267794)    // 1 / sqrt(2 pi)
#define LINEAR ((real)1.59576912160573071176)     // 2 sqrt(2 / pi)
#define CUBIC ((real)0.044715)

// Not "x > 0 ? x : 0": NaN stays NaN.
static __device__ real relu_value(real x) { return x <= 0 ? (real)0 : x; }

static __device__ real gelu_value(real x) { return x * (1 + erf(x * ROOT_HALF)) / 2; }

// Phi(x) + x phi(x), phi(x) = exp(-x^2 / 2) / sqrt(2 pi)
static __device__ real gelu_slope(real x) { return (1 + erf(x * ROOT_HALF)) / 2 + x * exp(-x * x / 2) * DENSITY; }

// Through exp(-|x|), which cannot overflow and keeps the small values on the left.
static __device__ real sigmoid_value(real x) {
    const real e = exp(-fabs(x));
    return (x >= 0 ? (real)1 : e) / (1 + e);
}

static __device__ real silu_value(real x) { return x * sigmoid_value(x); }

static __device__ real silu_slope(real x) {
    const real s = sigmoid_value(x);
    return s + x * s * (1 - s);
}

static __device__ real gelu_tanh_value(real x) { return x * sigmoid_value(LINEAR * x * (1 + CUBIC * x * x)); }

static __device__ real gelu_tanh_slope(real x) {
    const real s = sigmoid_value(LINEAR * x * (1 + CUBIC * x * x));
    return s + x * s * (1 - s) * LINEAR * (1 + 3 * CUBIC * x * x);
}

static __device__ real tanh_slope(real y) { return 1 - y * y; }  // from the output
