"""The processes of one job, called ranks: one alone, or those that mpiexec started, which talk by MPI.

    ranks.world()    the ranks of this process; under mpiexec those of MPI, else one alone
    ranks.shared()   a function of many items, its work divided among the ranks that train at the moment

Everything here is exact: arrays are moved, numbers are compared, and whatever is added up is added by the caller in an
order that does not depend on the number of ranks. Only MPI's buffer calls are used: nothing is pickled."""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import numpy as np

from minitransformer.app.lifelines import Lifeline
from minitransformer.app.watcher import RANK
from minitransformer.errors import UserError

Item = TypeVar("Item")
_AT_ONCE, _PAUSE = 50, 5e-5  # questions to MPI without a pause, then seconds of one
_LAST_SECONDS = 3.0  # that MPI has to end all ranks
_PATIENCE = 1.0  # seconds in which rank 0 may say first what all ranks have to say


class Alone:
    """One rank: nothing has to be sent."""

    rank, size = 0, 1
    can_use_threads = False  # whether a thread may send while another one computes
    received = 0  # bytes from other ranks so far
    seconds = 0.0  # spent on sending and waiting so far, in whatever thread

    def greatest(self, number: float) -> float:
        """Of the numbers that the ranks give."""
        return number

    def gathered(self, array: np.ndarray) -> list[np.ndarray]:
        """The arrays (n) of all ranks, in their order; each may be of another length."""
        return [array]

    def told(self, said: bytes) -> list[bytes]:
        """What the ranks have to tell each other, in their order."""
        return [array.tobytes() for array in self.gathered(np.frombuffer(said, dtype=np.uint8))]

    def exchanged(self, arrays: Sequence[np.ndarray], lengths: Sequence[int]) -> list[np.ndarray]:
        """arrays[r] (n) goes to rank r; what each rank sent to this one. lengths: of what is to come"""
        return [*arrays]

    def at_first(self, array: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
        """The arrays of all ranks, for rank 0 only; others get nothing."""
        return [array]


class Mpi(Alone):
    """The ranks of an MPI communicator."""

    def __init__(self, communicator: Any):
        from mpi4py import MPI

        self._all, self.rank, self.size = communicator, communicator.Get_rank(), communicator.Get_size()
        self.can_use_threads = self.size > 1 and MPI.Query_thread() >= MPI.THREAD_SERIALIZED

    def _wait(self, request: Any) -> None:
        """Until it is done. MPI moves data only while it is called, and its own way to wait keeps a core busy, which
        another thread or another rank may need to compute. So it is asked often, as each time it moves a few
        kilobytes at most, with pauses in between."""
        start, asked = time.perf_counter(), 0
        while not request.Test():
            asked += 1
            if asked % _AT_ONCE == 0:
                time.sleep(_PAUSE)
        self.seconds += time.perf_counter() - start

    def greatest(self, number: float) -> float:
        from mpi4py import MPI

        found = np.empty(1)
        self._wait(self._all.Iallreduce(np.array([number], dtype=np.float64), found, op=MPI.MAX))
        return float(found[0])

    def gathered(self, array: np.ndarray) -> list[np.ndarray]:
        lengths = np.empty(self.size, dtype=np.int64)
        self._wait(self._all.Iallgather(np.array([len(array)], dtype=np.int64), lengths))
        found, parts = _room(array.dtype, lengths)
        self._wait(self._all.Iallgatherv(np.ascontiguousarray(array), [found, lengths]))
        self.received += found.nbytes - array.nbytes
        return parts

    def exchanged(self, arrays: Sequence[np.ndarray], lengths: Sequence[int]) -> list[np.ndarray]:
        found, parts = _room(arrays[0].dtype, lengths)
        sent = np.concatenate(arrays)
        self._wait(self._all.Ialltoallv([sent, [len(array) for array in arrays]], [found, lengths]))
        self.received += found.nbytes - parts[self.rank].nbytes
        return parts

    def at_first(self, array: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
        found, parts = _room(array.dtype, lengths if self.rank == 0 else [])
        self._wait(
            self._all.Igatherv(np.ascontiguousarray(array), [found, lengths] if self.rank == 0 else None, root=0)
        )
        self.received += found.nbytes - array.nbytes if self.rank == 0 else 0
        return parts


def _room(dtype: Any, lengths: Iterable[int]) -> tuple[np.ndarray, list[np.ndarray]]:
    """An array for arrays of these lengths one after the other, and the views of them."""
    ends = np.cumsum([0, *lengths])
    whole = np.empty(ends[-1], dtype=dtype)
    return whole, [whole[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)]


# ------------------------------------------------------------------------------------------ this process's own

_world: Alone | None = None
_lifeline: Lifeline | None = None
_training: Alone = Alone()


def under_mpi() -> bool:
    """Whether a launcher such as mpiexec started this process."""
    return any(name in os.environ for name in RANK)


def is_first() -> bool:
    """Rank 0, or no ranks at all: the one that speaks."""
    if _world is not None:
        return _world.rank == 0
    return all(os.environ.get(name, "0") == "0" for name in RANK)


def world() -> Alone:
    """All ranks of the job. The first call starts MPI, where a launcher started this process."""
    global _world
    if _world is None:
        _world = _started() if under_mpi() else Alone()
    return _world


def _started() -> Mpi:
    global _lifeline
    _lifeline = Lifeline(_lost)
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: no MPI library for it
        raise UserError(
            f"started by mpiexec, but mpi4py cannot be used here ({str(error).splitlines()[0]}): "
            "pip install 'minitransformer[mpi]', or start it without mpiexec"
        ) from error
    ranks = Mpi(MPI.COMM_WORLD)
    sys.excepthook = _failed
    neighbours = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED).Get_size()
    _share_cores(neighbours)
    _lifeline.meet(ranks.size, ranks.told, neighbours == ranks.size)
    return ranks


def _lost(line: str) -> None:
    """A rank or the watcher has gone, and nothing can come of waiting. Called in a thread. line: "" if it was said"""
    if line:
        with suppress(OSError):
            os.write(2, f"\n{line}; the others end too, and what was saved can be resumed\n".encode())
    end_all(1)


def _failed(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """An exception that nobody has caught ends a Python program, and must not leave the other ranks waiting."""
    sys.__excepthook__(kind, error, trace)
    if _world is not None:
        print(f"rank {_world.rank} of {_world.size} failed: {kind.__name__}: {error}", file=sys.stderr, flush=True)
    end_all(1)


def _share_cores(neighbours: int) -> None:
    """Threads divided fairly among the ranks of a machine, where the user has not said how many. Numba's kernels give
    the same bits for any number of threads; the matrix products of NumPy's BLAS do not, and get one."""
    import threadpoolctl

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if "NUMBA_NUM_THREADS" not in os.environ:
        import numba

        numba.set_num_threads(max(1, min(numba.get_num_threads(), cores // neighbours)))
    threadpoolctl.threadpool_limits(1, user_api="blas")


@contextmanager
def training_on(ranks: Alone) -> Iterator[None]:
    """Inside, `shared` divides its work among these."""
    global _training
    former, _training = _training, ranks
    try:
        yield
    finally:
        _training = former


def shared(numbers_of: Callable[[Item], Sequence[float]], items: Iterable[Item]) -> list[list[float]]:
    """[numbers_of(item) for item in items]: item i is the work of rank i modulo their number, and every rank gets
    all results in the order of the items. A result has the same few numbers for each item."""
    ranks, mine, count = _training, [], 0
    for count, item in enumerate(items, 1):
        if (count - 1) % ranks.size == ranks.rank:
            mine.append([float(number) for number in numbers_of(item)])
    tables = ranks.gathered(np.array(mine, dtype=np.float64).ravel())
    width = max(map(len, tables)) // max(1, -(-count // ranks.size))
    rows = [table.reshape(-1, max(1, width)).tolist() for table in tables]
    return [rows[i % ranks.size][i // ranks.size] for i in range(count)]


def hush() -> None:
    """What all ranks print alike is printed by the first one only."""
    if not is_first():
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (for as long as the process lives)


def name_here() -> str:
    """To be added to what a rank says: nothing for the first."""
    return "" if is_first() or _world is None else f" (rank {_world.rank} of {_world.size})"


def let_the_first_speak() -> bool:
    """What went wrong on all ranks alike is said once: rank 0 ends all of them meanwhile. Where MPI cannot be started,
    they end by themselves. → whether it has been said"""
    if is_first():
        return False
    if _world is None and _lifeline is not None:
        return _lifeline.was_said(_PATIENCE)
    time.sleep(_PATIENCE)
    return False


def wait_until_read(*descriptors: int, seconds: float = 1.0) -> None:
    """Until somebody has read what was written to these pipes; there is nothing to wait for elsewhere. A launcher whose
    rank aborts may end the process that hands on what its ranks say before that has looked once more."""
    with suppress(ImportError, OSError):
        import fcntl
        import termios

        limit = time.monotonic() + seconds
        for pipe in filter(lambda number: stat.S_ISFIFO(os.fstat(number).st_mode), descriptors):
            while any(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))) and time.monotonic() < limit:
                time.sleep(0.001)


def end_all(code: int) -> None:
    """This rank has failed and said why: the others, who would wait for it for ever, end too."""
    if _world is None and _lifeline is not None:
        _lifeline.told()
    if _world is not None and _world.size > 1:
        from mpi4py import MPI

        if _lifeline is not None:
            _lifeline.told()
        timer = threading.Timer(_LAST_SECONDS, os._exit, (code,))  # MPI may wait for a machine that nobody can reach
        timer.daemon = True
        timer.start()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            wait_until_read(1, 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # MPI would add a line of its own, and we have said why
        MPI.COMM_WORLD.Abort(code)
