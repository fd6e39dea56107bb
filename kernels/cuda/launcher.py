"""Launches a CUDA kernel on whatever its arrays are: CuPy arrays on the GPU, NumPy arrays in the emulator.

    launch("layer_norm", "layer_norm_forward", (N,), (128,), (y, mean, rstd, x, weight, bias, N, C, eps), x.dtype)

Every argument is checked against the signature in the .cu file: a GPU would take any eight bytes for a pointer.
"""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kernels.cuda.source import POINTERS, LaunchError, Parameter, kernels_in, path_of

WARP = 32
BLOCK_LIMIT = 1024  # threads of a block
GRID_LIMITS = (2**31 - 1, 65535, 65535)  # blocks along each axis
TYPES = {"float32": "float", "float64": "double"}
INTEGERS: dict[str, Any] = {
    "int": np.int32,
    "long long": np.int64,
    "unsigned int": np.uint32,
    "unsigned long long": np.uint64,
}
RANGES = {name: np.iinfo(kind) for name, kind in INTEGERS.items()}


class Launch(NamedTuple):
    """Everything that a launch is: enough to run it, to check it, or to write it down."""

    path: Path
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    values: list  # arrays, None for a null pointer, or NumPy scalars of the declared width
    options: tuple[tuple[str, str], ...]  # names and values to define: REAL, and the constants of the file

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return kernels_in(self.path)[self.kernel]


# Who runs launches, by the package that made their arrays: emulator/ enters itself for numpy, gpu/ for cupy.
runners: dict[str, Callable[[Launch], None]] = {}


def module_of(array) -> Any:
    """numpy or cupy, whichever made this array: allocate results with it."""
    if isinstance(array, np.ndarray):
        return np
    return sys.modules[type(array).__module__.partition(".")[0]]  # whoever has a CuPy array has imported CuPy


def launch(file, kernel, grid, block, args, dtype, defines=None) -> None:
    """Runs `kernel` of kernels/gpu/FILE.cu with `real` = dtype. A grid with a zero in it has nothing to do."""
    path = path_of(file)
    parameters = _parameters(path, kernel)
    grid, block = _three(kernel, "grid", grid), _three(kernel, "block", block)
    if 0 in grid:
        return
    _check_sizes(kernel, grid, block)
    dtype = np.dtype(dtype)
    if dtype.name not in TYPES:
        raise LaunchError(f"{kernel}: kernels are written for float32 and float64, not {dtype}")
    if len(args) != len(parameters):
        expected = ", ".join(map(str, parameters))
        raise LaunchError(f"{kernel}: {len(args)} arguments given, {len(parameters)} expected: {expected}")
    values = [_value(kernel, p, arg, dtype) for p, arg in zip(parameters, args, strict=True)]
    options = ("REAL", TYPES[dtype.name]), *sorted((name, str(value)) for name, value in (defines or {}).items())
    _run(Launch(path, kernel, grid, block, values, options))


def _run(launch: Launch) -> None:
    pointers = [(p.name, v) for p, v in zip(launch.parameters, launch.values, strict=True) if p.pointer]
    made_by = {name: module_of(array).__name__ for name, array in pointers if array is not None}
    packages = set(made_by.values()) or {"numpy"}
    if len(packages) > 1:
        names = ", ".join(f"{name}: {package}" for name, package in made_by.items())
        raise LaunchError(f"{launch.kernel}: arrays of two kinds in one launch ({names})")
    (package,) = packages
    if package not in runners:
        needed = "import kernels.emulator for those of numpy, kernels.gpu for those of cupy"
        raise LaunchError(f"{launch.kernel}: nothing is loaded that runs launches on arrays of {package}; {needed}")
    runners[package](launch)


@cache
def _parameters(path, kernel) -> tuple[Parameter, ...]:
    known = kernels_in(path)
    if kernel not in known:
        raise LaunchError(f"{path.name} has no kernel {kernel!r}; there are: {', '.join(known) or 'none'}")
    return known[kernel]


def _three(kernel: str, what: str, sizes) -> tuple[int, int, int]:
    if not isinstance(sizes, tuple) or not 1 <= len(sizes) <= 3 or any(int(size) != size for size in sizes):
        raise LaunchError(f"{kernel}: {what} must be a tuple of one to three integers, not {sizes!r}")
    if min(sizes) < 0:
        raise LaunchError(f"{kernel}: {what} must not be negative, not {sizes}")
    x, y, z = (*map(int, sizes), 1, 1)[:3]
    return x, y, z


def _check_sizes(kernel: str, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
    threads = block[0] * block[1] * block[2]
    if threads % WARP or not 0 < threads <= BLOCK_LIMIT:
        raise LaunchError(
            f"{kernel}: a block has {threads} threads {block}; a multiple of {WARP} up to {BLOCK_LIMIT} is needed"
        )
    if block[2] > 64:
        raise LaunchError(f"{kernel}: a block may be 64 threads deep at most, not {block[2]}")
    if any(size > most for size, most in zip(grid, GRID_LIMITS, strict=True)):
        raise LaunchError(f"{kernel}: a grid of {grid} blocks is too large; {GRID_LIMITS} is the limit")


def _value(kernel: str, parameter: Parameter, arg, dtype: np.dtype):
    """The argument as the kernel takes it: an array, None for a null pointer, or a NumPy scalar of the right width."""
    if parameter.pointer:
        return None if arg is None else _array(kernel, parameter, arg, dtype)
    if parameter.type == "real":
        return dtype.type(arg)
    if not hasattr(arg, "__index__"):
        raise LaunchError(f"{kernel}: {parameter.name} must be an integer, not {arg!r}")
    number, limits = int(arg), RANGES[parameter.type]
    if not limits.min <= number <= limits.max:
        raise LaunchError(f"{kernel}: {parameter.name} = {number} does not fit '{parameter}'")
    return INTEGERS[parameter.type](number)


def _array(kernel: str, parameter: Parameter, arg, dtype: np.dtype):
    wanted = dtype if parameter.type == "real" else np.dtype(POINTERS[parameter.type])
    where = f"{kernel}: {parameter.name}"
    if not hasattr(arg, "flags") or not hasattr(arg, "dtype") or np.isscalar(arg):
        raise LaunchError(f"{where} must be an array, not {type(arg).__name__}")
    if arg.dtype != wanted:
        raise LaunchError(f"{where} holds {arg.dtype}, but '{parameter}' needs {wanted}")
    if not arg.flags.c_contiguous:
        raise LaunchError(f"{where} is not contiguous: its strides are {arg.strides} for shape {arg.shape}")
    if isinstance(arg, np.ndarray) and not parameter.const and not arg.flags.writeable:
        raise LaunchError(
            f"{where} is read-only, but the kernel may write to '{parameter}'; declare it const or copy it"
        )
    return arg
