"""The product of two small matrices that lie in the cache: the inside of tiled attention.

Four rows of `a` times four of its columns are held as sixteen numbers; one sweep along the rows of `b` and `acc`
then does sixteen multiply-adds for four loads of b and four loads and stores of acc. Measured on tiles of 64 × 104 by
104 × J in float32 on one core of a busy machine: 37 to 45 GFLOPS. Two rows by four columns, and two by eight, had
20 to 27 at J = 64 and 104.
"""

from kernels.cpu.jit import kernel


@kernel
def matmul_add(acc, a, b):
    """acc += a b.   acc (R, J); a (R, K), any strides; b (K, J). R and K are multiples of 4: tiles are padded."""
    R, K = a.shape
    J = b.shape[1]
    for i in range(0, R, 4):
        for k in range(0, K, 4):
            a00, a01, a02, a03 = a[i, k], a[i, k + 1], a[i, k + 2], a[i, k + 3]
            a10, a11, a12, a13 = a[i + 1, k], a[i + 1, k + 1], a[i + 1, k + 2], a[i + 1, k + 3]
            a20, a21, a22, a23 = a[i + 2, k], a[i + 2, k + 1], a[i + 2, k + 2], a[i + 2, k + 3]
            a30, a31, a32, a33 = a[i + 3, k], a[i + 3, k + 1], a[i + 3, k + 2], a[i + 3, k + 3]
            for j in range(J):
                b0, b1, b2, b3 = b[k, j], b[k + 1, j], b[k + 2, j], b[k + 3, j]
                acc[i, j] += a00 * b0 + a01 * b1 + a02 * b2 + a03 * b3
                acc[i + 1, j] += a10 * b0 + a11 * b1 + a12 * b2 + a13 * b3
                acc[i + 2, j] += a20 * b0 + a21 * b1 + a22 * b2 + a23 * b3
                acc[i + 3, j] += a30 * b0 + a31 * b1 + a32 * b2 + a33 * b3


@kernel
def load_rows(tile, source, first, count, factor):
    """tile[i] = factor · source[first + i] for i < count, zeros elsewhere.   tile (R, J); source (n, D), any strides"""
    tile[:] = 0
    for i in range(count):
        for d in range(source.shape[1]):
            tile[i, d] = source[first + i, d] * factor


@kernel
def load_columns(tile, source, first, count):
    """tile[d, j] = source[first + j, d]: the same rows, transposed.   tile (J, R); source (n, D), any strides"""
    tile[:] = 0
    for j in range(count):
        for d in range(source.shape[1]):
            tile[d, j] = source[first + j, d]
