"""How many threads a kernel gets, in this process and in its children.

Small arrays are worked on by the calling thread alone: waking the others costs tens of microseconds, and milliseconds
while they still spin in BLAS. The number of threads changes no bit.

A process that was forked from one whose kernels have run (`multiprocessing` on Linux before Python 3.14, the workers of
most data loaders) inherits the records of threads that do not exist in it: waiting for them would take for ever, and
Numba ends such a process by a signal. There the layer below is started anew, and each process works with one thread:
those who fork do it to have one process a core. (No thread is inside a kernel at that moment:
kernels/forks.py.)
"""

import ctypes
import os
import threading
from functools import cache, wraps
from typing import Any

import numba
import numpy as np
from numba.core.compiler_lock import global_compiler_lock
from numba.np.ufunc import parallel

from kernels.errors import BackendError
from kernels.forks import hold

SMALL = 30_000  # elements: smaller arrays are worked on by one thread


class _Process:
    """What a fork changes."""

    is_forked = False  # from one in which threads ran
    needs_start = False  # the threading layer is still that of the parent
    one_at_a_time = threading.Lock()  # for a layer that serves a single Python thread
    one_alone = False  # it is such a layer
    thread_count: tuple[Any, Any] | None = None  # functions that get and set the number of threads, once they run


def _after_fork() -> None:
    _Process.one_at_a_time = threading.Lock()
    if getattr(parallel, "_is_initialized", False):
        _Process.is_forked = _Process.needs_start = True


hold(global_compiler_lock)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def threaded(dispatcher):
    """A parallel kernel with the number of threads that its arguments are worth. `numbers` tells how many there are to
    work on where the arguments do not."""

    @wraps(dispatcher.py_func)
    def call(*args, numbers=0):
        get, set = _Process.thread_count or _start()
        if _Process.needs_start:
            _start_again()
        if _Process.one_alone:
            return _alone(dispatcher, args)
        if not _Process.is_forked:
            if numbers >= SMALL:
                return dispatcher(*args)
            for arg in args:
                if type(arg) is np.ndarray and arg.size >= SMALL:
                    return dispatcher(*args)
        former = get()
        try:
            set(1)
            return dispatcher(*args)
        finally:
            set(former)

    return call


def _start() -> tuple[Any, Any]:
    """Starts the threads, and finds the functions that get and set their number. Numba's public ones take a lock and
    look for running threads at each call, longer than a small kernel takes; those below them do for running threads."""
    try:
        numba.set_num_threads(numba.get_num_threads())
    except ValueError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        chosen = os.environ.get("NUMBA_THREADING_LAYER")
        given = f"NUMBA_THREADING_LAYER={chosen!r} in the environment: " if chosen else ""
        raise BackendError(
            f"{given}Numba cannot start its threads ({reason}); set NUMBA_THREADING_LAYER to omp, tbb or workqueue, or "
            f"leave it unset"
        ) from None
    get, set = (getattr(parallel, f"_{name}_num_threads", None) for name in ("get", "set"))
    _Process.one_alone = _layer() == "workqueue"
    _Process.thread_count = (get, set) if get and set else (numba.get_num_threads, numba.set_num_threads)
    return _Process.thread_count


@cache
def _layer() -> str:
    return numba.threading_layer()


def _start_again() -> None:
    """Starts the threading layer of a forked process, with one thread. TBB takes care of itself."""
    name = {"omp": "omppool", "workqueue": "workqueue"}.get(_layer())
    if name is not None:
        module = __import__(f"numba.np.ufunc.{name}", fromlist=[name])
        ctypes.CFUNCTYPE(None, ctypes.c_int)(module.launch_threads)(1)
    (_Process.thread_count or _start())[1](1)
    _Process.needs_start = False


def _alone(dispatcher, args):
    """Numba's `workqueue` ends the process when two Python threads meet in it; here the second one gets an error."""
    if not _Process.one_at_a_time.acquire(blocking=False):
        raise BackendError(
            "Numba's threading layer 'workqueue' serves one Python thread at a time, and two call kernels here; "
            "set NUMBA_THREADING_LAYER=omp (or tbb), or call kernels from one thread only"
        )
    try:
        return dispatcher(*args)
    finally:
        _Process.one_at_a_time.release()
