// Memory that is not the thread's to touch. With FAULT=1 each kernel reads or writes where it must not.
#include "common.cuh"

// One element too many, between two variables: without a gap it would be the other variable.
extern "C" __global__ void shared_overflow(real* y, const real* x, long long n) {
    __shared__ real first[64];
    __shared__ real second[64];
    first[threadIdx.x] = x[threadIdx.x];
    second[threadIdx.x] = 2 * x[threadIdx.x];
    __syncthreads();
    const int next = threadIdx.x + 1;
    y[threadIdx.x] = first[FAULT ? next : next % 64] + second[threadIdx.x];  // shared_overflow is found here
}

// The same as a write, through a pointer: no bound is in sight where it happens.
static __device__ __noinline__ void put(real* tile, int where, real value) {
    tile[where] = value;  // shared_overflow_write is found here
}

extern "C" __global__ void shared_overflow_write(real* y, const real* x, long long n) {
    __shared__ real tile[64];
    __shared__ real other[64];
    put(tile, 63 - (int)threadIdx.x + FAULT, x[threadIdx.x]);
    other[threadIdx.x] = 1;
    __syncthreads();
    y[threadIdx.x] = (FAULT ? 0 : tile[threadIdx.x]) * other[threadIdx.x];
}

// The last thread reads one element behind the end of x.
extern "C" __global__ void global_overflow(real* y, const real* x, long long n) {
    GRID_STRIDE_LOOP(i, n) y[i] = x[i + FAULT];  // global_overflow is found here
}

// One element before the start.
extern "C" __global__ void global_underflow(real* y, const real* x, long long n) {
    GRID_STRIDE_LOOP(i, n) y[i] = x[i - FAULT];  // global_underflow is found here
}

// Forgets that the last block has threads without an element.
extern "C" __global__ void global_overflow_write(real* y, const real* x, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (FAULT || i < n) y[i] = x[i < n ? i : 0];  // global_overflow_write is found here
}

// Writes into an argument that is declared const: a launcher may have passed an array that others still need.
extern "C" __global__ void write_to_const(real* y, const real* x, long long n) {
    GRID_STRIDE_LOOP(i, n) {
        if (FAULT) ((real*)x)[i] *= 2;  // write_to_const is found here
        y[i] = x[i];
    }
}

// Adds up a whole tile of which only the first n elements were filled.
extern "C" __global__ void unwritten_shared(real* y, const real* x, long long n) {
    __shared__ real tile[64];
    if (threadIdx.x < n) tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        real total = 0;
        for (long long i = 0; i < (FAULT ? 64 : n); i++) total += tile[i];  // unwritten_shared is found here
        y[0] = total;
    }
}

// A product of sizes in 32 bits, which a long text and a large vocabulary exceed: undefined, and in practice negative.
extern "C" __global__ void integer_overflow(real* y, const real* x, long long n) {
    const int rows = 70000 + (int)n, columns = 50001;
    const real right = (real)((long long)rows * columns);
    if (threadIdx.x == 0) y[0] = FAULT ? (real)(rows * columns) : right;  // integer_overflow is found here
}
