// Rotary positions: pair i of the row at position p is turned by the angle p base^(-2 i / D).
//
// Two kernels. The table of cosines and sines is small, for all heads share it, and all sequences unless each has
// positions of its own; so its angles can be formed in double whatever `real` is: far from the start, float would have
// lost most digits of the turn. The turning reads x and the table and writes y: 2 B H T D numbers cross memory, 3 B H T D
// flops. Neighbouring threads work on neighbouring pairs. No shared memory, no barriers.
//
// Whole turns are taken off before the cosine: CUDA's cos, which takes any angle, carries a path for huge ones that needs
// memory of its own for each thread. 2 pi is subtracted in two parts, so that nothing is lost.
#include "common.cuh"

#define TURN 6.283185307179586             // 2 pi
#define TURN_LOW 2.4492935982947064e-16    // 2 pi - TURN

// cosines, sines (rows, half); positions (rows); frequencies (half): base^(-2 i / D), the bits of a double each, since a
// pointer to `real` would be one to floats here.   rows half writes, rows + half reads
extern "C" __global__ void rotary_table(real* __restrict__ cosines, real* __restrict__ sines,
                                        const long long* __restrict__ positions,
                                        const unsigned long long* __restrict__ frequencies, long long rows,
                                        long long half) {
    GRID_STRIDE_LOOP(at, rows * half) {
        const long long row = at / half, i = at - row * half;
        const double angle = (double)positions[row] * __longlong_as_double((long long)frequencies[i]);
        const double turns = rint(angle / TURN);
        const double rest = fma(-turns, TURN_LOW, fma(-turns, TURN, angle));  // within half a turn, to the last place
        cosines[at] = (real)cospi(rest / (TURN / 2));
        sines[at] = (real)sinpi(rest / (TURN / 2));
    }
}

// Pair i of a row: columns 2 i and 2 i + 1 if interleaved, else i and i + half.
// y, x (rows, 2 half), where a sequence has `rows_each` rows and T of them make a head; cosines, sines (T, half) if all
// sequences are at the same positions, else (B T, half)
extern "C" __global__ void rotary_turn(real* __restrict__ y, const real* __restrict__ x,
                                       const real* __restrict__ cosines, const real* __restrict__ sines, long long rows,
                                       long long half, long long T, long long rows_each, int own_positions,
                                       int interleaved) {
    GRID_STRIDE_LOOP(at, rows * half) {
        const long long row = at / half, i = at - row * half;
        const long long angle = ((own_positions ? row / rows_each * T : 0) + row % T) * half + i;
        const long long left = 2 * row * half + (interleaved ? 2 * i : i);
        const long long right = left + (interleaved ? 1 : half);
        const real a = x[left], b = x[right], cosine = cosines[angle], sine = sines[angle];
        y[left] = a * cosine - b * sine;
        y[right] = b * cosine + a * sine;
    }
}
