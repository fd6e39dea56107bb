"""Runs launches on a GPU: NVRTC compiles a kernel file at its first launch, CuPy keeps the machine code on disk."""

from functools import cache
from pathlib import Path

import numpy as np

from kernels.cuda.launcher import Launch
from kernels.cuda.source import text_of


def run(launch: Launch) -> None:
    values = tuple(np.uintp(0) if value is None else value for value in launch.values)
    _function(launch.path, launch.kernel, launch.options)(launch.grid, launch.block, values)


@cache
def _function(path: Path, kernel: str, options: tuple[tuple[str, str], ...]):
    return _module(path, options).get_function(kernel)


@cache
def _module(path: Path, options: tuple[tuple[str, str], ...]):
    import cupy

    flags = ("-std=c++17", *(f"-D{name}={value}" for name, value in options))
    return cupy.RawModule(code=text_of(path), options=flags, backend="nvrtc")
