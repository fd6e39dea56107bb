// Tiles of attention in shared memory, and the two products on them.
//
// A thread computes a small rectangle of the score tile, R rows by C neighbouring columns, and the same R rows of the
// result: R + C loads from shared memory feed R * C multiply-adds. LANES neighbouring threads share their rows, so a
// row is summed by a few shuffles. Rows in shared memory are padded by one number: lanes of a warp, which read one
// column of different rows, then hit different banks (in float64: two lanes a bank at most).
// The weights of four neighbouring keys come from one Philox counter; one thread owns all four.
//
// Compile-time constants: HEAD, the width D rounded up to 32, 64, 128 or 256; QUERIES and TILE, the rows of a forward
// query tile and of all other tiles; THREADS of a block.
#pragma once
#include "common.cuh"

constexpr int ROW_BYTES = 256;  // so that all tiles of a kernel fit the 48 KB a block may have on any GPU
constexpr int WIDTH = HEAD * (int)sizeof(real) < ROW_BYTES ? HEAD : ROW_BYTES / (int)sizeof(real);
constexpr bool WHOLE_ROWS = WIDTH == HEAD;  // a tile holds the full width of its rows, not a part of it
typedef real Row[WIDTH + 1];
typedef real ScoreRow[TILE + 1];

// Which rows and columns of a tile are a thread's own. Lanes that share rows are in one warp.
template <int LANES_, int ROWS>
struct Layout {
    static constexpr int LANES = LANES_, GROUPS = THREADS / LANES;
    static constexpr int R = ROWS / GROUPS, C = TILE / LANES;
    static constexpr int E = HEAD / LANES, PART = WIDTH / LANES;  // columns of the result, LANES apart; those of a part
    static_assert(R * GROUPS == ROWS && C * LANES == TILE && WARP % LANES == 0, "tiles must divide evenly");
    const int lane = threadIdx.x % LANES, row = threadIdx.x / LANES * R, column = lane * C;
};
typedef Layout<8, QUERIES> Forward;
typedef Layout<8, TILE> QueryRows;
typedef Layout<THREADS / 8, TILE> KeyRows;
static_assert(Forward::C % 4 == 0 && QueryRows::C % 4 == 0 && KeyRows::R % 4 == 0, "four keys share a Philox counter");

// tile[i] = x[first + i, part ... part + WIDTH], zeros from `end` on and from D on.   x (end, D)
// Neighbouring threads read neighbouring numbers. Within a tile 32 bits are enough for an index, and cost half as much.
template <int ROWS>
__device__ inline void load_tile(Row* tile, const real* x, long long first, long long end, int part, long long D) {
    const real* from = x + first * D + part;
    const int rows = end - first < ROWS ? (int)(end - first) : ROWS, columns = (int)D - part, stride = (int)D;
#pragma unroll 4
    for (int i = threadIdx.x; i < ROWS * WIDTH; i += THREADS) {
        const int row = i / WIDTH, d = i % WIDTH;
        tile[row][d] = row < rows && d < columns ? from[row * stride + d] : (real)0;
    }
}

// s[r][c] += sum_d rows[r, d] columns[c, d]
template <int R, int C>
__device__ inline void add_dots(real (&s)[R][C], const Row* rows, const Row* columns) {
#pragma unroll 2
    for (int d = 0; d < WIDTH; d++) {
        real left[R], right[C];
        for (int r = 0; r < R; r++) left[r] = rows[r][d];
        for (int c = 0; c < C; c++) right[c] = columns[c][d];
        for (int r = 0; r < R; r++)
            for (int c = 0; c < C; c++) s[r][c] += left[r] * right[c];
    }
}

// acc[r][part + ...] += sum_j weights[r, j] x[j, ...]
template <class L>
__device__ inline void add_weighted(real (&acc)[L::R][L::E], const ScoreRow* weights, const Row* x, int part,
                                    int lane) {
#pragma unroll 2
    for (int j = 0; j < TILE; j++) {
        real weight[L::R];
        for (int r = 0; r < L::R; r++) weight[r] = weights[r][j];
#pragma unroll
        for (int e = 0; e < L::PART; e++) {
            const real value = x[j][lane + L::LANES * e];
            for (int r = 0; r < L::R; r++) acc[r][part / L::LANES + e] += weight[r] * value;
        }
    }
}

// y[first + r] = factor acc[r] for the rows before `end`.   y (end, D)
// The lanes of a row write at least 32 neighbouring bytes, the smallest piece in which memory is written.
template <class L>
__device__ inline void store_rows(real* y, const real (&acc)[L::R][L::E], real factor, long long first, long long end,
                                  int lane, long long D) {
    real* to = y + first * D + lane;
#pragma unroll
    for (int r = 0; r < L::R; r++)
#pragma unroll
        for (int e = 0; e < L::E; e++)
            if (first + r < end && lane + L::LANES * e < D) to[r * (int)D + L::LANES * e] = factor * acc[r][e];
}
