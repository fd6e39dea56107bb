"""CUDA C kernels (*.cu) and the functions that launch them (*.py). Flag name: cupy.

Here the arrays are CuPy's, and NVRTC compiles the kernels at the first call. The same functions and the same sources
also work on NumPy arrays, once the emulator is imported: `cuda/launcher.py` looks at the arrays it is given.
"""

from kernels.cuda.launcher import runners
from kernels.gpu import nvrtc

runners["cupy"] = nvrtc.run
INSTALL = "pip install cupy-cuda12x (or cupy-cuda13x, whichever fits the driver: nvidia-smi shows its CUDA version)"


def reason_against() -> str | None:
    try:
        import cupy
    except ImportError as error:
        return f"CuPy cannot be imported ({_one_line(error)}); {INSTALL}"
    except Exception as error:  # a broken installation can fail in any way
        return f"CuPy is installed but does not load ({_one_line(error)}); {INSTALL}"
    return _reason_against_device(cupy)


def _reason_against_device(cupy) -> str | None:
    """Asks the driver, in the order in which things can be missing."""
    runtime = cupy.cuda.runtime
    try:
        driver, built_for = runtime.driverGetVersion(), runtime.runtimeGetVersion()
        if driver == 0:
            return "there is no NVIDIA driver; install one (nvidia-smi shows whether it works)"
        if driver // 1000 < built_for // 1000:  # within one major version, CUDA promises to work
            return (
                f"the NVIDIA driver supports CUDA up to {_version(driver)} and this CuPy was built for "
                f"{_version(built_for)}; update the driver, or install the CuPy that fits it: {INSTALL}"
            )
        if runtime.getDeviceCount() == 0:
            return "the NVIDIA driver sees no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES"
    except Exception as error:
        return f"no GPU can be used ({_one_line(error)}); look at nvidia-smi and CUDA_VISIBLE_DEVICES"
    return None


def device() -> str:
    """The GPU in use and its driver, for whoever reports a measurement."""
    runtime = array_module().cuda.runtime
    name = runtime.getDeviceProperties(runtime.getDevice())["name"].decode()
    return f"{name}, driver for CUDA {_version(runtime.driverGetVersion())}"


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _one_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def array_module():
    import cupy

    return cupy


def to_numpy(array):
    return array_module().asnumpy(array)
