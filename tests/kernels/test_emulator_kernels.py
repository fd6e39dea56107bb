"""Every CUDA kernel under every detector: all samples, forward and backward.

Checked mode looks at each access (bounds, unwritten shared memory, races, barriers), the compilers' sanitizers look
with other eyes. And no bit of a result may depend on the order in which threads and blocks run.
"""

from pathlib import Path

import numpy as np
import pytest
from emulator_calls import FORWARD, calls
from gpu_detectors import over_budget

import kernels
from kernels.cuda.source import kernels_in
from kernels.emulator import checked, shuffled
from kernels.emulator.sanitizer import Recording, reason_against, recorded, sanitize

if (reason := kernels.reasons()["emulated"]) is not None:
    pytest.skip(f"the emulator cannot be used: {reason}", allow_module_level=True)

GPU = Path(kernels.__file__).parent / "gpu"
MOST_THREADS = 1500  # of a launch with unordered blocks: ThreadSanitizer takes most of a millisecond for each


def bits(name: str, dtype: str) -> list[tuple]:
    """The results of every call, byte by byte."""
    backend = kernels.backend("emulated")
    return [
        (kernel, label, [None if result is None else np.asarray(result).tobytes() for result in results])
        for kernel, label, results in calls(backend, name, dtype)
    ]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, marks=pytest.mark.slow if (name, dtype) == ("attention", "float64") else ())
        for name in FORWARD
        for dtype in ("float32", "float64")
    ],
)
def test_clean_and_the_same_bits_in_any_order(name, dtype):
    """And with no more bank conflicts than budgeted."""
    plain = bits(name, dtype)
    with checked(seed=3) as report:  # in an order of its own; raises at the first fault
        assert bits(name, dtype) == plain
    assert report.launches or name == "matmul"  # which is the vendor's
    assert over_budget(report, dtype) is None


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FORWARD)
def test_the_same_bits_in_further_orders(name, dtype):
    plain = bits(name, dtype)
    for seed in (1, 2, 4):
        with shuffled(seed):
            assert bits(name, dtype) == plain, seed


def need(how: str) -> None:
    if (missing := reason_against(how)) is not None:
        pytest.skip(missing)


def launches_of(dtype: str) -> list[Recording]:
    with recorded() as launches:
        for name in FORWARD:
            bits(name, dtype)
    return launches


@pytest.fixture(scope="module")
def launches():
    return launches_of("float32")


def test_every_kernel_is_put_to_work(launches):
    """And with several blocks, unless its work is for one block by design."""
    one_block = {"cross_entropy_mean", "cross_entropy_factor"}
    files = [path for path in GPU.glob("*.cu")]
    assert files
    several = {launch.kernel for launch in launches if launch.blocks > 1}
    assert {kernel for path in files for kernel in kernels_in(path)} - several == one_block
    assert one_block <= {launch.kernel for launch in launches}


@pytest.mark.slow
def test_thread_sanitizer(launches):
    need("threads")
    assert sanitize(launches, "threads") == []


@pytest.mark.slow
def test_thread_sanitizer_with_unordered_blocks(launches):
    """The smallest launch of each kernel that has several blocks."""
    need("blocks")
    chosen: dict[tuple, Recording] = {}
    for launch in launches:
        key = launch.kernel, launch.options
        if launch.blocks > 1 and (key not in chosen or launch.threads < chosen[key].threads):
            chosen[key] = launch
    small = [launch for launch in chosen.values() if launch.threads <= MOST_THREADS]
    print("too large:", *(launch.kernel for launch in chosen.values() if launch.threads > MOST_THREADS))
    assert len({launch.kernel for launch in small}) > 30
    assert sanitize(small, "blocks") == []


@pytest.mark.slow
def test_address_and_undefined_behaviour_sanitizers():
    """In float64, so that both types are seen: ThreadSanitizer has the other one."""
    need("address")
    assert sanitize(launches_of("float64"), "address") == []
