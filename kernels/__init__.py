"""Arrays in, arrays out: every kernel the engine needs, on whichever backend the flag names.

    import kernels
    kernels.available()              # ("numpy", "numba", "emulated"); "cupy" too where there is a GPU
    kernels.use("numba")             # from here on
    with kernels.use("numpy"): ...   # only inside
    kernels.current().softmax(x)     # checked against the contract, then run

`contract.py` says what a backend must offer, in lines that `signature.py` reads; `reference/` is the specification in
plain NumPy, `cpu/` the same in Numba, `gpu/` the same in CUDA C. Open the files of one name side by side. `emulator/`
runs those of `gpu/` without a GPU, and `kernels.emulator.checked()` watches every access they make; `cuda/` is what
these two have in common: what a kernel file says, and what a launch is.
"""

from kernels.backend import (
    Backend,
    BackendError,
    available,
    backend,
    backend_of,
    current,
    reasons,
    use,
)
from kernels.contract import Dropout, KernelError, Mask

PROJECT = "minitransformer"  # tells this package from others of its name
__all__ = [
    "Backend",
    "BackendError",
    "Dropout",
    "KernelError",
    "Mask",
    "available",
    "backend",
    "backend_of",
    "current",
    "reasons",
    "use",
]
