// A number that tells whether an array is still what it was: how autograd notices a change in place. Reads x once.
//
// Chain t mixes words t, t + chains, ... in this order; a second kernel mixes the chains, in a fixed order too, into
// one 64-bit number. Each chain has a start of its own, because mix(a, b) = mix(b, a): the words of two chains could
// change places otherwise. How many chains there are depends on the size of x alone. Every step is one to one: a change
// of a single word is always seen, any other is missed about once in 2^64.
#include "common.cuh"

// A product moves differences upwards only: without the shift, the low half would never learn of a sign.
static __device__ unsigned long long mix(unsigned long long hash, unsigned long long word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15ull;
    return hash ^ (hash >> 32);
}

#define START 0xCBF29CE484222325ull

// chain (chains); words (n): the bits of x, two words to a double
extern "C" __global__ void fingerprint_chains(unsigned long long* __restrict__ chain,
                                              const unsigned int* __restrict__ words, long long n, long long chains) {
    GRID_STRIDE_LOOP(t, chains) {
        unsigned long long hash = START + t;
        for (long long i = t; i < n; i += chains) hash = mix(hash, words[i]);
        chain[t] = hash;
    }
}

// mark (1); chain (chains). By a single block: each thread joins its chains, then the first joins the threads.
extern "C" __global__ void fingerprint_join(unsigned long long* __restrict__ mark,
                                            const unsigned long long* __restrict__ chain, long long chains) {
    __shared__ unsigned long long joined[THREADS];
    unsigned long long hash = START;
    BLOCK_STRIDE_LOOP(t, chains) hash = mix(hash, chain[t]);
    joined[threadIdx.x] = hash;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 1; t < THREADS; t++) hash = mix(hash, joined[t]);
        mark[0] = hash;
    }
}
