"""The CUDA kernels of kernels/gpu on the CPU: the same sources, the same launchers, NumPy arrays. Flag name: emulated.

g++ compiles a .cu file as it stands (`cuda.h` supplies CUDA's words), and `runtime.cpp` runs its blocks one after
another, the threads of a block as fibers. It is there to prove kernels right without a GPU, not to be fast: `checked`
looks at every access to memory, `sanitizer.py` gives recorded launches to the compilers' own sanitizers.
"""

import numpy

from kernels.cuda.launcher import runners
from kernels.emulator.checked import Counters, Report, checked
from kernels.emulator.compiler import CompilerError, reason_against
from kernels.emulator.device import EmulatorError, run, shuffled

KERNELS = "kernels.gpu"
runners["numpy"] = run
__all__ = [
    "CompilerError",
    "Counters",
    "EmulatorError",
    "Report",
    "array_module",
    "checked",
    "reason_against",
    "shuffled",
    "to_numpy",
]


def array_module():
    return numpy


def to_numpy(array):
    return array
