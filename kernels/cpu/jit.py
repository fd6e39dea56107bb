"""How a kernel is compiled: one decorator, one set of floating-point promises, one notice to the user.

Fast-math flags, named one by one:
    reassoc   sums may be regrouped, so that a reduction fits vector registers
    contract  a·b + c may be one fused instruction
    arcp      x/c may be x·(1/c)
Infinities and NaN keep their meaning (`ninf`, `nnan` are absent): a mask is a real -inf here. So does the sign of a
zero (`nsz` is absent): the compiler keeps two versions of a loop, one for arrays that lie so close together that
they might overlap. With `nsz` the two need not agree in it, and bits would depend on where arrays happen to lie.

Threads: `prange` over tasks that each own their part of the result. A reduction across tasks goes through an array
of partial results whose number depends on the sizes alone, summed in order afterwards, so that neither timing nor
the number of threads changes a bit. That holds for what is compiled here; `matmul` is NumPy's, and follows its BLAS.
"""

import hashlib
import os
import re
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np

# A thread that has finished its part looks for more for some tens of microseconds before it sleeps: waking it takes as
# long as a small kernel. Longer would be a waste where others need the cores. Read when OpenMP is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "100000")

import numba  # noqa: E402
from numba.core import event  # noqa: E402

from kernels.cpu.kept import load_at_once, sealed_files  # noqa: E402
from kernels.cpu.self_contained import KernelCompiler  # noqa: E402
from kernels.cpu.threads import threaded  # noqa: E402
from kernels.cpu.workspace import keep_freed_memory  # noqa: E402
from kernels.disk_cache import say_once  # noqa: E402

keep_freed_memory()
KERNELS = Path(__file__).parents[1]
FLAGS = {"reassoc", "contract", "arcp"}
EXACT_FLAGS = {"contract"}  # for code that splits a constant in two, which reassoc would undo
PARTIALS = 16  # tasks of a cross-row reduction: enough for many cores, few enough to add up at no cost


def kernel(function=None, *, parallel=False, flags=FLAGS, inline=False):
    """Compiles a function at its first call and keeps the machine code on disk for the next process.

    inline: into its callers at any price. The compiler often does so by itself; where it does not, as with functions
    that call several others, a loop around the call is not vectorised."""
    if function is None:
        return lambda f: kernel(f, parallel=parallel, flags=flags, inline=inline)
    options = {"parallel": parallel, "fastmath": flags, "forceinline": inline}
    if parallel and not numba.config.DISABLE_JIT:
        return threaded(_compiled(function, options))
    return _compiled(function, options)


def _compiled(function, options):
    options = {**options, "error_model": "numpy", "nogil": True, "pipeline_class": KernelCompiler}  # numpy: 1/0 is inf
    try:
        return _outdated_with_its_imports(numba.njit(cache=True, **options)(function))
    except RuntimeError:  # Numba found no folder that it may write to
        say_once(
            "Numba kernels cannot be kept on disk (no folder to write to), so each process compiles its own; "
            "set NUMBA_CACHE_DIR to change that"
        )
        return numba.njit(**options)(function)


def _outdated_with_its_imports(dispatcher):
    """Ties the cache to every file of this project that the kernel's own file imports. Numba looks at that one alone,
    and would go on using machine code into which an older version of a helper was inlined."""
    its_cache = getattr(dispatcher, "_cache", None)
    cache_file = getattr(its_cache, "_cache_file", None)
    if hasattr(cache_file, "_source_stamp"):
        source = Path(dispatcher.py_func.__code__.co_filename)
        cache_file._source_stamp = (cache_file._source_stamp, *sorted(_digests(source) if source.exists() else ()))
        its_cache._cache_file = sealed_files(cache_file)
        load_at_once(its_cache)
    return dispatcher


@cache
def _digests(source):
    """Of a file, and of the files of `kernels` that it imports, directly or by way of others."""
    found, left = set(), [source]
    seen = set(left)
    while left:
        text = left.pop().read_bytes()
        found.add(hashlib.sha256(text).hexdigest())
        for module in re.findall(rb"^\s*from (kernels[\w.]*) import", text, re.MULTILINE):
            file = KERNELS.parent.joinpath(*module.decode().split(".")).with_suffix(".py")
            if file.exists() and file not in seen:
                seen.add(file)
                left.append(file)
    return found


def contiguous(array):
    """The array itself, or a copy in row order: compiled loops then know that neighbours are neighbours.
    Read-only arrays are copied too, since Numba would compile every kernel a second time for them."""
    if array.flags.c_contiguous and array.flags.writeable and array.flags.aligned:
        return array
    return np.array(array, order="C")


def ids64(array):
    """Integers of one width that can be written to, so that a kernel is compiled once for all of them."""
    ids = np.ascontiguousarray(array, dtype=np.int64)
    return ids if ids.flags.writeable else ids.copy()


def flat(array):
    """The same as one long row."""
    return contiguous(array).reshape(-1)


class _Notice(event.Listener):
    """Tells the user why the first call takes seconds. Fires on real compilation only, never on a cache hit."""

    def __init__(self):
        self.depth, self.count, self.started = 0, 0, 0.0

    def on_start(self, event):
        self.depth += 1
        if self.depth > 1:
            return  # a helper compiled on behalf of the kernel already announced
        self.started = time.perf_counter()
        self.count += 1
        function = event.data["dispatcher"].py_func
        file, name = function.__module__.rpartition(".")[2], function.__name__.strip("_")
        if self.count == 1:
            self._say("compiling Numba kernels: this happens once per machine, then they come from a cache\n")
        self._say(f"  {self.count:3d}  {file if name in file else file + ': ' + name} ... ")

    def on_end(self, event):
        self.depth -= 1
        if self.depth == 0:
            self._say(f"{time.perf_counter() - self.started:.1f} s\n")

    @staticmethod
    def _say(text):
        if os.environ.get("MINITRANSFORMER_QUIET") != "1":
            sys.stderr.write(text)
            sys.stderr.flush()


_notice = _Notice()
event.register("numba:compile", _notice)


def kernels_compiled():
    """How many kernels this process has compiled, since they were not in the cache."""
    return _notice.count
