// What several kernel files need: the number type, the grid-stride loop, and sums and maxima over a warp or a block.
//
// Each file is compiled twice, with -DREAL=float and with -DREAL=double. Mathematical functions are called by their
// plain names (exp, log, sqrt, tanh, fmax ...): CUDA and the emulator both pick the overload that fits `real`.
//
// Every block has a multiple of 32 threads. All lanes of a warp call warp_sum and warp_max, all threads of a block call
// block_sum and block_max. Sums are added in a tree whose form depends on the number of threads alone, so the same
// launch gives the same bits whatever the schedule.
#pragma once

typedef REAL real;

#define WARP 32
#define ALL_LANES 0xffffffffu
#define NEGATIVE_INFINITY ((real)__longlong_as_double(0xfff0000000000000LL))

// for (i = my thread's number in the grid; i < n; i += threads of the grid): neighbours work on neighbours
#define GRID_STRIDE_LOOP(i, n) \
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x, i##_step = (long long)gridDim.x * blockDim.x; \
         i < (n); i += i##_step)

// The same over the threads of one block: for a row that belongs to this block.
#define BLOCK_STRIDE_LOOP(i, n) for (long long i = threadIdx.x; i < (n); i += blockDim.x)

// One row per warp: for (row = my warp's number in the grid; row < n; row += warps of the grid). All lanes of a warp
// have the same row, so they may exchange values inside; LANE_STRIDE_LOOP walks along it, neighbours on neighbours.
#define WARP_STRIDE_LOOP(row, n) \
    for (long long row = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / WARP, \
                   row##_step = (long long)gridDim.x * (blockDim.x / WARP); \
         row < (n); row += row##_step)
#define LANE_STRIDE_LOOP(i, n) for (long long i = threadIdx.x % WARP; i < (n); i += WARP)

// One column per thread, for sums over rows: the grid's first axis counts blocks of rows, its second blocks of columns
// (in this order because the second axis of a CUDA grid ends at 65,535).
#define COLUMN_LOOP(c, C) \
    for (long long c = (long long)blockIdx.y * blockDim.x + threadIdx.x, c##_step = (long long)gridDim.y * blockDim.x; \
         c < (C); c += c##_step)

// A sum of any length that keeps its digits: 1024 numbers at most are added one after another in the kernel's own
// precision, and these blocks in double precision (one addition in 1024, which costs nothing on any GPU). What is lost
// is then 1024 units in the last place of float32 at most. A sum of one block has the bits of a plain one.
struct LongSum {
    real part = 0;
    double whole = 0;
    int terms = 0;
    __device__ inline void add(real x) {
        part += x;
        if (++terms == 1024) {
            whole += part;
            part = 0;
            terms = 0;
        }
    }
    __device__ inline real total() const { return (real)(whole + part); }
};

// Every lane gets the sum over the warp. 5 exchanges; at each, lane l adds the value of lane l ^ offset.
static __device__ real warp_sum(real value) {
    for (int offset = WARP / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(ALL_LANES, value, offset);
    return value;
}

// Every lane gets the largest value of the warp. NaN wins over everything, as in NumPy: a fault must stay visible.
static __device__ real larger(real a, real b) { return (a > b || a != a) ? a : b; }

static __device__ real warp_max(real value) {
    for (int offset = WARP / 2; offset > 0; offset /= 2)
        value = larger(value, __shfl_xor_sync(ALL_LANES, value, offset));
    return value;
}

// Every thread gets the sum over the block (one-dimensional blocks of up to 1024 threads): each warp adds its own
// values, then every warp adds the up to 32 results of all warps. The second barrier protects `partial` until everyone
// has read it, because the next call writes there again.
static __device__ real block_sum(real value) {
    __shared__ real partial[WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    value = warp_sum(value);
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    value = warp_sum(lane < warps ? partial[lane] : (real)0);
    __syncthreads();
    return value;
}

static __device__ real block_max(real value) {
    __shared__ real partial[WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    value = warp_max(value);
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    value = warp_max(lane < warps ? partial[lane] : NEGATIVE_INFINITY);
    __syncthreads();
    return value;
}
