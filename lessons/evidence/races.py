"""What lesson 10 measures: a small CUDA kernel in the emulator, in many orders of its threads, plainly and under watch;
and how many lines of memory a kernel asks for."""

import textwrap
from pathlib import Path

import numpy as np

import kernels
from kernels import Dropout, Mask, emulator
from kernels.cuda import launcher
from minitransformer.app.tables import table

# three kernels in which threads touch memory in some way that is worth a look
LINES = """#include "common.cuh"

// y = 2 x for a matrix, a thread a number; neighbouring threads are neighbours in a row.   y, x (n, n)
extern "C" __global__ void along_rows(real* y, const real* x, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * n) y[i] = 2 * x[i];
}

// The same, but neighbouring threads are neighbours in a column.
extern "C" __global__ void along_columns(real* y, const real* x, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * n) y[i % n * n + i / n] = 2 * x[i % n * n + i / n];
}

// The last thread reads what is not there.   y, x (64): one block of 64 threads
extern "C" __global__ void one_too_far(real* y, const real* x) { y[threadIdx.x] = x[threadIdx.x + 1]; }
"""


def line_of(source: str, mark: str) -> int:
    """The number of the first line that holds this mark."""
    return 1 + source[: source.index(mark)].count("\n")


def in_numpy(x: np.ndarray) -> np.ndarray:
    """What the kernel is meant to compute: each number becomes the mean of itself and its right neighbour."""
    return (x + np.append(x[1:], x[-1])) / 2


def smooth(file: Path, barrier: bool, x: np.ndarray) -> np.ndarray:
    """The kernel, compiled with its barrier or without."""
    y = np.zeros_like(x)
    defines = {"BARRIER": "__syncthreads()" if barrier else ""}
    launcher.launch(str(file), "smooth", (1,), (64,), (y, x), x.dtype, defines)
    return y


def in_orders(file: Path, x: np.ndarray, seeds) -> list[np.ndarray]:
    """The results without the barrier, the threads shuffled by each seed."""
    results = []
    for seed in seeds:
        with emulator.shuffled(seed):
            results.append(smooth(file, False, x))
    return results


def complaint(file: Path, barrier: bool, x: np.ndarray, seed: int) -> emulator.EmulatorError | None:
    """What the watch says in one order of the threads: None, if all is well."""
    try:
        with emulator.checked(seed):
            smooth(file, barrier, x)
    except emulator.EmulatorError as error:
        return error
    return None


def one_too_far(file: Path) -> str:
    """What the watch says about a kernel whose last thread reads behind its array."""
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    try:
        with emulator.checked():
            launcher.launch(str(file), "one_too_far", (1,), (64,), (y, x), x.dtype)
    except emulator.EmulatorError as error:
        return str(error)
    return "nothing"


def lines_touched(file: Path, kernel: str, n: int = 64) -> int:
    """How many lines of 128 bytes the warps of a kernel ask memory for."""
    x, y = np.ones((n, n), np.float32), np.zeros((n, n), np.float32)
    with emulator.checked() as report:
        launcher.launch(str(file), kernel, (n * n // 64,), (64,), (y, x, n), x.dtype)
    return report.launches[0].lines


def watched_attention() -> emulator.Report:
    """The engine's own attention under watch, which raises if it finds a fault."""
    q = np.random.default_rng(0).standard_normal((1, 1, 128, 32), dtype=np.float32)
    with emulator.checked() as report:
        kernels.backend("emulated").attention(q, q, q, Mask(is_causal=True), 0.2, Dropout())
    return report


def lines_as_expected(file: Path, n: int = 64) -> tuple[bool, str]:
    """Along rows, 32 numbers share a line, for reading and for writing; along columns, none do."""
    rows, columns = (lines_touched(file, kernel, n) for kernel in ("along_rows", "along_columns"))
    text = f"{2 * n * n:,} numbers read or written: {rows:,} lines along rows (32 numbers share one, "
    text += f"{2 * n * n * 4 // 128} expected), {columns:,} along columns ({2 * n * n:,} expected)"
    return rows == 2 * n * n * 4 // 128 and columns == 2 * n * n, text


def attention_reads_no_line_in_vain() -> tuple[bool, str]:
    counted = watched_attention().launches[0]
    text = f"{counted.load_lines} lines read, {counted.load_lines_ideal} needed for the bytes"
    return counted.load_lines == counted.load_lines_ideal, f"the engine's attention, no fault found: {text}"


def lines_of_attention() -> str:
    """What the watch counted in the engine's attention: lines of memory asked for, and lines that its bytes need."""
    counted = watched_attention().launches[0]
    rows = [
        ("reads", counted.load_lines, counted.load_lines_ideal),
        ("writes", counted.store_lines, counted.store_lines_ideal),
    ]
    return table(("the engine's attention", "lines of memory", "needed for the bytes"), rows, right=(1, 2))


def wrapped(message: object) -> str:
    """A long message in lines that a page can hold."""
    return "\n    ".join(textwrap.wrap(str(message), 110, break_long_words=False, break_on_hyphens=False))
