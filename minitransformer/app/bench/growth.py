"""How time and memory grow: attention and the training step against the length T, the step against the vocabulary V."""

import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from minitransformer.app.bench import ours
from minitransformer.models import LanguageModel

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384)
LONG = 3.0  # seconds: work that takes longer is timed once
VOCABULARIES = (1000, 3000, 10_000, 30_000, 100_000)


class Curve(NamedTuple):
    title: str
    axis: str
    sizes: list[int]
    seconds: list[float]
    megabytes: list[float]  # of all arrays at once, at most: weights and optimizer included

    def exponent(self, values: list[float]) -> float:
        """The slope of the last three points on logarithmic axes."""
        return float(np.polyfit(np.log(self.sizes[-3:]), np.log(values[-3:]), 1)[0])


def _step(T: int, V: int) -> Callable:
    model = LanguageModel(vocab_size=V, d_model=200, n_heads=2, n_layers=4, d_ff=200, max_len=max(T, 512), seed=0)
    ids = np.random.default_rng(0).integers(0, V, (1, T + 1))
    return ours._training(model, lambda: model.loss(ids[:, :-1], ids[:, 1:]))


def _point(make: Callable[[], Callable]) -> tuple[float, float]:
    tracemalloc.start()  # before anything is made: the engine uses its large arrays again
    work = make()
    start = time.perf_counter()
    work()
    is_long = time.perf_counter() - start > LONG
    if not is_long:
        work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    best = float("inf")
    for _ in range(1 if is_long else 3):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best, peak / 1e6


def measure(tell: Callable[[str], None]) -> list[Curve]:
    plans = [
        ("attention, one sequence, 2 heads of 100", "T", LENGTHS,
         lambda T: ours.attention({"B": 1, "H": 2, "T": T, "D": 100}, None)),
        ("training step, one sequence, 5,000 words", "T", LENGTHS, lambda T: _step(T, 5000)),
        ("training step, one sequence of 256", "V", VOCABULARIES, lambda V: _step(256, V)),
    ]  # fmt: skip
    curves = []
    for title, axis, sizes, make in plans:
        points = []
        for size in sizes:
            tell(f"growth: {title}, {axis} = {size:,}")
            points.append(_point(partial(make, size)))
        curves.append(Curve(title, axis, list(sizes), [p[0] for p in points], [p[1] for p in points]))
    return curves
