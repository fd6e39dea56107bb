"""Every kernel at the labs' sizes: its arithmetic per byte and its rate, under what the machine allows."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import kernels
from kernels.contract import CONTRACT

N, C, F, V = 2048, 200, 200, 50001
LARGE = 16384  # rows of 1,024: 64 MB, which no cache holds


class Point(NamedTuple):
    kernel: str
    intensity: float  # flops a byte that must cross memory
    gflops: float
    milliseconds: float


def arguments() -> dict[str, tuple]:
    """Inputs of the kernels that a training step of the labs' model spends its time in."""
    rng = np.random.default_rng(0)

    def x(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32)

    q = x(8, 2, 256, 100)
    options = (kernels.Mask(is_causal=True), 0.1, kernels.Dropout())
    out, lse = kernels.current().attention(q, q, q, *options)
    wide, row = x(N, C), x(C)
    _, mean, rstd = kernels.current().layer_norm(wide, row, row, 1e-5)
    ids = rng.integers(0, V, N)
    layers = x(F, C), x(F), x(C, F), x(C)
    table = x(V, C)
    return {
        "linear": (wide, x(3 * C, C), x(3 * C)),
        "linear_backward": (x(N, 3 * C), wide, x(3 * C, C), True),
        "attention": (q, q, q, *options),
        "attention_backward": (q, q, q, q, out, lse, *options),
        "layer_norm": (wide, row, row, 1e-5),
        "layer_norm_backward": (wide, wide, row, mean, rstd),
        "rms_norm": (wide, row, 1e-5),
        "rms_norm_backward": (wide, wide, row, rstd),
        "rotary": (q, np.arange(256)[None], 10000.0, True),
        "feed_forward": (wide, *layers, "relu"),
        "feed_forward_backward": (wide, wide, layers[0], layers[2], x(N, F), "relu"),
        "gated_feed_forward": (wide, layers[0], None, layers[0], None, layers[2], None, "silu"),
        "gated_feed_forward_backward": (
            wide,
            wide,
            layers[0],
            layers[0],
            layers[2],
            x(N, F),
            x(N, F),
            "silu",
            False,
            False,
            False,
        ),
        "linear_cross_entropy": (wide, table, x(V), ids, None, 0.0, True),
        "embedding": (table, ids),
        "embedding_backward": (wide, ids, V),
        "softmax": (x(LARGE, 1024),),
        "dropout": (x(LARGE, 1024), 0.1, 1),
        "add": (x(LARGE, 1024), x(LARGE, 1024)),
        "adam": (table, x(V, C), x(V, C), np.abs(x(V, C)), 1e-3, 0.9, 0.999, 1e-8, 0.0, False, 1, 1.0),
        "sum_of_squares": (table,),
    }


def measure(tell: Callable[[str], None], tries: int = 5) -> list[Point]:
    points = []
    for name, args in arguments().items():
        tell(f"roofline: {name}")
        kernel, cost = getattr(kernels.current(), name), CONTRACT[name].cost(*args)
        kernel(*args)
        best = float("inf")
        for _ in range(tries):
            start = time.perf_counter()
            kernel(*args)
            best = min(best, time.perf_counter() - start)
        moved = cost.bytes_read + cost.bytes_written
        points.append(Point(name, max(cost.flops, 1) / moved, cost.flops / best / 1e9, best * 1e3))
    return points
