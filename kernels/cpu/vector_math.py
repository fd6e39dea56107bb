"""exp that the compiler can vectorise. The C library's works on one number a call, which is most of a softmax's time.

    exp(x) = 2ⁿ · exp(r),  n = round(x / ln 2),  r = x - n ln 2, |r| ≤ 0.35

exp(r) is its Taylor series, cut where the next term is below half a unit in the last place: degree 7 in float32
(0.35⁸/8! = 6e-9), 13 in float64 (0.35¹⁴/14! = 5e-18). 2ⁿ is made by writing n into the exponent bits. ln 2 is
subtracted in two parts so that n ln 2 carries no rounding error, and these functions are compiled without `reassoc`,
which would join the parts again. NaN stays NaN, -inf gives 0, +inf gives inf; results too small for a normal
number become 0. Largest relative error over all arguments: 2 units in the last place (tests hold that).

Measured on one core over three million numbers: 0.6 ns each in float32 and 1.9 ns in float64, against 2.6 and 10.3 ns
with NumPy's exp (which also had to report overflows there).
"""

import math

import numpy as np
from numba import types
from numba.extending import overload

from kernels.cpu.jit import EXACT_FLAGS, kernel

F = np.float32
LOG2E_32, LN2_HIGH_32, LN2_LOW_32 = F(1 / math.log(2)), F(0.693359375), F(math.log(2) - 0.693359375)
LOWEST_32, HIGHEST_32 = F(-87.33654), F(88.72283)
C2, C3, C4, C5, C6, C7 = (F(1 / math.factorial(k)) for k in range(2, 8))
ONE_32, HALF_32, ZERO_32, INF_32 = F(1), F(0.5), F(0), F(np.inf)

LOG2E_64, LN2_HIGH_64 = 1 / math.log(2), 0.6931471803691238
LN2_LOW_64 = 1.9082149292705877e-10  # ln 2 - LN2_HIGH_64, whose last 32 bits are zero: n · high is exact
LOWEST_64, HIGHEST_64 = -708.3964185322641, 709.782712893384
E2, E3, E4, E5, E6, E7, E8, E9, E10, E11, E12, E13 = (1 / math.factorial(k) for k in range(2, 14))


@kernel(flags=EXACT_FLAGS)
def exp32(x):
    clipped = LOWEST_32 if x < LOWEST_32 else x  # written so that NaN passes through
    clipped = HIGHEST_32 if clipped > HIGHEST_32 else clipped
    n = np.floor(clipped * LOG2E_32 + HALF_32)
    r = (clipped - n * LN2_HIGH_32) - n * LN2_LOW_32
    series = ONE_32 + r * (ONE_32 + r * (C2 + r * (C3 + r * (C4 + r * (C5 + r * (C6 + r * C7))))))
    # n may reach 128, whose exponent does not fit: half of it goes into a second factor
    half = np.int32(n) >> 1
    rest = np.int32(n) - half
    first = np.int32((half + 127) << 23).view(np.float32)
    second = np.int32((rest + 127) << 23).view(np.float32)
    y = series * first * second
    y = ZERO_32 if x < LOWEST_32 else y
    return INF_32 if x > HIGHEST_32 else y


@kernel(flags=EXACT_FLAGS)
def exp64(x):
    clipped = LOWEST_64 if x < LOWEST_64 else x
    clipped = HIGHEST_64 if clipped > HIGHEST_64 else clipped
    n = np.floor(clipped * LOG2E_64 + 0.5)
    r = (clipped - n * LN2_HIGH_64) - n * LN2_LOW_64
    tail = E8 + r * (E9 + r * (E10 + r * (E11 + r * (E12 + r * E13))))
    series = 1.0 + r * (1.0 + r * (E2 + r * (E3 + r * (E4 + r * (E5 + r * (E6 + r * (E7 + r * tail)))))))
    # through int32 because AVX2 converts doubles to 32-bit integers only
    half = np.int64(np.int32(n) >> 1)
    rest = np.int64(np.int32(n)) - half
    first = np.int64((half + 1023) << 52).view(np.float64)
    second = np.int64((rest + 1023) << 52).view(np.float64)
    y = series * first * second
    y = 0.0 if x < LOWEST_64 else y
    return np.inf if x > HIGHEST_64 else y


def by_precision(of_32, of_64):
    """A function for kernels: of_32(x) or of_64(x), by the precision of x, inlined into its callers."""

    def function(x):
        return of_64(x)

    @overload(function, jit_options={"forceinline": True})
    def compiled(x):
        return (lambda x: of_32(x)) if x == types.float32 else (lambda x: of_64(x))

    return function


def exp(x):
    """exp(x) inside a kernel, in the precision of x. Called outside compiled code it is NumPy's."""
    return np.exp(x)


@overload(exp)
def _compiled_exp(x):
    if x == types.float32:
        return lambda x: exp32(x)
    return lambda x: exp64(x)
