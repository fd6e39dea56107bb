"""Arrays in, arrays out: every kernel the engine needs, on whichever backend the flag names.

    import kernels
    kernels.available()              # ("numpy", "numba")
    kernels.use("numba")             # from here on
    with kernels.use("numpy"): ...   # only inside
    kernels.current().softmax(x)     # checked against the contract, then run

`contract.py` says what a backend must offer; `reference/` is the specification in plain NumPy, `cpu/` the same
in Numba. Open the files of one name side by side.
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
from kernels.contract import KernelError

PROJECT = "minitransformer"  # tells this package from others of its name
__all__ = [
    "Backend",
    "BackendError",
    "KernelError",
    "available",
    "backend",
    "backend_of",
    "current",
    "reasons",
    "use",
]
