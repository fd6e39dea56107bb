"""Launches under observation: every access to memory is looked at and counted.

    with kernels.emulator.checked(seed=3) as report:
        kernels.backend("emulated").softmax(x)
    print(report.table())

A fault (an index out of bounds, shared memory read before it was written, a race, a barrier that not all threads
reach, a shuffle without all its lanes) raises EmulatorError with kernel, block, thread and source line. The seed
shuffles threads and blocks; seed=0 runs them in order.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from kernels.cuda.launcher import Launch
from kernels.emulator import device
from kernels.emulator.memory import piece_with, pieces_of
from kernels.emulator.symbols import line_of, shared_variables

GAP = 4096  # bytes between two arrays that belong to nobody
ALIGNMENT = 512  # of arrays on a GPU


class Region(ctypes.Structure):
    """Region of checks.h."""

    _fields_ = [
        ("begin", ctypes.c_ulonglong),
        ("bytes", ctypes.c_ulonglong),
        ("element_bytes", ctypes.c_int),
        ("writable", ctypes.c_int),
        ("name", ctypes.c_char * 64),
    ]


class _Counters(ctypes.Structure):
    """Counters of checks.h."""

    _fields_ = [
        (name, ctypes.c_longlong)
        for name in (
            "global_loads", "global_stores", "load_lines", "load_lines_ideal", "store_lines", "store_lines_ideal",
            "shared_loads", "shared_stores", "shared_waves", "shared_waves_ideal",
            "atomics", "barriers", "warp_barriers", "shuffles", "uncoalesced_code", "conflicting_code",
        )
    ]  # fmt: skip


@dataclass
class Counters:
    """What one launch did (or several launches of one kernel, added up)."""

    kernel: str
    launches: int = 1
    global_loads: int = 0  # by threads
    global_stores: int = 0
    load_lines: int = 0  # 128-byte lines touched, summed over the accesses of warps
    load_lines_ideal: int = 0  # lines that could hold the same bytes
    store_lines: int = 0
    store_lines_ideal: int = 0
    shared_loads: int = 0  # by threads
    shared_stores: int = 0
    shared_waves: int = 0  # turns of the 32 banks, summed over the accesses of warps
    shared_waves_ideal: int = 0
    atomics: int = 0  # by threads
    barriers: int = 0  # by blocks
    warp_barriers: int = 0  # by warps
    shuffles: int = 0  # by warps
    uncoalesced_code: int = 0  # addresses of the instructions that waste the most lines,
    conflicting_code: int = 0  # and the most turns of the banks

    @property
    def lines(self) -> int:
        return self.load_lines + self.store_lines

    @property
    def coalescing(self) -> float:
        """1.0: no line is touched without need. 0.25: four times as many lines as the bytes would fill."""
        ideal = self.load_lines_ideal + self.store_lines_ideal
        return ideal / self.lines if self.lines else 1.0

    @property
    def bank_conflicts(self) -> int:
        """Turns of shared memory beyond those that conflict-free accesses would take."""
        return self.shared_waves - self.shared_waves_ideal

    @property
    def uncoalesced_at(self) -> str:
        """The source line that touches the most lines of memory without need; "" if none does."""
        return line_of(self.uncoalesced_code) if self.uncoalesced_code else ""

    @property
    def conflicts_at(self) -> str:
        """The source line with the most bank conflicts; "" if there are none."""
        return line_of(self.conflicting_code) if self.conflicting_code else ""

    def __add__(self, other: "Counters") -> "Counters":
        sums = {
            name: value or getattr(other, name) if name.endswith("_code") else value + getattr(other, name)
            for name, value in vars(self).items()
            if name != "kernel"
        }
        return Counters(kernel=self.kernel, **sums)


@dataclass
class Report:
    """The counters of every launch, in order."""

    launches: list[Counters] = field(default_factory=list)

    def by_kernel(self) -> dict[str, Counters]:
        sums: dict[str, Counters] = {}
        for one in self.launches:
            sums[one.kernel] = sums[one.kernel] + one if one.kernel in sums else one
        return sums

    def table(self) -> str:
        """One line a kernel, all its launches added up."""
        columns = {
            "kernel": lambda c: c.kernel,
            "launches": lambda c: c.launches,
            "loads": lambda c: c.global_loads,
            "stores": lambda c: c.global_stores,
            "lines": lambda c: c.lines,
            "coalescing": lambda c: f"{c.coalescing:.0%}",
            "shared": lambda c: c.shared_loads + c.shared_stores,
            "bank conflicts": lambda c: c.bank_conflicts,
            "barriers": lambda c: c.barriers,
            "shuffles": lambda c: c.shuffles,
        }
        rows = [list(columns), *([str(get(c)) for get in columns.values()] for c in self.by_kernel().values())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for name, *cells in rows:
            numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
            lines.append("  ".join((name.ljust(widths[0]), *numbers)))
        return "\n".join(lines)

    __str__ = table


@contextmanager
def checked(seed: int = 1) -> Iterator[Report]:
    """All launches inside run in checked mode; gives a Report that fills as they run."""
    report = Report()
    device.ways_to_run.append(lambda launch: report.launches.append(_run(launch, seed)))
    try:
        yield report
    finally:
        device.ways_to_run.pop()


def _run(launch: Launch, seed: int) -> Counters:
    with device.ONE_AT_A_TIME:
        values, regions, put_back = _with_gaps(launch)
        runtime = device.runtime("checked")
        compiled = device.library(launch.path, launch.options, "checked")
        element = {"float": 4, "double": 8}[dict(launch.options)["REAL"]]
        shared = [
            Region(v.offset, v.bytes, min(element, v.bytes), 1, v.name.encode()[:63])
            for v in shared_variables(compiled._name)
        ]
        runtime.emulator_check(
            (Region * max(1, len(regions)))(*regions),
            len(regions),
            (Region * max(1, len(shared)))(*shared),
            len(shared),
        )
        device.start(launch, values, "checked", seed)
        put_back()
        runtime.emulator_counters.restype = ctypes.POINTER(_Counters)
        counted = runtime.emulator_counters().contents
    return Counters(launch.kernel, **{name: getattr(counted, name) for name, *_ in _Counters._fields_})


def _with_gaps(launch: Launch):
    """Copies of the arrays with gaps between them, so that an index outside one array is outside all of them.
    Returns the values with the copies in place of the arrays, the regions, and what writes the results back."""
    pieces = pieces_of(launch)
    room = np.full(sum(p.end - p.begin + GAP + ALIGNMENT for p in pieces) + 2 * GAP, 0xFF, np.uint8)
    at, starts = room.ctypes.data + GAP, []
    for piece in pieces:
        at += -at % ALIGNMENT
        starts.append(at)
        at += piece.end - piece.begin + GAP
    values, copies = list(launch.values), []
    for n, array in enumerate(launch.values):
        if isinstance(array, np.ndarray) and array.nbytes:
            number, offset = piece_with(pieces, array)
            first = starts[number] + offset - room.ctypes.data
            values[n] = room[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
            values[n][...] = array
            if not launch.parameters[n].const:
                copies.append((array, values[n]))
    regions = [
        Region(start, p.end - p.begin, p.element_bytes, p.writable, p.name.encode()[:63])
        for p, start in zip(pieces, starts, strict=True)
    ]

    def put_back():
        for array, copy in copies:
            array[...] = copy

    return values, regions, put_back
