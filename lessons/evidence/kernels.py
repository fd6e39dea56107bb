"""What lesson 8 measures: how far the tiers are apart and how far rounding may take them apart; what attention costs in
operations and bytes; where the kernels of a training step stand under this machine's roof."""

import functools
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numba
import numpy as np

import kernels
from autograd import Tensor, tape
from kernels import Dropout, Mask
from kernels.contract import CONTRACT, Cost
from minitransformer.app.bench import machine, roofline

EPS = np.finfo(np.float64).eps
NAMES = ("out", "lse", "dq", "dk", "dv")  # what attention and its backward pass return

# the same kernel on every tier


def run_on(tier: str, kernel: str, *arguments) -> list[np.ndarray]:
    """The results of a kernel on some tier, as NumPy arrays."""
    there = kernels.backend(tier)
    moved = [there.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
    return [there.to_numpy(result) for result in getattr(there, kernel)(*moved)]


class Case(NamedTuple):
    """An attention whose sizes fit no tile, with a causal mask and keys of two lengths, in float64."""

    q: np.ndarray  # (B, H, T, D)
    k: np.ndarray  # (B, H, S, D)
    v: np.ndarray  # (B, H, S, D)
    dout: np.ndarray  # (B, H, T, D)
    lengths: np.ndarray  # (B,)
    offset: int
    visible: np.ndarray  # (B, H, T, S), whether a query may look at a key


def awkward_attention() -> Case:
    random = np.random.default_rng(0)
    B, H, T, S, D = 2, 2, 67, 131, 20
    arrays = [random.standard_normal((B, H, n, D)) for n in (T, S, S, T)]
    lengths, offset = np.array([S, 97]), 64
    visible = np.arange(S) < np.minimum(lengths[:, None], np.arange(T) + offset + 1)[:, None, :, None]
    return Case(*arrays, lengths, offset, np.broadcast_to(visible, (B, H, T, S)))


def both_ways(case: Case, tier: str) -> list[np.ndarray]:
    """out, lse, dq, dk, dv on this tier"""
    scale = case.q.shape[-1] ** -0.5
    options = Mask(kernels.backend(tier).asarray(case.lengths), True, case.offset), scale, Dropout()
    inputs = case.q, case.k, case.v
    forward = run_on(tier, "attention", *inputs, *options)
    return forward + run_on(tier, "attention_backward", case.dout, *inputs, *forward, *options)


def allowances(case: Case, out: np.ndarray, lse: np.ndarray) -> list[np.ndarray]:
    """How far rounding can take apart two results (out, lse, dq, dk, dv), entry by entry, to first order in eps.

    A sum of n terms is off by at most n eps times the sum of their absolute values. So the absolute values are sent
    through the formulas of attention, and come out as an allowance for every single number:

    - a score is a sum of D products; a weight inherits the errors of its score and of lse;
    - n for each sum and for the rescaling of tiles; the reach of the exponents is rounded once by the difference in
      exp, and once more along the tiles;
    - ds is a product of two factors that each carry the error of p, and is summed once more: three times."""
    q, k, v, dout = case[:4]
    scale, flip = q.shape[-1] ** -0.5, (0, 1, 3, 2)
    size = scale * np.abs(q) @ np.abs(k).transpose(flip)  # what the roundings of a score act on
    score = scale * q @ k.transpose(flip)
    p = np.where(case.visible, np.exp(score - lse[..., None]), 0)
    n, reach = max(*score.shape, q.shape[-1]), np.abs(score - lse[..., None])[case.visible].max()
    relative = 2 * (2 * (q.shape[-1] + 2) * size.max() + 4 * n + 2 * reach + 16) * EPS
    dp = np.abs(dout) @ np.abs(v).transpose(flip)
    ds = p * (dp + (np.abs(dout) * (p @ np.abs(v))).sum(axis=-1, keepdims=True))
    gradients = scale * ds @ np.abs(k), scale * ds.transpose(flip) @ np.abs(q), p.transpose(flip) @ np.abs(dout)
    return [relative * (p @ np.abs(v)), relative * (1 + np.abs(lse)), *(3 * relative * g for g in gradients)]


class Distance(NamedTuple):
    beyond: int  # numbers that differ by more than rounding can explain
    of: int
    largest: dict[str, float]  # of each result


def distances(tiers: list[str]) -> tuple[dict[str, Distance], float]:
    """How far each tier is from NumPy, and the largest difference that any number was allowed."""
    case = awkward_attention()
    expected = both_ways(case, "numpy")
    allowed = allowances(case, *expected[:2])
    found = {}
    for tier in tiers:
        apart = [np.abs(ours - theirs) for ours, theirs in zip(both_ways(case, tier), expected, strict=True)]
        beyond = sum(int((a > b).sum()) for a, b in zip(apart, allowed, strict=True))
        largest = {name: float(a.max()) for name, a in zip(NAMES, apart, strict=True)}
        found[tier] = Distance(beyond, sum(a.size for a in apart), largest)
    return found, float(max(a.max() for a in allowed))


def dropped_weights(tier: str, n: int = 64, rate: float = 0.3, seed: int = 7) -> np.ndarray:
    """Which weights dropout takes away. With the identity matrix for values, the weights themselves come out."""
    random = np.random.default_rng(0)
    q, k = random.standard_normal((1, 2, n, n)), random.standard_normal((1, 2, n, n))
    values = np.broadcast_to(np.eye(n), q.shape).copy()
    return run_on(tier, "attention", q, k, values, Mask(), 0.1, Dropout(rate, seed))[0] == 0


# operations and bytes


def leaves(*shape: int, count: int = 3) -> list[Tensor]:
    """So many random inputs of one shape, in float32."""
    draw = (np.random.default_rng(n).standard_normal(shape).astype("float32") for n in range(count))
    return [Tensor(array, requires_grad=True) for array in draw]


def bytes_of(cost: Cost) -> int:
    return cost.bytes_read + cost.bytes_written


def price_list(result: Tensor) -> Iterator[tuple[str, int, int]]:
    """Name, operations and bytes of every kernel call that led to a result."""
    for name, arguments in tape.calls(result):
        cost = CONTRACT[name].cost(*arguments)
        yield name, cost.flops, bytes_of(cost)


def counts(attention: Callable, T: int, D: int) -> tuple[int, int]:
    """Operations and bytes of one head of attention."""
    cost = tape.cost(attention(*leaves(1, 1, T, D)))
    return cost.flops, bytes_of(cost)


# the roof

SHOWN = {
    "linear": "linear layer",
    "attention": "attention",
    "attention_backward": "attention, backward",
    "linear_cross_entropy": "head and loss",
    "layer_norm": "layer norm",
    "softmax": "softmax",
    "dropout": "dropout",
    "adam": "Adam's update",
}


SLOW = 0.3  # seconds: what takes longer is timed in two rounds only
QUIET = 0.75  # a kernel that got less of the processors' time shared them with other programs
B, H, T, D = 2, 4, 512, 64  # of attention, with the length and the width that the lesson counts
SIZES = f"Attention: {B} texts of {T} words, {H} heads of width {D}, no mask."


def under_the_roof(by_steps: Callable, rounds: int = 8) -> tuple[list[roofline.Point], float, float, float]:
    """Where the kernels of a training step stand; the peak of this machine in GFLOPS, and its memory in GB/s; which
    share of the processors' time softmax got while it ran on all of them: about 1 where nothing else runs.

    Everything is timed in turn, round after round, and the best of all rounds counts: what other programs take from
    this machine then hits no kernel alone. The peak is the best that was seen of a large product and of all kernels."""
    with kernels.use("numba") as tier:
        (q,) = leaves(B, H, T, D, count=1)
        inputs, options = (q.array,) * 3, (Mask(), D**-0.5, Dropout())
        forward = tier.attention(*inputs, *options)
        given = roofline.arguments() | {
            "attention": (*inputs, *options),
            "attention_backward": (q.array, *inputs, *forward, *options),
        }
        costs = {"attention, step by step": tape.cost(by_steps(q, q, q))}
        work = {"attention, step by step": lambda: by_steps(q, q, q)}
        for name, label in SHOWN.items():
            costs[label] = CONTRACT[name].cost(*given[name])
            work[label] = functools.partial(getattr(tier, name), *given[name])
        best, peak, shares = dict.fromkeys(work, float("inf")), 0.0, []
        for number in range(rounds + 1):  # the first is to warm up
            for label, run in work.items():
                start, processor = time.perf_counter(), time.process_time()
                if number < 3 or best[label] < SLOW:
                    run()
                    took = time.perf_counter() - start
                    best[label] = min(best[label], took) if number else float("inf")
                    if label == "softmax" and number:
                        shares.append((time.process_time() - processor) / took / numba.get_num_threads())
            peak = max(peak, machine.sgemm_peak(tries=1))
    points = [
        roofline.Point(label, cost.flops / bytes_of(cost), cost.flops / best[label] / 1e9, best[label] * 1e3)
        for label, cost in costs.items()
    ]
    highest = max(peak, *(point.gflops for point in points))
    return points, highest, machine.bandwidth(), float(np.median(shares))
