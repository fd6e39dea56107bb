"""How many blocks a launch gets, and arrays in the form that the kernels take.

The kernels walk over whatever the grid leaves over (the stride loops of common.cuh), and no result depends on the size
of the grid, so it is chosen for speed alone: enough blocks to fill a large GPU, and no more.
"""

from kernels.cuda.launcher import module_of

WARP = 32
THREADS = 128  # a block: four warps
BLOCK = (THREADS,)
MOST_BLOCKS = 2048
MOST_THREADS = 256
PER_THREAD = 4  # elements: as many loads on their way at once, and fewer threads to start


def for_elements(n: int) -> tuple[int]:
    """The grid of a kernel with a GRID_STRIDE_LOOP over n elements."""
    return (min(MOST_BLOCKS, -(-n // (THREADS * PER_THREAD))),)


def for_warps(n: int) -> tuple[int]:
    """The grid of a kernel with a WARP_STRIDE_LOOP over n rows."""
    return (min(MOST_BLOCKS, -(-n * WARP // THREADS)),)


def for_blocks(n: int) -> tuple[int]:
    """The grid of a kernel that takes a row a block."""
    return (min(MOST_BLOCKS, n),)


def block_along(n: int) -> tuple[int]:
    """The block that works on a row of n elements: some 32 elements a thread, so that a short row does not keep idle
    threads waiting at barriers. The order of a sum depends on this, and so on n alone."""
    return (min(MOST_THREADS, WARP * max(1, -(-n // (WARP * 32)))),)


def for_columns(row_blocks: int, columns: int) -> tuple[int, int]:
    """The grid of a kernel with a COLUMN_LOOP: exactly one block of threads for each block of rows."""
    return row_blocks, min(MOST_BLOCKS, -(-columns // THREADS))


def contiguous(array):
    """The array itself, or a copy in row order: kernels take plain pointers."""
    array = module_of(array).asarray(array)  # NumPy's scalars become arrays without axes
    return array if array.flags.c_contiguous else array.copy(order="C")


def flat(array):
    """The same as one long row."""
    return contiguous(array).reshape(-1)


def ids64(array):
    """Integers as the kernels take them."""
    return module_of(array).ascontiguousarray(array, dtype="int64")
