// Threads that wait for others who never come. A GPU may hang here, or go on with half of the work undone.
#include "common.cuh"

// A barrier inside a condition that not all threads meet.
extern "C" __global__ void divergent_barrier(real* y, const real* x, long long n) {
    if (!FAULT || threadIdx.x < 40) __syncthreads();  // divergent_barrier is found here
    y[threadIdx.x] = x[threadIdx.x];
}

// Everybody waits, but not for the same thing: two barriers in two branches.
extern "C" __global__ void two_barriers(real* y, const real* x, long long n) {
    if (FAULT && threadIdx.x < 32) {
        __syncthreads();  // two_barriers is found here
    } else {
        __syncthreads();  // two_barriers is found here
    }
    y[threadIdx.x] = x[threadIdx.x];
}

// A shuffle that some lanes skip although the mask promises them all.
extern "C" __global__ void missing_lane(real* y, const real* x, long long n) {
    real value = x[threadIdx.x];
    if (!FAULT || threadIdx.x % 32 < 20) {
        value = __shfl_down_sync(ALL_LANES, value, 1);  // missing_lane is found here
    }
    y[threadIdx.x] = value;
}

// One warp exchanges values while another waits at a barrier: the warp that has left early is missed by the barrier.
extern "C" __global__ void early_exit(real* y, const real* x, long long n) {
    if (FAULT && threadIdx.x >= 32) return;
    const real sum = warp_sum(x[threadIdx.x]);
    __syncthreads();  // early_exit is found here
    y[threadIdx.x] = sum;
}
