"""A fork waits for the kernels of other threads, and kernels that begin meanwhile wait for the fork.

A forked child (`multiprocessing` on Linux before Python 3.14, the workers of most data loaders) has one thread: the one
that forked. Locks that another thread of the parent held at that moment, of OpenMP, of BLAS, of a compiler, stay locked
in it for good. So nobody is inside a kernel while a process forks.
"""

import os
import threading
import time
from functools import wraps
from typing import Any

from kernels.errors import BackendError

PATIENCE = 60  # seconds that a fork waits for kernels of other threads


class _Forks:
    """Who is inside a kernel, and whether somebody wants to fork. Adding to a set and reading a flag are each one step
    for Python: whoever enters says so before looking at the flag, whoever forks sets the flag before looking who is
    inside, and so at least one of them sees the other. No lock is taken at a call."""

    def __init__(self) -> None:
        self.inside: set[int] = set()  # threads
        self.pending: threading.Event | None = None  # set when the fork that is to come is over
        self.is_broken = False  # this process was forked in the midst of another thread's kernel
        self.one_at_a_time = threading.Lock()
        self.locks: list[Any] = []
        self.held: list[Any] = []

    def wait(self) -> None:
        """At the entrance: until nobody wants to fork."""
        me = threading.get_ident()
        while (pending := self.pending) is not None:
            self.inside.discard(me)
            pending.wait()
            self.inside.add(me)

    def before(self) -> None:
        self.one_at_a_time.acquire()
        self.pending = threading.Event()
        deadline = time.monotonic() + PATIENCE
        while self.inside - {threading.get_ident()} and time.monotonic() < deadline:
            time.sleep(0.0005)
        for lock in self.locks:  # not earlier: whoever is inside may need them to come out
            lock.acquire()
            self.held.append(lock)

    def in_parent(self) -> None:
        self._over()
        self.one_at_a_time.release()

    def in_child(self) -> None:
        me = threading.get_ident()
        self.is_broken |= bool(self.inside - {me})
        self.inside &= {me}
        self._over()
        self.one_at_a_time = threading.Lock()

    def _over(self) -> None:
        while self.held:
            self.held.pop().release()
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.set()


_forks = _Forks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_forks.before, after_in_parent=_forks.in_parent, after_in_child=_forks.in_child)


def hold(lock: Any) -> None:
    """A lock that no other thread may hold while a process forks."""
    _forks.locks.append(lock)


def finished_before_forks(function):
    """The same function; no fork comes while it runs in another thread."""
    inside = _forks.inside

    @wraps(function)
    def call(*args):
        me = threading.get_ident()
        try:
            inside.add(me)
            if _forks.pending is not None:
                _forks.wait()
            if _forks.is_broken:
                raise BackendError(
                    f"this process was forked while a kernel ran, for {PATIENCE} s already, in another thread of its "
                    f"parent, whose locks are closed here for ever: fork before other threads compute, or use "
                    f"multiprocessing.get_context('spawn')"
                )
            return function(*args)
        finally:
            inside.discard(me)

    return call
