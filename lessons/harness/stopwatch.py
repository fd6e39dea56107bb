"""Times for figures that other programs on the machine cannot spoil.

    with one_core():
        seconds = shortest(lambda: layer(x))

A busy machine must not fake a jump. On one core no thread waits for another; waiting for the processor while other
programs have it is not counted; and of many runs, one right after the other, the shortest is kept, as nothing can make
a run faster than it is. Times are shown and decide nothing."""

import contextlib
import time
from collections.abc import Callable, Iterator

import numba
from threadpoolctl import threadpool_limits

# The time that a thread had the processor, where the system measures it finely; the clock on the wall elsewhere.
CLOCK = time.thread_time if time.get_clock_info("thread_time").resolution < 1e-5 else time.perf_counter


def shortest(run: Callable[[], object], spend: float = 0.15) -> float:
    """Seconds of the quickest of many runs: at least 4 after one to warm up, until `spend` seconds are over."""
    run()
    times, end = [], time.perf_counter() + spend
    while len(times) < 4 or time.perf_counter() < end:
        start = CLOCK()
        run()
        times.append(CLOCK() - start)
    return min(times)


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Kernels and matrix products run on the calling thread alone, for a while."""
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        numba.set_num_threads(threads)
