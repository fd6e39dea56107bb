"""The CUDA kernels on inputs of several blocks, on grids of every size, and at the far end of huge arrays."""

import numpy as np
import pytest
from emulator_calls import FORWARD
from gpu_detectors import by_grid, by_reference, by_watching
from gpu_far import far_faults

import kernels
from kernels.cuda.launcher import launch

if (reason := kernels.reasons()["emulated"]) is not None:
    pytest.skip(f"the emulator cannot be used: {reason}", allow_module_level=True)


@pytest.mark.parametrize("name", FORWARD)
def test_several_blocks_give_what_the_reference_gives(name):
    assert by_reference(name) is None


@pytest.mark.parametrize("name", FORWARD)
def test_any_number_of_blocks_gives_the_same_bits(name):
    assert by_grid(name) is None


@pytest.mark.parametrize("name", [name for name in FORWARD if name != "attention"])  # whose grid has no limit
def test_one_block_that_does_everything_is_clean(name):
    """A warp or block then works on one row after another, in the same shared memory."""
    assert by_watching(name) is None


def test_indices_beyond_32_bits():
    assert far_faults() is None


def test_a_local_that_was_never_written_shows(tmp_path):
    """A sum that starts from whatever is there must not happen to start from 0: it starts from NaN, or from a huge
    number where only the compiler's own pattern is to be had (test_emulator.py asks for NaN where it is promised)."""
    path = tmp_path / "local.cu"
    path.write_text(
        '#include "common.cuh"\n'
        'extern "C" __global__ void forgotten(real* y, long long n) {\n'
        "    real sums[4];\n    for (long long i = 0; i < n; i++) sums[i % 4] += 1;\n"
        "    y[threadIdx.x] = sums[threadIdx.x % 4];\n}\n"
    )
    y = np.zeros(32)
    launch(str(path), "forgotten", (1,), (32,), (y, 8), "float64")
    assert not (np.abs(y) < 1e100).any()  # as NaN is not below either; 8 ones alone would give 2
