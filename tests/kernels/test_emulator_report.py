"""The counters of checked mode, on kernels whose traffic one can count by hand."""

import numpy as np
import pytest

import kernels
from kernels.cuda.launcher import launch
from kernels.emulator import checked

if (reason := kernels.reasons()["emulated"]) is not None:
    pytest.skip(f"the emulator cannot be used: {reason}", allow_module_level=True)

TRAFFIC = r"""
#include "common.cuh"
extern "C" __global__ void strided(real* y, const real* x, long long stride) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i * stride];
}
extern "C" __global__ void transpose(real* y, const real* x) {  // y, x (32, 32); one warp
    __shared__ real tile[32][WIDTH];
    for (int row = 0; row < 32; row++) tile[row][threadIdx.x] = x[row * 32 + threadIdx.x];
    __syncthreads();
    for (int row = 0; row < 32; row++) y[row * 32 + threadIdx.x] = tile[threadIdx.x][row];
}
extern "C" __global__ void meetings(unsigned int* y) {
    __syncwarp();
    const real sum = warp_sum(1);
    __syncthreads();
    if (threadIdx.x % 32 == 0) atomicAdd(&y[0], (unsigned int)sum);
}
extern "C" __global__ void uneven(real* y, const real* x) {  // lane l reads l + 1 elements of each row
    real sum = 0;
    for (int row = 0; row < 2; row++) {
        for (int i = 0; i <= (int)threadIdx.x; i++) sum += x[row * 32 + i];
        sum = __shfl_sync(ALL_LANES, sum, threadIdx.x);
    }
    y[threadIdx.x] = sum;
}
"""


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernels") / "traffic.cu"
    path.write_text(TRAFFIC)

    def count(kernel, args, dtype, grid=1, block=32, width=32, seed=1):
        with checked(seed) as report:
            launch(str(path), kernel, (grid,), (block,), args, dtype, {"WIDTH": width})
        (counters,) = report.launches
        return counters

    return count


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(
    ("dtype", "stride", "lines", "ideal"),
    [
        ("float32", 1, 1, 1),
        ("float64", 1, 2, 2),  # 32 numbers of 8 bytes fill two lines
        ("float32", 2, 2, 1),
        ("float32", 32, 32, 1),  # each lane a line of its own
        ("float64", 16, 32, 2),
        ("float32", 0, 1, 1),  # all lanes the same number
    ],
)
def test_lines_of_global_memory(counted, dtype, stride, lines, ideal, seed):
    warps = 2 * 3
    x, y = np.arange(1 + 191 * stride, dtype=dtype), np.zeros(192, dtype)
    c = counted("strided", (y, x, stride), dtype, grid=3, block=64, seed=seed)
    assert np.array_equal(y, np.arange(192) * stride)
    assert (c.global_loads, c.global_stores) == (192, 192)
    assert (c.load_lines, c.load_lines_ideal) == (warps * lines, warps * ideal)
    assert c.store_lines == c.store_lines_ideal == warps * (1 if dtype == "float32" else 2)
    assert c.coalescing == (ideal * warps + c.store_lines) / (lines * warps + c.store_lines)


@pytest.mark.parametrize(
    ("dtype", "width", "turns"),
    [
        ("float32", 32, 32),  # a column of a tile 32 wide: every lane in the same bank
        ("float32", 33, 1),  # one number of padding, and every lane has a bank of its own
        ("float32", 34, 2),
        ("float64", 32, 32),  # half a warp at a time, 16 turns each
        ("float64", 33, 2),
    ],
)
def test_banks_of_shared_memory(counted, dtype, width, turns):
    x, y = np.arange(1024, dtype=dtype).reshape(32, 32), np.zeros((32, 32), dtype)
    c = counted("transpose", (y, x), dtype, width=width)
    assert np.array_equal(y, x.T)
    waves = 1 if dtype == "float32" else 2
    assert (c.shared_loads, c.shared_stores) == (1024, 1024)
    assert c.shared_waves_ideal == 2 * 32 * waves
    assert c.shared_waves == 32 * waves + 32 * turns
    assert c.bank_conflicts == 32 * (turns - waves)
    assert c.coalescing == 1.0 and c.barriers == 1


def test_barriers_shuffles_and_atomics(counted):
    y = np.zeros(1, np.uint32)
    c = counted("meetings", (y,), "float32", grid=5, block=96)
    assert y[0] == 5 * 3 * 32
    assert (c.barriers, c.warp_barriers, c.shuffles, c.atomics) == (5, 15, 15 * 5, 15)
    assert c.global_loads == 0  # an atomic is neither a load nor a store


def test_lanes_with_different_numbers_of_turns(counted):
    """The i-th turns of all lanes that are still there are one access: all read the same number, one line each. The
    lanes meet at the shuffle, and count from there again."""
    x, y = np.ones((2, 32), np.float32), np.zeros(32, np.float32)
    c = counted("uneven", (y, x), "float32")
    assert np.array_equal(y, 2 * np.arange(1, 33))
    assert c.global_loads == 2 * (32 * 33 // 2) and c.load_lines == 2 * 32


def test_the_report_adds_up_and_reads_well():
    x = np.ones((3, 64), np.float32)
    with checked() as report:
        for _ in range(2):
            kernels.backend("emulated").softmax(x)
    assert [c.launches for c in report.launches] == [1, 1]
    (total,) = report.by_kernel().values()
    assert total.launches == 2 and total.global_loads == 2 * report.launches[0].global_loads
    head, row = report.table().splitlines()
    assert head.split()[:2] == ["kernel", "launches"] and row.split()[:2] == [total.kernel, "2"]
    assert len(head) == len(row) and f"{total.coalescing:.0%}" in row
    with checked() as nothing:
        pass
    assert nothing.launches == [] and nothing.table().startswith("kernel")


def test_arrays_that_share_memory_go_on_sharing_it():
    """In place, and as overlapping views: checked mode works on copies, and must give what plain mode gives."""
    memory = np.arange(40, dtype=np.float64)
    expected = memory.copy()
    expected[:32] = np.exp(expected[:32] / 40)
    memory /= 40
    expected[32:] /= 40
    with checked():
        launch("elementwise", "exp_forward", (1,), (32,), (memory[:32], memory[:32], 32), "float64")
    # the C library's exp and NumPy's, which depends on the processor, are each within one unit in the last place
    np.testing.assert_array_max_ulp(memory[:32], expected[:32], maxulp=2)
    assert np.array_equal(memory[32:], expected[32:])


def test_the_line_that_wastes_the_most_is_named(counted):
    """`y[i] = x[i * stride]` stands in line 5 of the file above, the read of a column of the tile in line 11."""
    x, y = np.zeros(64 * 8, np.float32), np.zeros(64, np.float32)
    assert counted("strided", (y, x, 8), "float32", block=64).uncoalesced_at == "traffic.cu:5"
    assert counted("strided", (y, x, 1), "float32", block=64).uncoalesced_at == ""
    square = np.zeros((32, 32), np.float32)
    assert counted("transpose", (square.copy(), square), "float32").conflicts_at == "traffic.cu:11"
    padded = counted("transpose", (square.copy(), square), "float32", width=33)
    assert padded.conflicts_at == "" and (padded + padded).conflicts_at == ""
