"""Dropout (see reference/dropout.py): launches dropout.cu, a warp for each 128 elements: 32 Philox calls."""

from kernels.cuda.launcher import launch, module_of
from kernels.gpu.grid import BLOCK, THREADS, WARP, contiguous, for_warps
from kernels.reference.dropout import keep_factor
from kernels.reference.philox import threshold

STRIP = 4 * WARP
VARIANTS = [{"THREADS": THREADS}]


def key(seed) -> int:
    """A seed of any size and sign as the 64-bit key."""
    return int(seed) & 0xFFFFFFFFFFFFFFFF


def dropout(x, p, seed):
    """y = x · keep / (1 - p).   x of any shape"""
    y = module_of(x).empty(x.shape, dtype=x.dtype)
    args = (y, contiguous(x), x.size, threshold(p), keep_factor(p, x.dtype), key(seed))
    launch("dropout", "dropout", for_warps(-(-x.size // STRIP)), BLOCK, args, x.dtype, VARIANTS[0])
    return y
