"""One launch in the emulator: loads the compiled kernel, hands it the arguments, turns a failure into an exception."""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

from kernels.cuda.launcher import Launch
from kernels.cuda.source import kernels_in, text_of
from kernels.emulator import compiler
from kernels.forks import hold

ONE_AT_A_TIME = threading.RLock()  # the runtime has one set of fibers
hold(ONE_AT_A_TIME)  # a child would not have the launch of another thread


class EmulatorError(RuntimeError):
    """A fault in a CUDA kernel: of which kind, in which kernel, block and thread, and at which lines."""

    def __init__(self, launch: Launch, failure: "Failure", lines: tuple[str, ...] = ()):
        self.kind, self.kernel, self.lines = failure.kind.decode(), launch.kernel, lines
        self.block, self.thread = tuple(failure.block), tuple(failure.thread)
        text = failure.text.decode(errors="replace")
        where = "".join(f"; {role} at {line}" for role, line in zip(("this is", "and that"), lines, strict=False))
        super().__init__(f"{self.kind} in {self.kernel}, block {self.block}, thread {self.thread}: {text}{where}")


class Index(ctypes.Structure):
    """Index of runtime.h."""

    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]

    def __iter__(self):
        return iter((self.x, self.y, self.z))


class Failure(ctypes.Structure):
    """Failure of runtime.h."""

    _fields_ = [
        ("kind", ctypes.c_char * 32),
        ("block", Index),
        ("thread", Index),
        ("code", ctypes.c_ulonglong),
        ("other_code", ctypes.c_ulonglong),
        ("text", ctypes.c_char * 2048),
    ]


def run(launch: Launch) -> None:
    """Runs every block of the launch, in the way last chosen: plainly, checked, or recorded."""
    ways_to_run[-1](launch)


def plainly(launch: Launch, seed: int = 0) -> None:
    """Blocks and threads in order, or shuffled by a seed."""
    with ONE_AT_A_TIME:
        start(launch, launch.values, "fast", seed)


ways_to_run: list[Callable[[Launch], None]] = [plainly]


@contextmanager
def shuffled(seed: int) -> Iterator[None]:
    """Launches inside run their blocks and threads in an order drawn from the seed: a result must not depend on it."""
    ways_to_run.append(lambda launch: plainly(launch, seed))
    try:
        yield
    finally:
        ways_to_run.pop()


def start(launch: Launch, values: list, mode: str, seed: int) -> None:
    """Calls the compiled kernel with these values; raises EmulatorError when it reports a fault."""
    function = getattr(library(launch.path, launch.options, mode), f"emulator_run_{launch.kernel}")
    cells = [_cell(value) for value in values]
    addresses = (ctypes.c_void_p * max(1, len(cells)))(*(cell.ctypes.data for cell in cells))
    sizes = (Index * 2)(Index(*launch.grid), Index(*launch.block))
    if function(addresses, sizes, ctypes.c_ulonglong(seed)) != 0:
        failure = runtime(mode).emulator_failure().contents
        raise EmulatorError(launch, failure, lines_of(failure))


def _cell(value) -> np.ndarray:
    """The memory from which a kernel takes one argument: a pointer or a number."""
    if value is None or isinstance(value, np.ndarray):
        return np.array(0 if value is None else value.ctypes.data, np.uintp)
    return np.array(value)


@cache
def runtime(mode: str) -> ctypes.CDLL:
    shared = ctypes.CDLL(str(compiler.runtime(mode)))
    shared.emulator_failure.restype = ctypes.POINTER(Failure)
    return shared


@cache
def library(path: Path, options: tuple, mode: str) -> ctypes.CDLL:
    runtime(mode)
    compiled = compiler.kernel_library(path.stem, text_of(path), tuple(kernels_in(path)), options, mode)
    return ctypes.CDLL(str(compiled))


def lines_of(failure: Failure) -> tuple[str, ...]:
    """The source lines of the instructions at fault, where the failure knows them."""
    from kernels.emulator.symbols import line_of

    return tuple(line_of(code) for code in (failure.code, failure.other_code) if code)
