"""Where a training step spends its time: every kernel's share, and what is left to Python and NumPy."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import kernels
from kernels.contract import CONTRACT
from minitransformer.app.bench import ours
from minitransformer.app.bench.cases import CASES

STEPS = ("lm", "classifier", "translator", "base", "llama")
PRODUCTS = ("linear", "attention", "feed_forward", "gated_feed_forward", "matmul")  # whose flops are worth a rate


class Share(NamedTuple):
    kernel: str
    calls: int
    milliseconds: float
    gflops: float  # 0 where there are no products to speak of


def measure(case_name: str, tries: int = 5) -> tuple[float, list[Share]]:
    """Milliseconds of the fastest of a few steps, and its kernels, the longest first; the last line is the rest."""
    case = CASES[case_name]
    work = getattr(ours, case.kind)(case.sizes, None)
    work()
    best: tuple[float, dict[str, list[float]]] = (float("inf"), {})
    for _ in range(tries):
        notes: dict[str, list[float]] = {}
        with _timed(notes):
            start = time.perf_counter()
            work()
            seconds = time.perf_counter() - start
        best = min(best, (seconds, notes), key=lambda pair: pair[0])
    seconds, notes = best
    shares = [
        Share(name, int(calls), 1e3 * spent, flops / spent / 1e9 if name.startswith(PRODUCTS) else 0.0)
        for name, (calls, spent, flops) in notes.items()
    ]
    shares.sort(key=lambda share: -share.milliseconds)
    rest = 1e3 * seconds - sum(share.milliseconds for share in shares)
    return 1e3 * seconds, [*shares, Share("Python and NumPy around them", 0, rest, 0.0)]


@contextmanager
def _timed(notes: dict[str, list[float]]) -> Iterator[None]:
    """Meanwhile every kernel of the backend in use notes its calls, seconds and flops."""
    backend, former = kernels.current(), {}

    def watch(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any) -> Any:
            start = time.perf_counter()
            result = kernel(*args)
            spent = time.perf_counter() - start
            note = notes.setdefault(name, [0, 0.0, 0.0])
            note[0] += 1
            note[1] += spent
            note[2] += CONTRACT[name].cost(*args).flops if name.startswith(PRODUCTS) else 0
            return result

        return noted

    for name in CONTRACT:
        former[name] = getattr(backend, name)
        setattr(backend, name, watch(name, former[name]))
    try:
        yield
    finally:
        for name, kernel in former.items():
            setattr(backend, name, kernel)
