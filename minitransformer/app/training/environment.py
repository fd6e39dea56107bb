"""What decides about the last bits of a result, besides the program and its data: versions, processor, BLAS.

A checkpoint notes it. Whoever resumes with other software or on another machine gets a run that is as good, but not the
same to the last bit, and is told so."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

import kernels


def description() -> dict[str, Any]:
    """By plain names, as JSON values. What cannot change a bit on this backend is not among them: Numba's kernels give
    the same bits for any number of threads, NumPy's matrix products do not."""
    backend = kernels.current()
    found: dict[str, Any] = {"backend": backend.name, "minitransformer": _version("minitransformer")}
    found |= {"numpy": np.__version__, "simd": _simd(), **_blas(threads=backend.name == "numpy")}
    if backend.name == "numba":
        found |= {"numba": _version("numba"), **_compiler()}
    device = getattr(backend.folder, "device", None)
    if callable(device):  # of a real card; the emulator's is a module
        found["device"] = str(device())
    return found


def changes(saved: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What is not as it was, in words. What a former version did not note cannot be compared."""
    names = {"simd": "vector instructions", "cpu": "processor", "blas threads": "BLAS threads", "blas": "BLAS"}
    if saved.get("backend") != now["backend"]:  # and with it everything else
        return [f"backend was {saved.get('backend')!r}, now {now['backend']!r}"]
    return [
        f"{names.get(name, name)} was {saved[name]!r}, now {value!r}"[:160]
        for name, value in now.items()
        if name in saved and saved[name] != value
    ]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from its sources
        return "not installed"


def _simd() -> str:
    """The widest vector instructions that NumPy's own loops use here."""
    config: Any = np.show_config(mode="dicts")
    return ([*config.get("SIMD Extensions", {}).get("found", [])] or ["baseline"])[-1]


def _blas(threads: bool) -> dict[str, Any]:
    """The library of matrix products and which of its kernels it chose: both may follow from variables such as
    OPENBLAS_CORETYPE."""
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))  # makes sure that the library is loaded
    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    if not libraries:
        return {"blas": "unknown"}
    names = [str(libraries[0].get(part)) for part in ("internal_api", "version", "architecture")]
    found: dict[str, Any] = {"blas": " ".join(names)}
    return found | ({"blas threads": libraries[0]["num_threads"]} if threads else {})


@cache
def _compiler() -> dict[str, Any]:
    import llvmlite.binding
    import numba

    llvm = ".".join(map(str, llvmlite.binding.llvm_version_info))
    return {"llvm": llvm, "cpu": getattr(numba.config, "CPU_NAME", None) or llvmlite.binding.get_host_cpu_name()}
