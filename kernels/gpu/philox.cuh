// Philox 4x32-10 (see reference/philox.py): four random 32-bit words from four counter words and a 64-bit key.
// Ten rounds of two 32 x 32 -> 64 bit products; no state, no memory. The same words as on the other tiers.
#pragma once

struct Words {
    unsigned int word[4];
};

__device__ inline Words philox(unsigned int c0, unsigned int c1, unsigned int c2, unsigned int c3,
                               unsigned long long seed) {
    unsigned int key0 = (unsigned int)seed;
    unsigned int key1 = (unsigned int)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const unsigned long long product0 = c0 * 0xD2511F53ull;
        const unsigned long long product1 = c2 * 0xCD9E8D57ull;
        c0 = (unsigned int)(product1 >> 32) ^ c1 ^ key0;
        c2 = (unsigned int)(product0 >> 32) ^ c3 ^ key1;
        c1 = (unsigned int)product1;
        c3 = (unsigned int)product0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return Words{{c0, c1, c2, c3}};
}

// An element is dropped when its random word lies below the limit p * 2^32, which for p near 1 needs 33 bits.
__device__ inline bool is_kept(unsigned int word, unsigned long long limit) { return word >= limit; }
