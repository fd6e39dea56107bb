"""Two meters that several lessons use: the time of a piece of work, and the memory of its arrays."""

import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def shortest(work: Callable[[], Any], tries: int = 3) -> float:
    """Seconds of the fastest of a few runs, after one to warm up. The fastest, because whatever else this machine does
    can only make a run slower."""
    best = float("inf")
    work()
    for _ in range(tries):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def peak_bytes(work: Callable[[], Any]) -> int:
    """The most bytes that arrays made by `work` held at one time. tracemalloc sees every array that NumPy makes, and
    those of compiled code as well, since Numba asks Python for its memory. The work runs in a thread of its own,
    because the engine keeps some buffers for the thread that used them, and those would not be counted again."""

    def traced():
        tracemalloc.start()
        try:
            result = work()  # what it returns is alive when the peak is read
            return tracemalloc.get_traced_memory()[1], result
        finally:
            tracemalloc.stop()

    work()  # whatever is compiled or loaded at the first call is not what we measure
    with ThreadPoolExecutor(1) as one:
        return one.submit(traced).result()[0]


def of_rounding(share: float) -> str:
    """A difference as a share of the largest that rounding can explain, in words."""
    return f"{100 * share:.1f} % of what rounding may do" if share < 10 else f"{share:.0e} times what rounding may do"
