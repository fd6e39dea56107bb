// Dropout: each element becomes 0 with probability p, else is multiplied by factor = 1 / (1 - p). Backward is the same
// function on dy: the mask is computed again from the seed, and nothing is stored.
//
// Element i takes word i mod 4 of counter (i div 4). A warp works on 128 neighbouring elements: each lane makes the
// four words of one counter, and the lanes hand them over through shared memory, because lane l shall read and write
// element l of each 32 (one cache line of floats), not four in a row (four lines for every load). Reads n, writes n,
// some 100 integer operations for four elements.
#include "common.cuh"
#include "philox.cuh"

#define STRIP (4 * WARP)

// y, x (n); limit = p 2^32
extern "C" __global__ void dropout(real* __restrict__ y, const real* __restrict__ x, long long n,
                                   unsigned long long limit, real factor, unsigned long long seed) {
    // [warp][word][counter]. A row is 8 longer than a warp: the 4 words of 8 counters then lie in 32 different banks.
    __shared__ unsigned int words[THREADS / WARP][4][WARP + 8];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    WARP_STRIDE_LOOP(strip, (n + STRIP - 1) / STRIP) {
        const long long counter = strip * WARP + lane;
        const Words random = philox((unsigned int)counter, (unsigned int)(counter >> 32), 0, 0, seed);
        for (int j = 0; j < 4; j++) words[warp][j][lane] = random.word[j];
        __syncwarp(ALL_LANES);
        for (int quarter = 0; quarter < 4; quarter++) {
            const long long i = strip * STRIP + quarter * WARP + lane;
            const unsigned int word = words[warp][lane % 4][quarter * 8 + lane / 4];
            if (i < n) {
                const real kept = x[i] * factor;
                y[i] = is_kept(word, limit) ? kept : (real)0;
            }
        }
        __syncwarp(ALL_LANES);  // the next strip overwrites the words
    }
}
