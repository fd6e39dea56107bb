"""What lesson 9 measures: the online softmax along many cuttings, exactly and against a bound on rounding; the memory
of attention and of the head, beside what was predicted; how far rounding may take two heads apart."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numba
import numpy as np

import autograd.functional as F
import kernels
from autograd import Tensor
from kernels import Dropout, Mask
from kernels.cpu import linear_cross_entropy as head
from kernels.cpu.attention import BLOCK, TASKS
from lessons.measuring import peak_bytes, shortest
from minitransformer.app.tables import table

EPS = np.finfo(np.float64).eps
NAIVE, TILED = kernels.backend("numpy"), kernels.backend("numba")  # the specification, and the tier made for speed
PYTHON = 2**16  # bytes that Python's own objects may take while we look

# the online softmax


def cut(random: np.random.Generator, n: int) -> list[np.ndarray]:
    """An order of n scores, cut into tiles at random."""
    ends = np.unique(random.integers(1, n, random.integers(0, n)))
    return np.split(random.permutation(n), ends)


def along(sums, tiles, scores, values):
    """Shows an online softmax one tile after the other."""
    for tile in tiles:
        sums.meet(scores[None, tile], values[tile])
    return sums


def changed_by_cutting(online: type, tries: int) -> int:
    """How many random cuttings change a bit of the sums. With 2^x in place of e^x and whole numbers for scores and
    values, all weights are powers of two and all sums fit a float64: there is no rounding at all."""
    random, changed = np.random.default_rng(0), 0
    for _ in range(tries):
        n = int(random.integers(2, 200))
        scores, values = random.integers(-15, 16, n).astype(float), random.integers(-99, 100, (n, 3)).astype(float)
        whole, parts = (along(online(np.exp2), tiles, scores, values) for tiles in ([np.arange(n)], cut(random, n)))
        changed += not (np.array_equal(whole.l, parts.l) and np.array_equal(whole.a, parts.a))
    return changed


def share_of_bound(online: type, tries: int) -> float:
    """The largest difference between two cuttings with e^x, as a share of what rounding can do: the n roundings of a
    sum, two for each of m tiles, and that of the exponents, which reach over R: (n + 2m + 2R + 8) eps."""
    random, worst = np.random.default_rng(1), 0.0
    for _ in range(tries):
        n = int(random.integers(2, 200))
        scores, values, tiles = random.standard_normal(n) * 20, random.random((n, 3)), cut(random, n)
        whole, parts = (along(online(), order, scores, values) for order in ([np.arange(n)], tiles))
        off = max(np.abs(parts.l / whole.l - 1).max(), np.abs(parts.a / whole.a - 1).max())
        worst = max(worst, off / ((n + 2 * len(tiles) + 2 * np.ptp(scores) + 8) * EPS))
    return worst


def exact_attention(scores: np.ndarray, values: np.ndarray) -> tuple[float, np.ndarray]:
    """lse, and the weighted mean of each column of values, from all scores at once, by Python's exactly rounded sum."""
    top = scores.max()
    weights = [math.exp(score - top) for score in scores]
    total = math.fsum(weights)
    means = [math.fsum(w * x for w, x in zip(weights, column, strict=True)) / total for column in values.T]
    return top + math.log(total), np.array(means)


STEEP = 300.0  # scores go from minus this to this


def off_on_steep_scores() -> tuple[dict[str, float], float]:
    """How far the current backend's attention is off on scores that rise, fall or are mixed, and what is allowed:
    the bound of `share_of_bound` for each of two sums, a and l, with the smallest tile of any tier, 32."""
    S, D, random = 1000, 4, np.random.default_rng(2)
    rising, values = np.linspace(-STEEP, STEEP, S), random.random((S, D))
    off, here = {}, kernels.current()
    for name, scores in {"rise": rising, "fall": rising[::-1], "are mixed": random.permutation(rising)}.items():
        q, k = np.zeros((1, 1, 1, D)), np.zeros((1, 1, S, D))
        q[..., 0], k[..., 0] = 1, scores  # so that a score is exactly the number we chose
        arguments = (here.asarray(x) for x in (q, k, values[None, None]))
        out, lse = (here.to_numpy(x) for x in here.attention(*arguments, Mask(), 1.0, Dropout()))
        exact_lse, exact_out = exact_attention(scores, values)
        off[name] = max(abs(lse.item() / exact_lse - 1), np.abs(out[0, 0, 0] / exact_out - 1).max())
    return off, 2 * (S + 2 * S / 32 + 2 * 2 * STEEP + 8) * EPS


# the memory of attention

SLOW = 0.5  # seconds: what takes longer is timed once


def drawn(T: int, D: int = 64, count: int = 3) -> list[np.ndarray]:
    return [np.random.default_rng(n).standard_normal((1, 1, T, D), dtype=np.float32) for n in range(count)]


def forward(backend, T: int, D: int = 64) -> Callable:
    """One head of attention, ready to run."""
    inputs = drawn(T, D)
    return lambda: backend.attention(*inputs, Mask(), D**-0.5, Dropout())


def forward_and_backward(backend, T: int, D: int = 64) -> Callable:
    """The same with its backward pass."""
    *inputs, dout = drawn(T, D, 4)
    options = Mask(), D**-0.5, Dropout()

    def work():
        out, lse = backend.attention(*inputs, *options)
        return out, lse, *backend.attention_backward(dout, *inputs, out, lse, *options)

    return work


def predicted_bytes(T: int, D: int = 64) -> int:
    """out, dk, dv, lse; dq in as many parts as there are shares, and their sum. Up to T = 1,024 the number of shares
    grows with the length; from there on it is TASKS."""
    shares = min(TASKS, -(-T // BLOCK))
    return 4 * (T * D * (3 + shares + (shares > 1)) + T)


def room_for_tiles(T: int, D: int = 64) -> int:
    """Two tiles, queries and dout transposed and two rows a thread, if all threads hold theirs at the peak; and
    Python's own objects."""
    return numba.get_num_threads() * 4 * (2 * BLOCK**2 + 2 * T * D + 2 * T) + PYTHON


def ladder(tiled_attention: Callable, T: int = 4096, D: int = 64, rounds: int = 5) -> str:
    """The same attention three times, each less naive than the one before: time and memory, to look at, and one
    sentence that reads the times. They are taken in turns, so that a busy moment hits no version alone."""
    one_head = [x[0, 0] for x in drawn(T, D)]
    steps = {
        "step by step, NumPy": forward(NAIVE, T, D),
        "in tiles, NumPy": lambda: tiled_attention(*one_head, D**-0.5),
        "in tiles, compiled": forward(TILED, T, D),
    }
    times = dict.fromkeys(steps, math.inf)
    for _ in range(rounds):
        for name, work in steps.items():
            if times[name] == math.inf or times[name] < SLOW:  # always in the first round, and again while it is quick
                times[name] = min(times[name], shortest(work, 1))
    rows = [
        (name, f"{seconds * 1e3:.0f} ms", f"{peak_bytes(f) / 1e6:.2f} MB")
        for (name, f), seconds in zip(steps.items(), times.values(), strict=True)
    ]
    faster = times["step by step, NumPy"] / times["in tiles, compiled"]
    said = f"compiled tiles are {faster:.1f} times as fast as step by step" if faster > 1.1 else "no time is saved"
    return table((f"forward, T = {T:,}, D = {D}", "time", "arrays"), rows, right=(1, 2)) + f"\nIn this run {said}."


# the head: C numbers a position, V words

C, V = 64, 8192


def head_inputs(N: int, C: int, V: int, dtype: str) -> tuple[list[Tensor], np.ndarray]:
    """x (N, C), weight (V, C), bias (V), which want gradients; and targets (N)"""
    random = np.random.default_rng(N)
    arrays = (random.standard_normal(shape).astype(dtype) for shape in ((N, C), (V, C), (V,)))
    return [Tensor(array, requires_grad=True) for array in arrays], random.integers(0, V, N)


def loss_and_gradients(function: Callable, leaves: list[Tensor], targets: np.ndarray) -> tuple:
    for leaf in leaves:
        leaf.grad = None
    loss = function(*leaves, targets)
    loss.backward()
    return loss.numpy(), *(leaf.grad.numpy() for leaf in leaves)


def head_allowances(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, targets: np.ndarray) -> tuple:
    """How far rounding can take apart two results (loss, dx, dweight, dbias), to first order in eps. A logit is a sum
    of C + 1 terms; a weight inherits two of those errors, that of the sum of V, and that of the exponent's reach."""
    (N, C), V = x.shape, len(weight)
    logits = x @ weight.T + bias
    size = (np.abs(x) @ np.abs(weight).T + np.abs(bias)).max()
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    d = (p + np.eye(V)[targets]) / N
    relative = 2 * (2 * (C + 1) * size + V + N + 2 * np.ptp(logits) + 16) * EPS
    gradients = d @ np.abs(weight), d.T @ np.abs(x), d.sum(axis=0)
    return relative * (1 + size), *(relative * g for g in gradients)


def one_after_the_other(x: Tensor, weight: Tensor, bias: Tensor, targets: np.ndarray, **options) -> Tensor:
    return F.cross_entropy(F.linear(x, weight, bias), targets, **options)


def heads_apart() -> tuple[int, int, float]:
    """How many numbers of the fused head and of its two parts, one after the other, differ by more than rounding can
    explain; of how many; and the largest difference."""
    leaves, targets = head_inputs(301, 33, 1009, "float64")
    with kernels.use(TILED):
        ways = F.linear_cross_entropy, one_after_the_other
        results = [loss_and_gradients(function, leaves, targets) for function in ways]
    apart = [np.abs(a - b) for a, b in zip(*results, strict=True)]
    allowed = head_allowances(*(leaf.numpy() for leaf in leaves), targets)
    beyond = sum(int((a > b).sum()) for a, b in zip(apart, allowed, strict=True))
    return beyond, sum(a.size for a in apart), max(a.max() for a in apart)


def predicted_head(N: int) -> tuple[int, int]:
    """Bytes of the buffer, of its rows transposed, of the partial sums of dx for them, and of the gradients; and how
    many more are allowed: a number for each row of the buffer and block of words, eight of double precision for each
    row and task, one of those for each word's bias, and a few for each position. V is a power of two here, so that no
    block of words needs padding."""
    rows = min(N, head.CHUNK, head.BUFFER_BYTES // (4 * V))
    bytes_ = 4 * (rows * V + rows * C + rows * head.PARTIALS * C + N * C + V * C + V)
    return bytes_, 4 * rows * (V // head.BLOCK + 16 * head.PARTIALS) + 8 * V + 32 * N + PYTHON


class HeadPeak(NamedTuple):
    """Bytes of arrays at their peak in a training step with N positions."""

    N: int
    fused: int
    predicted: int
    more: int  # allowed beside what was predicted
    whole: int  # one after the other
    logits: int


def head_peaks(sizes: tuple[int, ...]) -> Iterator[HeadPeak]:
    """One measurement after the other, so that a trial stops at the first that is wrong."""

    def peak(function, leaves, targets):
        return peak_bytes(lambda: loss_and_gradients(function, leaves, targets))

    for N in sizes:
        with kernels.use(TILED):
            given = head_inputs(N, C, V, "float32")
            fused, whole = peak(F.linear_cross_entropy, *given), peak(one_after_the_other, *given)
        yield HeadPeak(N, fused, *predicted_head(N), whole, 4 * N * V)
