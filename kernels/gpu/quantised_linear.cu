// Weights of eight or four bits: unpacked into memory for many rows (the product is then the vendor's BLAS's), or in
// registers for a few. A block of 32 weights is what a warp takes, a weight a lane.
#include "common.cuh"

#define Q8_0 0
#define Q4_1 1
#define BYTES(kind) ((kind) == Q8_0 ? 34 : 20)

// The float16 at this place, exactly. Its 5 bits of exponent and 10 of mantissa are moved to where float has them, as a
// number that is 2^112 times too small; that is also right for the smallest ones, which have no leading 1.
static __device__ float half_at(const unsigned char* place) {
    const unsigned bits = place[0] | (unsigned)place[1] << 8, size = (bits & 0x7fffu) << 13;
    const bool finite = (bits & 0x7c00u) != 0x7c00u;
    const float magnitude = finite ? __uint_as_float(size) * 0x1p112f : __uint_as_float(size | 0x7f800000u);
    return bits & 0x8000u ? -magnitude : magnitude;
}

// Weight i of a block: scale q, or scale q + least. The product is exact (11 bits times 8 at most), so it does not matter
// whether a compiler fuses it with the sum.
static __device__ float weight_of(const unsigned char* block, int i, int kind) {
    const float scale = half_at(block);
    if (kind == Q8_0) return scale * (signed char)block[2 + i];
    const int both = block[4 + i % 16], q = i < 16 ? both & 15 : both >> 4;
    return scale * q + half_at(block + 2);
}

// w = the weights of n blocks, as float32: `real` is float here.   w (32 n); weight (n blocks).
// Reads 20 or 34 bytes a block, writes 128, 64 flops.
extern "C" __global__ void unpack(real* __restrict__ w, const unsigned char* __restrict__ weight, long long n, int kind) {
    const int lane = threadIdx.x % WARP;
    WARP_STRIDE_LOOP(b, n) w[b * WARP + lane] = weight_of(weight + b * BYTES(kind), lane, kind);
}

// y[n, f] = sum over c of x[n, c] w[f, c]: one warp a result, one block of weights at a time.
// y (N, F); x (N, 32 K); weight (F, K blocks).   Reads N F K blocks and as many times 32 numbers of x, which the caches
// serve from the second row on; writes N F; 4 N F C flops.
extern "C" __global__ void dot_rows(real* __restrict__ y, const real* __restrict__ x,
                                    const unsigned char* __restrict__ weight, long long N, long long F, long long K,
                                    int kind) {
    const int lane = threadIdx.x % WARP;
    WARP_STRIDE_LOOP(task, N * F) {
        const long long n = task / F, f = task - n * F;
        const real* row = x + n * K * WARP;
        const unsigned char* block = weight + f * K * BYTES(kind);
        LongSum sum;
        for (long long b = 0; b < K; b++, block += BYTES(kind)) {
            sum.add(row[b * WARP + lane] * weight_of(block, lane, kind));
        }
        const real total = warp_sum(sum.total());
        if (lane == 0) y[task] = total;
    }
}
