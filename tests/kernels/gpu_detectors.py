"""What looks for mistakes in the CUDA files; each detector returns what it found, or None.

    reference   every call, several blocks included, against the NumPy tier in float64
    grid        the same bits whatever the number of blocks: MOST_BLOCKS of 1 and 3, threads and blocks shuffled
    checked     every access watched (bounds, races, unwritten shared memory, barriers), one block doing everything
    banks       no more turns of shared memory than budgeted
and gpu_far.py: indices beyond 2^31, counters beyond 2^34
"""

from unittest import mock

import numpy as np
from emulator_calls import calls
from test_agreement import assert_same

import kernels
from kernels.emulator import EmulatorError, checked, shuffled
from kernels.gpu import grid, linear_cross_entropy

# Turns of shared memory for each turn that accesses without conflicts would take, at most. Two lanes meet in a bank of
# float64 tiles (attention_tile.cuh says so); whatever is not listed has no conflicts.
BANK_BUDGET = {
    ("attention_forward", "float32"): 1.1, ("attention_forward", "float64"): 1.4,
    ("attention_backward_queries", "float32"): 1.05, ("attention_backward_queries", "float64"): 1.5,
    ("attention_backward_keys", "float32"): 1.05, ("attention_backward_keys", "float64"): 1.2,
}  # fmt: skip


def results(backend: str, name: str, dtype: str) -> list[tuple]:
    return list(calls(kernels.backend(backend), name, dtype))


def arrays(results: tuple) -> list:
    return [None if r is None else np.asarray(r) for r in results]


def bits(found: list[tuple]) -> list:
    return [[None if r is None else np.asarray(r).tobytes() for r in every] for _, _, every in found]


def most_blocks(number: int):
    return mock.patch.object(grid, "MOST_BLOCKS", number)


def by_reference(name: str) -> str | None:
    with mock.patch.object(linear_cross_entropy, "BUFFER_BYTES", 7 * 1100 * 8):  # several chunks
        ours = results("emulated", name, "float64")
    with np.errstate(all="ignore"):
        theirs = results("numpy", name, "float64")
    for (kernel, label, one), (_, _, other) in zip(ours, theirs, strict=True):
        try:
            dtype = np.dtype("float32" if kernel == "dequantise" else "float64")  # unpacked weights are float32 always
            assert_same(kernel, label, arrays(one), other, dtype)
        except AssertionError as error:
            return str(error).strip().splitlines()[0]
    return None


def by_grid(name: str) -> str | None:
    plain = bits(results("emulated", name, "float64"))
    for number in (1, 3):
        with most_blocks(number), shuffled(number):
            if bits(results("emulated", name, "float64")) != plain:
                return f"{name} depends on the number of blocks: {number}"
    return None


def by_watching(name: str, dtype: str = "float32") -> str | None:
    try:
        with most_blocks(1), checked(seed=3):
            results("emulated", name, dtype)
    except EmulatorError as error:
        return str(error)
    return None


def conflicts(report) -> dict[str, float]:
    """Turns of shared memory over the fewest possible, for each CUDA kernel of a checked run that uses it."""
    return {
        kernel: counted.shared_waves / counted.shared_waves_ideal
        for kernel, counted in report.by_kernel().items()
        if counted.shared_waves_ideal
    }


def over_budget(report, dtype: str) -> str | None:
    for kernel, turns in conflicts(report).items():
        if turns > BANK_BUDGET.get((kernel, dtype), 1.0):
            return f"{kernel} in {dtype}: {turns:.3f} turns of shared memory for each needed"
    return None


def by_banks(name: str) -> str | None:
    for dtype in ("float32", "float64"):
        with checked(seed=0) as report:
            results("emulated", name, dtype)
        if (found := over_budget(report, dtype)) is not None:
            return found
    return None


DETECTORS = {
    "reference": by_reference,
    "grid": by_grid,
    "checked": by_watching,
    "banks": by_banks,
}
