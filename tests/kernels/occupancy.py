"""What every CUDA kernel costs a real GPU, found without one: NVRTC compiles each file for each architecture, and the
assembler's report says how many registers and how much shared memory a kernel takes.

    python tests/kernels/occupancy.py               the table for all kernels
    python tests/kernels/occupancy.py attention     only some files
    python tests/kernels/occupancy.py --renew       writes occupancy_budget.json, which test_nvrtc.py holds

Occupancy is the share of a multiprocessor's warps that can be there at once; a GPU hides the time memory takes by
having other warps to run. Blocks share the registers and the shared memory of a multiprocessor, so what one block
takes decides how many fit.
"""

import argparse
import importlib
import json
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kernels.cuda.launcher import TYPES
from kernels.cuda.source import FOLDER, kernels_in, text_of
from kernels.gpu import grid

BUDGET = Path(__file__).with_name("occupancy_budget.json")
RENEW = "python tests/kernels/occupancy.py --renew"
INSTALL = "pip install cupy-cuda13x nvidia-cuda-nvrtc"
MOST_SHARED = 48 * 1024  # bytes of static shared memory that a block may have on any GPU
REGISTERS = 64 * 1024  # of a multiprocessor, on every architecture below
REGISTER_UNIT = 8  # a thread's registers are handed out in steps of this


class Limits(NamedTuple):
    """One multiprocessor: how many warps and blocks it can hold, and its shared memory in bytes."""

    warps: int
    blocks: int
    shared: int
    reserved: int  # of the shared memory, taken by the driver for each block


ARCHITECTURES = {
    75: Limits(32, 16, 64 * 1024, 0),  # Turing: T4, RTX 20
    80: Limits(64, 32, 164 * 1024, 1024),  # Ampere: A100
    86: Limits(48, 16, 100 * 1024, 1024),  # Ampere: RTX 30
    90: Limits(64, 32, 228 * 1024, 1024),  # Hopper: H100
    100: Limits(64, 32, 228 * 1024, 1024),  # Blackwell: B200
    120: Limits(48, 24, 100 * 1024, 1024),  # Blackwell: RTX 50
}


@dataclass(frozen=True)
class Usage:
    """What one kernel takes on one architecture, in the words of the assembler."""

    registers: int  # a thread
    shared: int  # bytes a block
    stack: int  # bytes a thread: an array that did not fit in registers
    spills: int  # bytes a thread: stored and loaded for want of registers


class Build(NamedTuple):
    """One way to compile a file."""

    file: str
    dtype: str
    defines: tuple[tuple[str, int], ...]

    @property
    def threads(self) -> int:
        """Of a block: the define THREADS where there is one, else what grid.py gives; one a row: up to most_threads."""
        return dict(self.defines).get("THREADS", grid.THREADS)

    @property
    def most_threads(self) -> int:
        return dict(self.defines).get("THREADS", grid.MOST_THREADS)

    def __str__(self) -> str:
        return " ".join([self.file, self.dtype, *(f"{name}={value}" for name, value in self.defines)])


class NvrtcError(RuntimeError):
    """NVRTC is missing, or refused a kernel file."""


def reason_against() -> str | None:
    """Why nothing can be compiled here. No GPU and no driver are needed."""
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()
    except Exception as error:  # not installed, or the library behind it is missing
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return f"NVRTC cannot be used ({first}); {INSTALL}"
    return None


def files() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.cu"))


def builds(file: str) -> list[Build]:
    """Every way the launchers compile a file: VARIANTS of kernels/gpu/FILE.py, in both dtypes."""
    variants = getattr(importlib.import_module(f"kernels.gpu.{file}"), "VARIANTS", [{}])
    return [Build(file, dtype, tuple(sorted(defines.items()))) for dtype in TYPES for defines in variants]


def compiled(path: Path, architecture: int, defines: dict[str, object], flags: tuple[str, ...] = ()) -> str:
    """What NVRTC and the assembler have to say about a file; raises where they refuse it."""
    from cupy.cuda import nvrtc

    options = ["-std=c++17", f"-arch=sm_{architecture}", "--ptxas-options=-v", *flags]
    program = nvrtc.createProgram(text_of(path), path.name, [], [])
    try:
        nvrtc.compileProgram(program, [*options, *(f"-D{name}={value}" for name, value in defines.items())])
        return nvrtc.getProgramLog(program).strip("\0\n ")
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program).strip("\0\n ")
        raise NvrtcError(f"{path.name} does not compile for sm_{architecture}: {log or error}") from None
    finally:
        nvrtc.destroyProgram(program)


@cache
def report(build: Build, architecture: int) -> str:
    """The log of one build; kept, since table and tests ask for the same."""
    defines = {"REAL": TYPES[build.dtype], **dict(build.defines)}
    return compiled(FOLDER / f"{build.file}.cu", architecture, defines)


def usages(log: str) -> dict[str, Usage]:
    """The figures of each kernel in a log."""
    found = {}
    for name, lines in re.findall(r"Function properties for (\w+)\n(.*\n.*Used .*)", log):
        stack, stores, loads = (int(n) for n in re.findall(r"(\d+) bytes (?:stack frame|spill)", lines))
        registers = int(re.search(r"Used (\d+) registers", lines)[1])
        shared = re.search(r"(\d+) bytes smem", lines)
        found[name] = Usage(registers, int(shared[1]) if shared else 0, stack, stores + loads)
    return found


def warnings(log: str) -> list[str]:
    """Every line of a log that is not part of the assembler's ordinary report."""
    ordinary = re.compile(r"ptxas info\s+: |ptxas\s+\.\s|\s*$")
    return [line for line in log.splitlines() if not ordinary.match(line)]


def resident_blocks(usage: Usage, threads: int, limits: Limits) -> int:
    """Blocks on a multiprocessor at once. Registers go to warps in units of 256, shared memory in 256 bytes."""
    warps = threads // grid.WARP
    registers = -(-usage.registers // REGISTER_UNIT) * REGISTER_UNIT * grid.WARP * warps
    shared = -(-(usage.shared + limits.reserved) // 256) * 256
    by_memory = limits.shared // shared if shared else limits.blocks
    return min(limits.blocks, limits.warps // warps, REGISTERS // max(registers, 1), by_memory)


def occupancy(usage: Usage, threads: int, limits: Limits) -> float:
    return resident_blocks(usage, threads, limits) * (threads // grid.WARP) / limits.warps


def complaints(build: Build, architecture: int, budget: dict[str, list[int]]) -> list[str]:
    """What is wrong with a build; empty when all is well. budget: {name: [registers, shared bytes]}"""
    log = report(build, architecture)
    found, where = usages(log), f"{build} on sm_{architecture}"
    wrong = [f"{where}: {line}" for line in warnings(log)]
    missing = set(kernels_in(FOLDER / f"{build.file}.cu")) - set(found)
    wrong += [f"{where}: the assembler did not report on {name}" for name in sorted(missing)]
    for name, usage in found.items():
        wrong += [f"{where}, {name}: {text}" for text in _complaints(usage, build, architecture)]
        wrong += [f"{where}, {name}: {text}" for text in over_budget(usage, budget.get(f"{build} {name}"))]
    return wrong


def _complaints(usage: Usage, build: Build, architecture: int) -> list[str]:
    wrong = []
    if usage.spills or usage.stack:
        wrong.append(f"registers spill: {usage.spills} bytes stored and loaded, {usage.stack} bytes of stack a thread")
    if usage.shared > MOST_SHARED:
        wrong.append(f"{usage.shared} bytes of shared memory, and a block may have {MOST_SHARED}")
    if resident_blocks(usage, build.most_threads, ARCHITECTURES[architecture]) == 0:
        wrong.append(f"a block of {build.most_threads} threads does not fit on a multiprocessor")
    return wrong


def over_budget(usage: Usage, budget: list[int] | None) -> list[str]:
    """Registers count in steps of 8: fewer than that change nothing on a GPU, and compiler versions differ by a few."""
    if budget is None:
        return [f"not in {BUDGET.name}; if it is meant to be there: {RENEW}"]
    registers, shared = budget
    wrong = []
    if usage.registers > -(-registers // REGISTER_UNIT) * REGISTER_UNIT:
        wrong.append(f"{usage.registers} registers, {registers} in {BUDGET.name}; if that is meant: {RENEW}")
    if usage.shared > shared:
        wrong.append(f"{usage.shared} bytes of shared memory, {shared} in {BUDGET.name}; if that is meant: {RENEW}")
    return wrong


def load_budget() -> dict[str, list[int]]:
    return json.loads(BUDGET.read_text(encoding="utf-8"))


def worst(build: Build) -> dict[str, list[int]]:
    """The largest [registers, shared bytes] over all architectures."""
    result: dict[str, list[int]] = {}
    for architecture in ARCHITECTURES:
        for name, usage in usages(report(build, architecture)).items():
            registers, shared = result.get(name, [0, 0])
            result[name] = [max(registers, usage.registers), max(shared, usage.shared)]
    return result


def table(chosen: list[str]) -> str:
    """A line for each kernel and way to compile it: what it takes at most, then its occupancy on each architecture."""
    lines = [f"{'kernel':<88} threads  registers  shared  " + "  ".join(f"sm_{a}".rjust(6) for a in ARCHITECTURES)]
    for build in (build for file in chosen for build in builds(file)):
        found = {a: usages(report(build, a)) for a in ARCHITECTURES}
        for name, (registers, shared) in worst(build).items():
            shares = (occupancy(found[a][name], build.threads, limits) for a, limits in ARCHITECTURES.items())
            columns = "  ".join(f"{share:6.0%}" for share in shares)
            lines.append(f"{f'{build} {name}':<88} {build.threads:7d}  {registers:9d}  {shared:6d}  {columns}")
    return "\n".join(lines)


def renew() -> int:
    """Writes the budget from what the kernels take now; returns the number of entries."""
    entries = {f"{build} {name}": taken for f in files() for build in builds(f) for name, taken in worst(build).items()}
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(entries.items()))
    BUDGET.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    return len(entries)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help=f"from {', '.join(files())} (default: all)")
    parser.add_argument("--renew", action="store_true", help="write the budget anew, for all files")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.files) - set(files()))
    reason = (
        f"there is no kernel file {unknown[0]!r}; choose from {', '.join(files())}" if unknown else reason_against()
    )
    if reason is not None:
        print(f"occupancy: {reason}", file=sys.stderr)
        return 2
    if options.renew:
        print(f"{BUDGET}: {renew()} entries")
    else:
        print(table(options.files or files()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
