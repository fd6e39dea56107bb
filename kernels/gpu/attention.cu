// Attention in tiles (flash attention): scores are computed, used and forgotten a tile at a time, so no (T, S) array
// ever exists. A block keeps a tile of rows in shared memory and streams the tiles of the other side past it.
//
//   forward   rows = 64 queries, streamed: k, v. Online softmax: for each query the largest score m so far, the sum l
//             of exp(score - m) and the weighted values acc. A tile that raises m first shrinks l and acc by
//             exp(m_old - m_new). At the end out = acc / l and lse = m + log l.
//   backward  p = exp(score - lse) again from q and k; with z the dropout factors and delta = sum_d dout out:
//             dv = (p z)^T dout;  ds = p (z (dout v^T) - delta);  dq = scale ds k;  dk = scale ds^T q.
//             One kernel owns dq (rows = 32 queries), one owns dk and dv (rows = 32 keys): every number has one writer
//             and one order of adding, so there are no atomics and the bits do not depend on the schedule.
//
// Tiles above the diagonal or behind key_lengths are never visited; what stands behind key_lengths is never read.
// Flops a visible pair and head: forward 4D; dq 6D; dk and dv 8D, since both compute the scores and dout v^T.
// Reads: forward q once, k and v once per 64 queries; dq: q, dout once, k and v once per 32 queries; dk, dv: k, v once,
// q and dout once per 32 keys. Where D is above WIDTH, tiles come in parts of WIDTH columns: the parts of the row tile
// are then read again with every streamed tile, and so is whatever the backward multiplies twice. Writes: each result
// once. Care: -inf is never a large negative number, and never meets another -inf in a difference.
//
// Groups: `sharing` = H/G query heads read the same keys and values. The blocks of these heads are neighbours in the
// grid, so that they find them in the second-level cache; the block that owns dk and dv of a tile of keys keeps it in
// shared memory while all heads of the group pass by, one after another. A single query a head (T = 1) comes as one tile
// of all heads of its group: attention.py.
//
// `head` is b*H + h, `heads` is B*H, `groups` is B*G; head / sharing is the group of a head.
// How tiles are laid out and multiplied: attention_tile.cuh.
#include "attention_tile.cuh"
#include "common.cuh"
#include "philox.cuh"

struct Mask {
    long long keys;  // so many exist for this head
    int is_causal;
    long long query_offset;
    // Query t sees the keys before this one.
    __device__ inline long long visible_keys(long long t) const {
        return is_causal && t + query_offset + 1 < keys ? t + query_offset + 1 : keys;
    }
};

// The softmax weight again from the saved log-sum-exp; nothing for what cannot be seen, or in a row that saw nothing.
__device__ inline real weight_of(real score, real lse, bool is_visible) {
    return is_visible && lse != NEGATIVE_INFINITY ? exp(score - lse) : (real)0;
}

struct Dropout {
    unsigned long long limit, seed;
    real factor;
    long long head;
    // 0 or 1/(1-p) for the weights of query t and four keys from this one on
    __device__ inline void factors(real (&z)[4], long long key, long long t) const {
        for (int i = 0; i < 4; i++) z[i] = 1;
        if (limit == 0 && factor == 1) return;
        const Words random = philox((unsigned int)(key / 4), (unsigned int)t, (unsigned int)head, 1u, seed);
        for (int i = 0; i < 4; i++) z[i] = is_kept(random.word[i], limit) ? factor : (real)0;
    }
};

// out, q (heads, T, D); lse (heads, T); k, v (groups, S, D); key_lengths (B).   Grid: heads * tiles of QUERIES queries
extern "C" __global__ void __launch_bounds__(THREADS)
    attention_forward(real* out, real* lse, const real* q, const real* k, const real* v, const long long* key_lengths,
                      long long H, long long sharing, long long T, long long S, long long D, int is_causal,
                      long long query_offset, real scale, unsigned long long limit, real factor,
                      unsigned long long seed) {
    typedef Forward L;
    __shared__ Row q_tile[QUERIES];
    __shared__ Row kv_tile[TILE];
    __shared__ ScoreRow p_tile[QUERIES];
    const L own;
    const long long tiles = (T + QUERIES - 1) / QUERIES, head = blockIdx.x / tiles;
    const long long first = (tiles - 1 - blockIdx.x % tiles) * QUERIES;  // causal: the longest work starts first
    const long long keys = key_lengths[head / H];
    const Mask mask = {keys, is_causal, query_offset};
    const Dropout dropout = {limit, seed, factor, head};
    out += head * T * D, q += head * T * D, lse += head * T;
    k += head / sharing * S * D, v += head / sharing * S * D;

    real acc[L::R][L::E] = {}, m[L::R], l[L::R] = {};
    for (int r = 0; r < L::R; r++) m[r] = NEGATIVE_INFINITY;
    const long long last = first + QUERIES < T ? first + QUERIES - 1 : T - 1;
    const long long end = mask.visible_keys(last);
    for (long long start = 0; start < end; start += TILE) {
        real p[L::R][L::C] = {};
        for (int part = 0; part < HEAD; part += WIDTH) {
            __syncthreads();  // everybody is done with what is overwritten now
            if (!WHOLE_ROWS || start == 0) load_tile<QUERIES>(q_tile, q, first, T, part, D);
            load_tile<TILE>(kv_tile, k, start, keys, part, D);
            __syncthreads();
            add_dots(p, q_tile + own.row, kv_tile + own.column);
        }
#pragma unroll
        for (int r = 0; r < L::R; r++) {
            const long long t = first + own.row + r;
            const long long seen = mask.visible_keys(t) - start;
            real top = m[r];
            for (int c = 0; c < L::C; c++) {
                p[r][c] = own.column + c < seen ? p[r][c] * scale : NEGATIVE_INFINITY;
                top = larger(p[r][c], top);
            }
            for (int offset = L::LANES / 2; offset > 0; offset /= 2)
                top = larger(top, __shfl_xor_sync(ALL_LANES, top, offset));
            // all scores -inf so far: exp must see -inf - 0, not -inf - -inf
            const real shift = top == NEGATIVE_INFINITY ? (real)0 : top;
            const real shrink = exp(m[r] - shift);
            real total = 0;
            for (int c = 0; c < L::C; c++) total += p[r][c] = exp(p[r][c] - shift);
            for (int offset = L::LANES / 2; offset > 0; offset /= 2)
                total += __shfl_xor_sync(ALL_LANES, total, offset);
            m[r] = top;
            l[r] = l[r] * shrink + total;
            for (int e = 0; e < L::E; e++) acc[r][e] *= shrink;
            for (int c = 0; c < L::C; c += 4) {
                real z[4];
                dropout.factors(z, start + own.column + c, t);
                for (int i = 0; i < 4; i++) p_tile[own.row + r][own.column + c + i] = p[r][c + i] * z[i];
            }
        }
#pragma unroll
        for (int part = 0; part < HEAD; part += WIDTH) {
            __syncthreads();
            load_tile<TILE>(kv_tile, v, start, keys, part, D);
            __syncthreads();
            add_weighted<L>(acc, p_tile + own.row, kv_tile, part, own.lane);
        }
    }
#pragma unroll
    for (int r = 0; r < L::R; r++) {
        const long long t = first + own.row + r;
        const bool is_empty = l[r] == 0;  // no key was visible: zeros
        for (int e = 0; e < L::E; e++) acc[r][e] = is_empty ? (real)0 : acc[r][e] / l[r];
        if (own.lane == 0 && t < T) lse[t] = is_empty ? NEGATIVE_INFINITY : m[r] + log(l[r]);
    }
    store_rows<L>(out, acc, 1, first + own.row, T, own.lane, D);
}

// delta[n] = sum_d dout[n, d] out[n, d]; a warp a row.   dout, out (N, D); delta (N); 2ND flops, 2ND reads, N writes
extern "C" __global__ void __launch_bounds__(THREADS)
    attention_delta(real* delta, const real* dout, const real* out, long long N, long long D) {
    const long long n = (long long)blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    real total = 0;
    if (n < N)
        for (long long d = lane; d < D; d += WARP) total += dout[n * D + d] * out[n * D + d];
    total = warp_sum(total);
    if (n < N && lane == 0) delta[n] = total;
}

// dq, dout, q (heads, T, D); k, v (groups, S, D); lse, delta (heads, T); key_lengths (B).   Grid: heads * query tiles
extern "C" __global__ void __launch_bounds__(THREADS)
    attention_backward_queries(real* dq, const real* dout, const real* q, const real* k, const real* v, const real* lse,
                               const real* delta, const long long* key_lengths, long long H, long long sharing,
                               long long T, long long S, long long D, int is_causal, long long query_offset, real scale,
                               unsigned long long limit, real factor, unsigned long long seed) {
    typedef QueryRows L;
    __shared__ Row q_tile[TILE];
    __shared__ Row dout_tile[TILE];
    __shared__ Row k_tile[TILE];
    __shared__ Row v_tile[TILE];
    __shared__ ScoreRow ds_tile[TILE];
    const L own;
    const long long tiles = (T + TILE - 1) / TILE, head = blockIdx.x / tiles;
    const long long first = (tiles - 1 - blockIdx.x % tiles) * TILE;
    const long long keys = key_lengths[head / H];
    const Mask mask = {keys, is_causal, query_offset};
    const Dropout dropout = {limit, seed, factor, head};
    dq += head * T * D, k += head / sharing * S * D, v += head / sharing * S * D;
    dout += head * T * D, q += head * T * D, lse += head * T, delta += head * T;

    real acc[L::R][L::E] = {};
    const long long last = first + TILE < T ? first + TILE - 1 : T - 1;
    const long long end = mask.visible_keys(last);
    for (long long start = 0; start < end; start += TILE) {
        real s[L::R][L::C] = {}, dp[L::R][L::C] = {};
        for (int part = 0; part < HEAD; part += WIDTH) {
            __syncthreads();
            if (!WHOLE_ROWS || start == 0) {
                load_tile<TILE>(q_tile, q, first, T, part, D);
                load_tile<TILE>(dout_tile, dout, first, T, part, D);
            }
            load_tile<TILE>(k_tile, k, start, keys, part, D);
            load_tile<TILE>(v_tile, v, start, keys, part, D);
            __syncthreads();
            add_dots(s, q_tile + own.row, k_tile + own.column);
            add_dots(dp, dout_tile + own.row, v_tile + own.column);
        }
#pragma unroll
        for (int r = 0; r < L::R; r++) {
            const long long t = first + own.row + r;
            const long long seen = t < T ? mask.visible_keys(t) - start : 0;
            const real shift = t < T ? lse[t] : (real)0, mean = t < T ? delta[t] : (real)0;
            for (int c = 0; c < L::C; c += 4) {
                real z[4];
                dropout.factors(z, start + own.column + c, t);
                for (int i = 0; i < 4; i++) {
                    const real p = weight_of(s[r][c + i] * scale, shift, own.column + c + i < seen);
                    ds_tile[own.row + r][own.column + c + i] = p * (z[i] * dp[r][c + i] - mean);
                }
            }
        }
        __syncwarp(ALL_LANES);  // a row of ds_tile is written and read within one warp
#pragma unroll
        for (int part = 0; part < HEAD; part += WIDTH) {
            if (!WHOLE_ROWS) {
                __syncthreads();
                load_tile<TILE>(k_tile, k, start, keys, part, D);
                __syncthreads();
            }
            add_weighted<L>(acc, ds_tile + own.row, k_tile, part, own.lane);
        }
    }
    store_rows<L>(dq, acc, scale, first + own.row, T, own.lane, D);
}

// Blocks that shall fit on a multiprocessor at once: up to 128 registers a thread where the two results in registers
// leave room for that. Without a word from us the assembler tries for more blocks, and moves registers to memory.
constexpr int BLOCKS = sizeof(real) == 4 && HEAD <= 128 ? 512 / THREADS : 1;

// dk, dv, k, v (groups, S, D); dout, q (heads, T, D); lse, delta (heads, T); key_lengths (B).   Grid: groups * key tiles
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attention_backward_keys(real* dk, real* dv, const real* dout, const real* q, const real* k, const real* v,
                            const real* lse, const real* delta, const long long* key_lengths, long long H,
                            long long sharing, long long T, long long S, long long D, int is_causal,
                            long long query_offset, real scale, unsigned long long limit, real factor,
                            unsigned long long seed) {
    typedef KeyRows L;
    __shared__ Row k_tile[TILE];
    __shared__ Row v_tile[TILE];
    __shared__ Row q_tile[TILE];
    __shared__ Row dout_tile[TILE];
    __shared__ ScoreRow s_tile[TILE];  // [key][query]: transposed, so that the sums run over queries
    const L own;
    const long long tiles = (S + TILE - 1) / TILE, group = blockIdx.x / tiles, head = group * sharing;
    const long long first = blockIdx.x % tiles * TILE;  // causal: early keys are seen by most queries and start first
    const long long keys = key_lengths[head / H];
    const Mask mask = {keys, is_causal, query_offset};
    Dropout dropout = {limit, seed, factor, head};
    dk += group * S * D, dv += group * S * D, k += group * S * D, v += group * S * D;
    dout += head * T * D, q += head * T * D, lse += head * T, delta += head * T;

    real dk_acc[L::R][L::E] = {}, dv_acc[L::R][L::E] = {};
    long long begin = is_causal && first > query_offset ? (first - query_offset) / TILE * TILE : 0;
    if (first >= keys) begin = T;  // nobody sees these keys; their gradients are zeros
    if (WHOLE_ROWS && begin < T) {  // these stay for all heads of the group
        load_tile<TILE>(k_tile, k, first, keys, 0, D);
        load_tile<TILE>(v_tile, v, first, keys, 0, D);
    }
    for (int rest = (int)sharing; rest > 0; rest--) {
        for (long long start = begin; start < T; start += TILE) {
            real s[L::R][L::C] = {}, dp[L::R][L::C] = {};
            for (int part = 0; part < HEAD; part += WIDTH) {
                __syncthreads();
                if (!WHOLE_ROWS) {
                    load_tile<TILE>(k_tile, k, first, keys, part, D);
                    load_tile<TILE>(v_tile, v, first, keys, part, D);
                }
                load_tile<TILE>(q_tile, q, start, T, part, D);
                load_tile<TILE>(dout_tile, dout, start, T, part, D);
                __syncthreads();
                add_dots(s, k_tile + own.row, q_tile + own.column);
                add_dots(dp, v_tile + own.row, dout_tile + own.column);
            }
#pragma unroll
            for (int c = 0; c < L::C; c++) {
                const long long t = start + own.column + c;
                const long long seen = t < T ? mask.visible_keys(t) - first : 0;
                const real shift = t < T ? lse[t] : (real)0, mean = t < T ? delta[t] : (real)0;
#pragma unroll
                for (int r = 0; r < L::R; r += 4) {
                    real z[4];
                    dropout.factors(z, first + own.row + r, t);
                    for (int i = 0; i < 4; i++) {
                        const real p = weight_of(s[r + i][c] * scale, shift, own.row + r + i < seen);
                        s_tile[own.row + r + i][own.column + c] = p * z[i];
                        s[r + i][c] = p * (z[i] * dp[r + i][c] - mean);  // from here on s holds ds
                    }
                }
            }
            __syncwarp(ALL_LANES);  // a row of s_tile is written and read within one warp
#pragma unroll
            for (int part = 0; part < HEAD; part += WIDTH) {
                if (!WHOLE_ROWS) {
                    __syncthreads();
                    load_tile<TILE>(dout_tile, dout, start, T, part, D);
                    __syncthreads();
                }
                add_weighted<L>(dv_acc, s_tile + own.row, dout_tile, part, own.lane);
            }
            __syncwarp(ALL_LANES);
            for (int r = 0; r < L::R; r++)
                for (int c = 0; c < L::C; c++) s_tile[own.row + r][own.column + c] = s[r][c];
            __syncwarp(ALL_LANES);
#pragma unroll
            for (int part = 0; part < HEAD; part += WIDTH) {
                if (!WHOLE_ROWS) {
                    __syncthreads();
                    load_tile<TILE>(q_tile, q, start, T, part, D);
                    __syncthreads();
                }
                add_weighted<L>(dk_acc, s_tile + own.row, q_tile, part, own.lane);
            }
        }
        dout += T * D, q += T * D, lse += T, delta += T, dropout.head++;  // the next head of the group
    }
    store_rows<L>(dk, dk_acc, scale, first + own.row, S, own.lane, D);
    store_rows<L>(dv, dv_acc, 1, first + own.row, S, own.lane, D);
}
