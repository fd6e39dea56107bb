"""Each detector finds the fault that it is meant for, at the right line, and nothing where the fault is absent.

The kernels in emulator_faults/ are right with FAULT=0 and wrong with FAULT=1. Several give the right numbers even when
they are wrong, which is why detectors are needed.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import kernels
from kernels.cuda.launcher import launch
from kernels.cuda.source import kernels_in
from kernels.emulator import EmulatorError, checked
from kernels.emulator.sanitizer import reason_against, recorded, sanitize

if (reason := kernels.reasons()["emulated"]) is not None:
    pytest.skip(f"the emulator cannot be used: {reason}", allow_module_level=True)

FOLDER = Path(__file__).parent / "emulator_faults"
SEEDS = (0, 1, 2)


@dataclass
class Fault:
    """How to launch a kernel, and what each detector shall say; None where it is not meant to find anything."""

    file: str
    block: int = 64
    grid: int = 1
    n: int = 64
    plain: str | None = None  # kind of error without any checks
    checked: str | None = None  # kind of error in checked mode
    threads: str | None = None  # text in a sanitizer's report, before the line
    blocks: str | None = None
    address: str | None = None


# The early reader of a race may be caught at reading what nobody has written yet.
EARLY = "race|uninitialised read"
FAULTS = {
    "missing_barrier": Fault("races", checked=EARLY, threads="data race"),
    "unprotected_reuse": Fault("races", checked="race", threads="data race"),
    "overwritten_early": Fault("races", checked="race", threads="data race"),
    "missing_syncwarp": Fault("races", block=32, checked=EARLY, threads="data race"),
    "shuffle_is_no_barrier": Fault("races", block=32, checked="race", threads="data race"),
    "lost_update": Fault("races", grid=3, checked="race", blocks="data race"),
    "shared_overflow": Fault("bounds", checked="out of bounds", address=""),  # "index 64 out of bounds" after the line
    "shared_overflow_write": Fault("bounds", checked="out of bounds", address="global-buffer-overflow"),
    "global_overflow": Fault("bounds", checked="out of bounds", address="heap-buffer-overflow"),
    "global_underflow": Fault("bounds", checked="out of bounds", address="heap-buffer-overflow"),
    "global_overflow_write": Fault("bounds", n=50, checked="out of bounds", address="heap-buffer-overflow"),
    "write_to_const": Fault("bounds", checked="write to const"),
    "unwritten_shared": Fault("bounds", n=50, checked="uninitialised read"),
    "integer_overflow": Fault("bounds", block=32, address=""),  # "signed integer overflow" after the line
    "divergent_barrier": Fault("barriers", plain="divergent barrier", checked="divergent barrier"),
    "two_barriers": Fault("barriers", plain="divergent barrier", checked="divergent barrier"),
    "missing_lane": Fault("barriers", plain="missing lane", checked="missing lane"),
    "early_exit": Fault("barriers", plain="divergent barrier", checked="divergent barrier"),
}
SANITIZERS = ("threads", "blocks", "address")


def marked(name: str) -> str:
    """A pattern for the lines that carry a kernel's mark: where its fault is to be found."""
    file = FAULTS[name].file
    lines = (FOLDER / f"{file}.cu").read_text(encoding="utf-8").splitlines()
    numbers = [str(n) for n, line in enumerate(lines, start=1) if f"// {name} is found here" in line]
    assert numbers
    return rf"\b{file}\.cu:({'|'.join(numbers)})\b"


def need(how: str) -> None:
    if (missing := reason_against(how)) is not None:
        pytest.skip(missing)


def run(name: str, fault: int) -> np.ndarray:
    case = FAULTS[name]
    x = np.arange(1, case.n + 1, dtype=np.float32)
    y = np.zeros(case.n, np.uint64 if name == "lost_update" else np.float32)
    path = str(FOLDER / f"{case.file}.cu")
    launch(path, name, (case.grid,), (case.block,), (y, x, case.n), np.float32, {"FAULT": fault})
    return y


def test_every_kernel_is_in_the_table():
    assert set(FAULTS) == {kernel for path in FOLDER.glob("*.cu") for kernel in kernels_in(path)}


@pytest.mark.parametrize("name", [name for name, case in FAULTS.items() if case.checked])
@pytest.mark.parametrize("seed", SEEDS)
def test_checked_mode_names_kind_and_line(name, seed):
    """Whatever the schedule: a race is a race also when it does no harm."""
    with pytest.raises(EmulatorError) as caught, checked(seed):
        run(name, 1)
    error = caught.value
    assert re.fullmatch(FAULTS[name].checked, error.kind) and re.search(marked(name), str(error)), error
    assert error.kernel in str(error) and len(error.block) == len(error.thread) == 3
    assert error.block[0] < FAULTS[name].grid and error.thread[0] < FAULTS[name].block


@pytest.mark.parametrize("name", [name for name, case in FAULTS.items() if case.plain])
def test_missed_barriers_are_found_without_any_checks(name):
    with pytest.raises(EmulatorError, match=marked(name)) as caught:
        run(name, 1)
    assert caught.value.kind == FAULTS[name].plain
    run(name, 0)  # and the emulator works on after a failure


@pytest.mark.slow
@pytest.mark.parametrize("how", SANITIZERS)
def test_sanitizers_find_their_faults(how):
    need(how)
    meant = {name: text for name, case in FAULTS.items() if (text := getattr(case, how)) is not None}
    assert meant
    for name, text in meant.items():
        with recorded(run=False) as launches:
            run(name, 1)
        (found,) = sanitize(launches, how)
        assert re.search(f"{text}.*{marked(name)}", found, re.DOTALL), found


@pytest.mark.slow
def test_a_race_between_blocks_needs_the_second_mode():
    """Blocks in order hide it: the negative control of the mode that does not order them."""
    need("threads")
    with recorded() as launches:
        run("lost_update", 1)
    assert sanitize(launches, "threads") == []


@pytest.mark.parametrize("name", FAULTS)
def test_nothing_is_found_without_the_fault(name):
    plain = run(name, 0)
    for seed in SEEDS:
        with checked(seed) as report:
            assert np.array_equal(run(name, 0), plain)
        assert len(report.launches) == 1


@pytest.mark.slow
@pytest.mark.parametrize("how", SANITIZERS)
def test_sanitizers_find_nothing_without_the_faults(how):
    need(how)
    with recorded() as launches:
        for name in FAULTS:
            run(name, 0)
    assert sanitize(launches, how) == []


def test_a_wrong_kernel_can_give_the_right_number():
    """Which is why looking at results is not enough."""
    assert run("lost_update", 1)[0] == run("lost_update", 0)[0] == 3 * 64
    assert np.array_equal(run("overwritten_early", 1), run("overwritten_early", 0))


def test_unwritten_shared_memory_is_nan():
    assert np.isnan(run("unwritten_shared", 1)[0]) and np.isfinite(run("unwritten_shared", 0)[0])
