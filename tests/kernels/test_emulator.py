"""The launcher and the emulator: CUDA's words mean what they mean on a GPU, and mistakes are named."""

import os
import platform
import subprocess
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import kernels
from kernels.backend import BackendError, _checked
from kernels.contract import CONTRACT
from kernels.cuda import launcher, source
from kernels.cuda.launcher import launch
from kernels.cuda.source import LaunchError, kernels_in
from kernels.emulator import CompilerError, checked, compiler, device, shuffled
from kernels.gpu import _reason_against_device

if (reason := kernels.reasons()["emulated"]) is not None:
    pytest.skip(f"the emulator cannot be used: {reason}", allow_module_level=True)

ROOT = Path(__file__).parents[2]
WORDS = r"""
#include "common.cuh"
// extern "C" __global__ void not_a_kernel(int x)
extern "C" __global__ void shuffles(long long* y, int width) {
    const int lane = threadIdx.x;
    y[lane] = __shfl_sync(ALL_LANES, lane, 5, width);
    y[32 + lane] = __shfl_down_sync(ALL_LANES, lane, 3, width);
    y[64 + lane] = __shfl_up_sync(ALL_LANES, lane, 3, width);
    y[96 + lane] = __shfl_xor_sync(ALL_LANES, (real)lane, 3);
}
extern "C" __global__ void __launch_bounds__(64)
indices(unsigned int* __restrict__ y /* (12) */, const real* unused) {
    const bool thread = threadIdx.x == 3 && threadIdx.y == 2 && threadIdx.z == 1;
    if (thread && blockIdx.x == 1 && blockIdx.y == 2 && blockIdx.z == 3) {
        y[0] = threadIdx.x, y[1] = threadIdx.y, y[2] = threadIdx.z, y[3] = blockDim.x, y[4] = blockDim.y;
        y[5] = blockDim.z, y[6] = blockIdx.x, y[7] = blockIdx.y, y[8] = blockIdx.z, y[9] = gridDim.x, y[10] = gridDim.y;
        y[11] = gridDim.z;
        if (unused) y[0] = 99;
    }
}
extern "C" __global__ void atomics(unsigned int* y) {
    const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&y[0], i), atomicMax(&y[1], i), atomicMin(&y[2], i), atomicOr(&y[3], 1u << threadIdx.x % 32);
    atomicCAS(&y[4], 7u, 9u);
}
extern "C" __global__ void reductions(real* y, const real* x, long long n) {
    real sum = 0, squares = 0, top = NEGATIVE_INFINITY, low = NEGATIVE_INFINITY;
    BLOCK_STRIDE_LOOP(i, n) {
        sum += x[i], squares += x[i] * x[i], top = larger(top, x[i]), low = larger(low, -x[i]);
    }
    sum = block_sum(sum), squares = block_sum(squares), top = block_max(top), low = -block_max(low);
    if (threadIdx.x == 0) y[0] = sum, y[1] = squares, y[2] = top, y[3] = low;
}
extern "C" __global__ void scalars(real* y, int i, long long l, unsigned int u, unsigned long long v, real r) {
    if (threadIdx.x == 0) y[0] = i, y[1] = l, y[2] = u, y[3] = v, y[4] = r, y[5] = CONSTANT;
}
struct Pair { real one, other; };
extern "C" __global__ void unwritten(real* y, int i, real zero) {
    if (threadIdx.x) return;
    real number, few[4], many[300], square[3][5];
    Pair pair;
    for (int turn = 0; turn < 2; turn++) {  // in the second turn the first one's are gone
        real inner[7];
        if (turn == 1) y[5] = inner[i] * zero;
        inner[i] = turn;
    }
    y[0] = number * zero, y[1] = few[i] * zero, y[2] = many[i] * zero, y[3] = square[i][i] * zero;
    y[4] = pair.other * zero;
}
"""
DEFINES = {"CONSTANT": 42}


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernels") / "words.cu"
    path.write_text(WORDS)
    return str(path)


def run(words, kernel, args, grid=(1,), block=(32,), dtype="float64"):
    launch(words, kernel, grid, block, args, dtype, DEFINES)


@pytest.mark.parametrize("width", [8, 32])
def test_shuffles(words, width):
    y = np.zeros(128, np.int64)
    run(words, "shuffles", (y, width))
    lane = np.arange(32)
    section, inside = lane - lane % width, lane % width
    assert np.array_equal(y[:32], section + 5)
    assert np.array_equal(y[32:64], np.where(inside + 3 < width, lane + 3, lane))  # outside the section: one's own
    assert np.array_equal(y[64:96], np.where(inside >= 3, lane - 3, lane))
    assert np.array_equal(y[96:], lane ^ 3)


def test_indices_in_three_dimensions_and_a_null_pointer(words):
    y = np.zeros(12, np.uint32)
    run(words, "indices", (y, None), grid=(2, 3, 4), block=(4, 4, 2))
    assert y.tolist() == [3, 2, 1, 4, 4, 2, 1, 2, 3, 2, 3, 4]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_atomics(words, seed):
    y = np.array([0, 0, 1000, 0, 7], np.uint32)
    with shuffled(seed):
        run(words, "atomics", (y,), grid=(3,), block=(64,))
    assert y.tolist() == [191 * 192 // 2, 191, 0, 2**32 - 1, 9]


@pytest.mark.parametrize("block", [32, 96, 1024])
@pytest.mark.parametrize("mode", ["fast", "ucontext"])
def test_sums_and_maxima_of_a_block(words, block, mode, monkeypatch):
    """Also with the portable way to switch fibers, which machines without our assembly use."""
    fast = compiler.MODES["fast"]
    flags = (*fast.runtime_flags, "-DEMULATOR_UCONTEXT")
    monkeypatch.setitem(compiler.MODES, "ucontext", fast._replace(runtime_flags=flags))
    monkeypatch.setattr(device, "ways_to_run", [lambda one: device.start(one, one.values, mode, seed=0)])
    x, y = np.arange(-500.0, 500.0), np.zeros(4)
    run(words, "reductions", (y, x, len(x)), block=(block,))
    assert y.tolist() == [x.sum(), (x * x).sum(), 499.0, -500.0]  # whole numbers: exact
    with checked():  # one call after another through the same shared memory
        run(words, "reductions", (y, x, len(x)), block=(block,))
    x[321] = np.nan
    run(words, "reductions", (y, x, len(x)), block=(block,))
    assert np.isnan(y).all()


def test_scalars_and_constants(words):
    y = np.zeros(6)
    run(words, "scalars", (y, -3, -(2**40), 2**32 - 1, 2**52 + 1, 0.1))
    assert y.tolist() == [-3, -(2**40), 2**32 - 1, 2**52 + 1, 0.1, 42]


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="GCC for other processors writes its pattern otherwise"
)
@pytest.mark.parametrize("mode", ["fast", "checked"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_locals_that_nobody_wrote_are_nan(words, dtype, mode):
    """Even a product with zero shows them. GCC's own pattern is a finite number."""
    y = np.zeros(6, dtype)
    with checked() if mode == "checked" else nullcontext():
        run(words, "unwritten", (y, 2, 0.0), dtype=dtype)
    assert np.isnan(y).all()


def test_an_empty_grid_is_nothing_to_do(words):
    run(words, "atomics", (np.zeros(5, np.uint32),), grid=(0,))


X = np.zeros(4)
MISTAKES = {
    "has no kernel 'sharpen'; there are: shuffles, indices": dict(kernel="sharpen"),
    "1 arguments given, 3 expected: real\\* y, const real\\* x, long long n": dict(args=(X,)),
    "reductions: x holds float32, but 'const real\\* x' needs float64": dict(args=(X, X.astype("f4"), 4)),
    "reductions: x is not contiguous": dict(args=(X, np.zeros((4, 4))[:, 1], 4)),
    "reductions: x must be an array, not list": dict(args=(X, [1.0], 4)),
    "reductions: y is read-only": dict(args=(np.broadcast_to(0.0, ()), X, 4)),
    "n must be an integer, not 4.0": dict(args=(X, X, 4.0)),
    "n = 9223372036854775808 does not fit 'long long n'": dict(args=(X, X, 2**63)),
    "a block has 48 threads": dict(block=(48,)),
    "a block has 2048 threads": dict(block=(2048,)),
    "a block has 0 threads": dict(block=(0,)),
    "64 threads deep at most": dict(block=(1, 1, 128)),
    "a grid of \\(1, 65536, 1\\) blocks is too large": dict(grid=(1, 65536)),
    "grid must not be negative": dict(grid=(-1,)),
    "grid must be a tuple of one to three integers, not 3": dict(grid=3),
    "written for float32 and float64, not float16": dict(dtype="float16"),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_named(words, message):
    options = {"kernel": "reductions", "args": (X, X, 4), **MISTAKES[message]}
    with pytest.raises(LaunchError, match=message) as caught:
        run(words, **options)
    assert "\n" not in str(caught.value)


def test_missing_file_include_and_foreign_parameter(tmp_path):
    with pytest.raises(LaunchError, match="there is no kernel file"):
        launch("attentoin", "x", (1,), (32,), (), "float32")
    for text, message in (
        ('#include "nowhere.cuh"', "includes 'nowhere.cuh'"),
        ('extern "C" __global__ void f(char* x) {}', "has a parameter 'char\\* x'; allowed are"),
    ):
        path = tmp_path / f"{len(text)}.cu"
        path.write_text(text)
        with pytest.raises(LaunchError, match=message):
            kernels_in(path)


def test_a_compile_error_names_the_line(tmp_path):
    path = tmp_path / "broken.cu"
    path.write_text('#include "common.cuh"\n\nextern "C" __global__ void f(real* x) {\n    x[0] = nonsense;\n}\n')
    with pytest.raises(CompilerError, match=r"broken.cu:4:\d+: error: .nonsense. was not declared"):
        launch(str(path), "f", (1,), (32,), (np.zeros(1),), "float64")


def test_headers_are_put_in_place_once(tmp_path):
    (tmp_path / "a.cuh").write_text("#pragma once\nint a;\n")
    (tmp_path / "b.cuh").write_text('#pragma once\n#include "a.cuh"\nint b;\n')
    (tmp_path / "c.cu").write_text('#include "a.cuh"\n#include "b.cuh"\nint c;\n')
    text = source.text_of(tmp_path / "c.cu")
    assert text.count("int a;") == text.count("int b;") == 1 and "pragma" not in text
    lines = text.splitlines()
    assert lines[lines.index("int c;") - 1] == '#line 3 "c.cu"'


def in_new_process(code: str, **environment: str) -> subprocess.CompletedProcess:
    env = {**os.environ, "MINITRANSFORMER_QUIET": "0", **environment}
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("compiler", "message"),
    [
        ("no-such-compiler", "there is no compiler 'no-such-compiler'; install g++"),
        ("false", "false cannot compile"),
        ("'", 'CXX="\'" in the environment is no command (No closing quotation); install g++'),
    ],
)
def test_no_compiler_is_a_reason_not_a_crash(tmp_path, compiler, message):
    code = "import kernels; print(kernels.reasons()['emulated']); print(kernels.available())"
    result = in_new_process(code, CXX=compiler, MINITRANSFORMER_CACHE=str(tmp_path))
    reason, available = result.stdout.splitlines()
    assert message in reason and "emulated" not in available and "numpy" in available


def test_no_folder_for_compiled_kernels_is_a_reason(tmp_path):
    (tmp_path / "file").write_text("")
    code = "import kernels; print(kernels.reasons()['emulated'])"
    result = in_new_process(code, MINITRANSFORMER_CACHE=str(tmp_path / "file"))
    assert "set MINITRANSFORMER_CACHE" in result.stdout and len(result.stdout.splitlines()) == 1


def test_processes_that_compile_at_once_do_not_disturb_each_other(tmp_path):
    """Both start from an empty cache; afterwards it holds whole files only, and a third process compiles nothing."""
    code = "import numpy as np, kernels; print(kernels.backend('emulated').relu(np.array([-1.0, 2.0])).tolist())"
    with ThreadPoolExecutor() as pool:
        runs = list(pool.map(lambda _: in_new_process(code, MINITRANSFORMER_CACHE=str(tmp_path)), range(2)))
    files = sorted(path.name for path in (tmp_path / "emulator").iterdir())
    assert len(files) == 4, files  # works-, locals-, runtime-, elementwise-
    runs.append(in_new_process(code, MINITRANSFORMER_CACHE=str(tmp_path)))
    assert [run.stdout for run in runs] == ["[0.0, 2.0]\n"] * 3
    assert "compiling CUDA kernels" in runs[0].stderr and runs[2].stderr == ""


class Runtime:
    """CUDA's runtime as CuPy shows it, on a machine that has nothing or the wrong thing."""

    def __init__(self, driver=13000, built_for=13000, devices=1):
        self.driver, self.built_for, self.devices = driver, built_for, devices

    def driverGetVersion(self):
        return self.driver

    def runtimeGetVersion(self):
        return self.built_for

    def getDeviceCount(self):
        if self.devices is None:
            raise RuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected\nand more")
        return self.devices


@pytest.mark.parametrize(
    ("runtime", "message"),
    [
        (Runtime(), None),
        (Runtime(driver=13010, built_for=13020), None),  # same major version
        (Runtime(driver=0), "there is no NVIDIA driver"),
        (Runtime(driver=12040), "supports CUDA up to 12.4 and this CuPy was built for 13.0; update the driver"),
        (Runtime(devices=0), "sees no GPU"),
        (Runtime(devices=None), "no GPU can be used (cudaErrorNoDevice: no CUDA-capable device is detected)"),
    ],
)
def test_reasons_against_a_gpu_are_one_line_each(runtime, message):
    reason = _reason_against_device(types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime)))
    assert reason is None if message is None else message in reason and "\n" not in reason


def test_cupy_arrays_go_to_nvrtc(words, monkeypatch):
    """What CuPy is given, seen by a stand-in: the expanded source, the defines, and scalars of the declared widths."""
    seen = {}

    class ndarray(np.lib.mixins.NDArrayOperatorsMixin):  # noqa: N801 - stands in for cupy.ndarray
        dtype = np.dtype("float32")
        flags = types.SimpleNamespace(c_contiguous=True)

    class RawModule:
        def __init__(self, **options):
            seen.update(options)

        def get_function(self, name):
            return lambda *args: seen.update(name=name, args=args)

    ndarray.__module__ = "cupy"
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(RawModule=RawModule, __name__="cupy"))
    y = ndarray()
    run(words, "scalars", (y, 1, 2, 3, 4, 0.5), grid=(7,), dtype="float32")
    grid, block, args = seen["args"]
    assert (seen["name"], grid, block) == ("scalars", (7, 1, 1), (32, 1, 1)) and args[0] is y
    assert [type(arg) for arg in args[1:]] == [np.int32, np.int64, np.uint32, np.uint64, np.float32]
    assert set(seen["options"]) == {"-std=c++17", "-DREAL=float", "-DCONSTANT=42"}
    assert "static __device__ real warp_sum" in seen["code"] and "#include" not in seen["code"]
    with pytest.raises(LaunchError, match=r"arrays of two kinds in one launch \(y: cupy, x: numpy\)"):
        run(words, "reductions", (y, np.zeros(4, np.float32), 4), dtype="float32")


def test_a_launch_that_nobody_can_run_says_what_to_import(words, monkeypatch):
    monkeypatch.delitem(launcher.runners, "numpy")
    with pytest.raises(LaunchError, match="scalars: nothing is loaded that runs .* of numpy; import kernels.emulator"):
        run(words, "scalars", (np.zeros(5), 1, 2, 3, 4, 0.5))


def test_out_of_memory_is_one_clear_line():
    def implementation(x):
        raise MemoryError("Out of memory allocating 1,024 bytes\n(allocated so far: ...)")

    kernel = _checked(kernels.backend("numpy"), CONTRACT["exp"], implementation, None)
    with pytest.raises(
        BackendError, match=r"exp on backend 'numpy' ran out of memory .* use a smaller batch"
    ) as caught:
        kernel(np.zeros(3))
    assert "\n" not in str(caught.value)
