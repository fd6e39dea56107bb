// Activations of one element and their slopes, for elementwise.cu and feed_forward.cu. gelu is the exact form x Phi(x)
// with Phi(x) = (1 + erf(x / sqrt 2)) / 2, not the tanh approximation.
#pragma once

#define ROOT_HALF ((real)0.70710678118654752440)  // 1 / sqrt 2
#define DENSITY ((real)0.39894228040143267794)    // 1 / sqrt(2 pi)

// Not "x > 0 ? x : 0": NaN stays NaN.
static __device__ real relu_value(real x) { return x <= 0 ? (real)0 : x; }

static __device__ real gelu_value(real x) { return x * (1 + erf(x * ROOT_HALF)) / 2; }

// Phi(x) + x phi(x), phi(x) = exp(-x^2 / 2) / sqrt(2 pi)
static __device__ real gelu_slope(real x) { return (1 + erf(x * ROOT_HALF)) / 2 + x * exp(-x * x / 2) * DENSITY; }

static __device__ real tanh_slope(real y) { return 1 - y * y; }  // from the output
