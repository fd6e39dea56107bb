"""What this machine can do at best: products of large matrices, and reading and writing memory."""

import platform
import time
from functools import cache
from pathlib import Path

import numpy as np


@cache
def _square() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((2048, 2048), dtype=np.float32)


def sgemm_peak(tries: int = 3) -> float:
    """GFLOPS of a 2,048² single-precision product by NumPy's BLAS with all its threads, the best of a few."""
    a = _square()
    best = float("inf")
    for _ in range(tries):
        start = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - start)
    return 2 * len(a) ** 3 / best / 1e9


def bandwidth(tries: int = 15) -> float:
    """GB/s of a += b over 256 MB by all threads: two reads and one write an element."""
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def add(a, b):
        for i in numba.prange(a.size):
            a[i] += b[i]

    a, b = np.ones(2**25, np.float32), np.ones(2**25, np.float32)
    add(a, b)
    best = float("inf")
    for _ in range(tries):
        start = time.perf_counter()
        add(a, b)
        best = min(best, time.perf_counter() - start)
    return 3 * a.nbytes / best / 1e9


def vectors() -> str:
    """The widest vectors that the processor multiplies at once, as the compiler of our kernels sees it."""
    import numba
    from llvmlite import binding

    features = getattr(numba.config, "CPU_FEATURES", None) or binding.get_host_cpu_features().flatten()
    known = {"+avx512f": ("AVX-512", 16), "+avx2": ("AVX2", 8), "+avx": ("AVX", 8), "+sse2": ("SSE2", 4)}
    name, floats = next((known[flag] for flag in known if flag in features.split(",")), (platform.machine(), 4))
    return f"{name}, {floats} floats a vector"


def description() -> str:
    """The processor, as far as the system tells, and the number of threads."""
    import numba

    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        name = lines[0].partition(":")[2].strip() if lines else name
    return f"{name}, {numba.get_num_threads()} threads"
