"""The CUDA files as NVRTC sees them, for six generations of GPUs and without any of them: every way the launchers
compile a file gives no error, no warning and no spills, and takes no more registers and shared memory than
occupancy_budget.json allows. Also: the launchers launch what occupancy.py believes they do."""

import numpy as np
import occupancy
import pytest

from kernels import contract
from kernels.cuda.source import FOLDER, kernels_in
from kernels.emulator import device
from kernels.gpu import attention
from kernels.signature import QUANTISED

needs_nvrtc = pytest.mark.skipif(occupancy.reason_against() is not None, reason=str(occupancy.reason_against()))

FILES = occupancy.files()


@pytest.fixture(scope="module")
def budget():
    return occupancy.load_budget()


@needs_nvrtc
@pytest.mark.oracle
@pytest.mark.parametrize("architecture", occupancy.ARCHITECTURES)
@pytest.mark.parametrize("file", FILES)
def test_compiles_cleanly_and_within_its_budget(file, architecture, budget):
    wrong = [text for build in occupancy.builds(file) for text in occupancy.complaints(build, architecture, budget)]
    assert not wrong, "\n".join(wrong)


@needs_nvrtc
@pytest.mark.oracle
def test_the_budget_has_no_forgotten_entries(budget):
    known = {
        f"{build} {kernel}"
        for file in FILES
        for build in occupancy.builds(file)
        for kernel in kernels_in(FOLDER / f"{file}.cu")
    }
    assert not set(budget) - known, f"nothing is compiled under these names any more; {occupancy.RENEW}"


@needs_nvrtc
@pytest.mark.oracle
def test_table(capsys):
    """Printed for whoever runs the oracles; python tests/kernels/occupancy.py prints the same."""
    table = occupancy.table(FILES)
    with capsys.disabled():
        print("\n" + table)
    expected = sum(len(occupancy.builds(f)) * len(kernels_in(FOLDER / f"{f}.cu")) for f in FILES)
    assert len(table.splitlines()) == 1 + expected


# ------------------------------------------------------------------------- the checks above can fail: seeded faults

CAREFUL = """
extern "C" __global__ void careful(float* x) {
    x[threadIdx.x] += 1;
}
"""
CARELESS = CAREFUL.replace("x[threadIdx.x] += 1;", "int never_used; x[threadIdx.x] += 1;")
# 64 numbers that are all alive at once, in 32 registers
HUNGRY = """
extern "C" __global__ void hungry(float* x) {
    float a[64];
    for (int i = 0; i < 64; i++) a[i] = x[i * 32 + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < 64; i++) x[i * 32 + threadIdx.x] = a[63 - i] * a[i];
}
"""


def log_of(tmp_path, text, *flags):
    file = tmp_path / str(len(list(tmp_path.iterdir()))) / "seeded.cu"  # a fresh path: the text of a file is kept
    file.parent.mkdir()
    file.write_text(text)
    return occupancy.compiled(file, 80, {}, flags)


@needs_nvrtc
@pytest.mark.oracle
def test_a_warning_is_reported(tmp_path):
    assert occupancy.warnings(log_of(tmp_path, CAREFUL)) == []
    assert "never_used" in "\n".join(occupancy.warnings(log_of(tmp_path, CARELESS)))


@needs_nvrtc
@pytest.mark.oracle
def test_spills_are_reported(tmp_path):
    assert occupancy.usages(log_of(tmp_path, HUNGRY))["hungry"].spills == 0
    assert occupancy.usages(log_of(tmp_path, HUNGRY, "--maxrregcount=32"))["hungry"].spills > 0


@needs_nvrtc
@pytest.mark.oracle
def test_an_error_is_reported_with_its_line(tmp_path):
    with pytest.raises(occupancy.NvrtcError, match=r"seeded\.cu\(3\): error"):
        log_of(tmp_path, CAREFUL.replace("threadIdx.x]", "threadIdx.w]"))


@needs_nvrtc
@pytest.mark.oracle
def test_a_build_beyond_its_budget_is_reported():
    build = occupancy.builds("softmax")[0]
    entries = {f"{build} {name}": taken for name, taken in occupancy.worst(build).items()}
    assert occupancy.complaints(build, 80, entries) == []
    name, (registers, shared) = next(iter(entries.items()))
    (wrong,) = occupancy.complaints(build, 80, {**entries, name: [8, shared]})
    assert "8 in occupancy_budget.json" in wrong and occupancy.RENEW in wrong
    del entries[name]
    (wrong,) = occupancy.complaints(build, 80, entries)
    assert "not in occupancy_budget.json" in wrong and occupancy.RENEW in wrong


# ------------------------------------------------------------------------------ what needs no compiler is always run

LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'one' for 'sm_80'
ptxas info    : Function properties for one
ptxas         .     32 bytes stack frame, 24 bytes spill stores, 28 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 32 bytes cumulative stack size, 1200 bytes smem, 368 bytes cmem[0]
ptxas info    : Compile time = 1.780 ms
ptxas info    : Compiling entry function 'two' for 'sm_80'
ptxas info    : Function properties for two
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
ptxas info    : Compile time = 1.780 ms"""


def test_the_log_is_read():
    expected = {"one": occupancy.Usage(40, 1200, 32, 52), "two": occupancy.Usage(10, 0, 0, 0)}
    assert occupancy.usages(LOG) == expected
    assert occupancy.warnings(LOG) == []
    strange = ["ptxas warning : Value of threads per SM is out of range", "seeded.cu(3): warning #177-D: unused"]
    assert occupancy.warnings("\n".join([strange[0], LOG, strange[1]])) == strange


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "architecture", "blocks"),
    [
        (16, 0, 128, 80, 16),  # 64 warps / 4
        (16, 0, 32, 80, 32),  # never more than 32 blocks
        (33, 0, 128, 80, 12),  # 40 registers after rounding: 65536 / (40 · 128) = 12.8
        (255, 0, 256, 80, 1),  # 256 registers after rounding: 65536 / (256 · 256) = 1
        (255, 0, 512, 80, 0),  # does not fit at all
        (32, 48 * 1024, 128, 80, 3),  # 164 KB / (48 + 1) KB
        (32, 48 * 1024, 128, 75, 1),  # 64 KB / 48 KB
        (32, 32 * 1024, 128, 86, 3),  # 100 KB / (32 + 1) KB
    ],
)
def test_resident_blocks(registers, shared, threads, architecture, blocks):
    """By hand from the limits of a multiprocessor."""
    limits = occupancy.ARCHITECTURES[architecture]
    assert occupancy.resident_blocks(occupancy.Usage(registers, shared, 0, 0), threads, limits) == blocks


def test_the_budget_counts_registers_in_steps():
    assert not occupancy.over_budget(occupancy.Usage(40, 64, 0, 0), [33, 64])
    assert occupancy.over_budget(occupancy.Usage(41, 64, 0, 0), [33, 64])
    assert occupancy.over_budget(occupancy.Usage(8, 65, 0, 0), [33, 64])


def arguments(kernel, dtype, width):
    """Arrays and options for any kernel, from its line in the contract: letter D has this size; A heads are 3 each of
    queries, keys and values; R and Q bytes are a block of quantised weights; all other letters are 3."""
    sizes = {"D": width, "A": 9, "R": QUANTISED["Q8_0"], "Q": QUANTISED["Q8_0"]}
    made = {name: [] for name in kernel.names}
    for argument in kernel.arguments:
        values = made[argument.name.partition(".")[0]]
        shape = tuple(sizes.get(letter, 3) for letter in argument.dims or "NC")
        if argument.kind == "int" and argument.dims is not None:
            values.append(np.zeros(shape, "int64"))
        elif argument.kind == "bytes":
            values.append(np.zeros(shape, "uint8"))
        elif argument.is_array:
            values.append(np.ones(() if argument.name == "dloss" else shape, dtype))
        else:
            options = {"real": 0.5, "rate": 0.1, "flag": True, "name": "gelu", "gate": "silu", "axes": (1,)}
            values.append((options | {"quantised": "Q8_0"}).get(argument.kind, 3))
    return [kernel.records[name](*values) if name in kernel.records else values[0] for name, values in made.items()]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_launches_are_those_that_get_compiled(dtype, monkeypatch):
    """Defines outside VARIANTS would not be compiled by NVRTC, and a block that occupancy.py does not know would be
    counted wrongly. Nothing runs here: launches are only written down, so results stay memory that nobody filled,
    and what is multiplied afterwards may be infinite or no number."""
    launches = []
    monkeypatch.setattr(device, "ways_to_run", [launches.append])
    with np.errstate(all="ignore"):
        for name, kernel in contract.CONTRACT.items():
            module = __import__(f"kernels.gpu.{kernel.file}", fromlist=[name])
            for width in attention.WIDTHS if kernel.file == "attention" else (3,):
                getattr(module, name)(*arguments(kernel, np.dtype(dtype), width))
    assert {launch.path.stem for launch in launches} == set(FILES)
    for launch in launches:
        options = dict(launch.options)
        real = options.pop("REAL")
        defines = tuple(sorted((key, int(value)) for key, value in options.items()))
        (used,) = (d for d, word in occupancy.TYPES.items() if word == real)
        build = occupancy.Build(launch.path.stem, used, defines)
        assert build in occupancy.builds(launch.path.stem), f"{launch.kernel}: add its defines to VARIANTS"
        assert launch.block[0] <= build.most_threads and launch.block[1:] == (1, 1), launch.kernel
        assert "THREADS" not in options or launch.block[0] == build.threads, launch.kernel
    seen = {(launch.path.stem, launch.kernel) for launch in launches}
    all_kernels = {(file, kernel) for file in FILES for kernel in kernels_in(FOLDER / f"{file}.cu")}
    assert not all_kernels - seen, "kernels that nobody launches, or that this test does not reach"
