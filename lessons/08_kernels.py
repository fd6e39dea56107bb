# %% [markdown]
# # 8. From formula to kernel
#
# The formula of attention fits on one line, and so does its NumPy version. Both are right. Yet for a text of 4,096
# words that line fills hundreds of megabytes with numbers that nobody asked for, and spends much of its time carrying
# them back and forth. The *same* numbers can be had with a twentieth of the memory. Nothing is approximated on the way;
# only the order of the work changes.
#
# This lesson takes that way step by step: the same kernel on three tiers, how to tell from two counts what limits it,
# the online softmax, attention in tiles, the head that never stores its logits, and finally what goes wrong when
# threads share memory, and how that is found without a GPU.
#
# Run it: `python lessons/08_kernels.py [--backend NAME] [--full] [--break CONTROL]`. The last trial needs g++; without
# it, the lesson says so and leaves that trial out.

# %%
import math
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np

import autograd.functional as F
import kernels
from autograd import Tensor, tape
from kernels import Dropout, Mask, emulator
from kernels.contract import CONTRACT
from kernels.cpu import linear_cross_entropy as head
from kernels.cpu.attention import BLOCK, SHARES
from kernels.cuda import launcher
from lessons import faults
from lessons.figures import kernels as figures
from lessons.harness.trial import FOLDER, Lesson
from minitransformer.app.bench import machine, roofline
from minitransformer.app.tables import table

lesson = Lesson(__file__)
EPS = np.finfo(np.float64).eps
NAIVE, TILED = kernels.backend("numpy"), kernels.backend("numba")  # the specification, and the tier made for speed

# %% [markdown]
# ## One kernel, three times
#
# Every kernel of the engine exists in NumPy, in Numba and in CUDA, in files of the same name. The NumPy version is the
# specification: short, and plainly right. Here is softmax on all three tiers, cut from the engine's own files.


# %%
def excerpt(file, begin, end):
    """The lines of a kernel file from the one that starts with `begin` up to the one that starts with `end`."""
    lines = (Path(kernels.__file__).parent / file).read_text(encoding="utf-8").splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith(begin))
    last = next(n for n, line in enumerate(lines) if n > first and line.startswith(end))
    return f"--- kernels/{file}, line {first + 1}\n" + "\n".join(lines[first:last]).rstrip() + "\n"


print(excerpt("reference/softmax.py", "def softmax(", "def softmax_backward"))
print(excerpt("cpu/softmax.py", "def _softmax(", "@kernel"))
print(excerpt("gpu/softmax.cu", 'extern "C" __global__ void softmax_forward', "// dx"))

# %% [markdown]
# Three times the largest element, the exponentials, their sum, the division. What differs is who does the work: NumPy
# takes whole arrays, one operation after the other; a Numba thread takes one row, and finds it in its cache at the
# second walk; on a GPU 32 lanes share a row, each takes every 32nd element, and `warp_sum` adds up what they found.
#
# **Claim.** The tiers compute the same attention, forward and backward; they differ by rounding and nothing else.
#
# **What would refute it.** One number that is further off than rounding can carry it. Rounding has a bound that we can
# derive: a sum of $n$ terms is off by at most $n \varepsilon$ times the sum of their absolute values. So we send the
# absolute values through the same formulas, and get an allowance for every single entry.
#
# **Experiment.** Attention with a causal mask, keys of two lengths, and sizes that fit no tile, in float64, on every
# tier that works here. Then dropout: the identity matrix in place of the values makes the weights themselves come
# out, and the same seed must have dropped the *same* weights on all tiers, to the last one.


# %%
def run_on(tier, kernel, *arguments):
    """The results of a kernel on some tier, as NumPy arrays."""
    there = kernels.backend(tier)
    moved = [there.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
    return [there.to_numpy(result) for result in getattr(there, kernel)(*moved)]


def allowances(q, k, v, dout, scale, out, lse, visible):
    """How far rounding can take apart two results (out, lse, dq, dk, dv), entry by entry, to first order in eps."""
    flip = (0, 1, 3, 2)
    size = scale * np.abs(q) @ np.abs(k).transpose(flip)  # what the roundings of a score act on
    score = scale * q @ k.transpose(flip)
    p = np.where(visible, np.exp(score - lse[..., None]), 0)
    n, reach = max(*score.shape, q.shape[-1]), np.abs(score - lse[..., None])[visible].max()
    # a weight inherits the errors of its score and of lse; n for each sum and for the rescaling of tiles; reach is
    # rounded once by the difference in exp, and once more along the tiles
    relative = 2 * (2 * (q.shape[-1] + 2) * size.max() + 4 * n + 2 * reach + 16) * EPS
    dp = np.abs(dout) @ np.abs(v).transpose(flip)
    ds = p * (dp + (np.abs(dout) * (p @ np.abs(v))).sum(axis=-1, keepdims=True))
    gradients = scale * ds @ np.abs(k), scale * ds.transpose(flip) @ np.abs(q), p.transpose(flip) @ np.abs(dout)
    # ds is a product of two factors that each carry the error of p, and is summed once more: three times
    return [relative * (p @ np.abs(v)), relative * (1 + np.abs(lse)), *(3 * relative * g for g in gradients)]


# %%
@lesson.trial(
    "same-kernel",
    "The tiers compute the same attention, forward and backward, up to rounding; dropout drops the same weights.",
    controls=[faults.another_scale, faults.another_seed],
)
def same_kernel(trial):
    random = np.random.default_rng(0)
    B, H, T, S, D, names = 2, 2, 67, 131, 20, ("out", "lse", "dq", "dk", "dv")
    q, k, v, dout = (random.standard_normal((B, H, n, D)) for n in (T, S, S, T))
    lengths, offset = np.array([S, 97]), 64
    visible = np.arange(S) < np.minimum(lengths[:, None], np.arange(T) + offset + 1)[:, None, :, None]
    visible = np.broadcast_to(visible, (B, H, T, S))

    def both_ways(tier):
        options = Mask(kernels.backend(tier).asarray(lengths), True, offset), D**-0.5, Dropout()
        forward = run_on(tier, "attention", q, k, v, *options)
        return *forward, *run_on(tier, "attention_backward", dout, q, k, v, *forward, *options)

    expected = both_ways("numpy")
    allowed = allowances(q, k, v, dout, D**-0.5, *expected[:2], visible)
    tiers = [tier for tier in kernels.available() if tier != "numpy"]
    worst = 0.0
    for tier in tiers:
        apart = [np.abs(ours - theirs) for ours, theirs in zip(both_ways(tier), expected, strict=True)]
        beyond = sum(int((a > b).sum()) for a, b in zip(apart, allowed, strict=True))
        worst = max(worst, *(a.max() for a in apart))
        total = ", ".join(f"{name} {a.max():.0e}" for name, a in zip(names, apart, strict=True))
        trial.check(
            beyond == 0,
            f"{tier} and numpy: {beyond} of {sum(a.size for a in apart):,} numbers differ by more than rounding can "
            f"explain (0 expected); largest differences: {total}",
        )
    trial.note(f"the allowance is {max(a.max() for a in allowed):.0e} at most: bounds hold for the worst case")
    n, rate, seed = 64, 0.3, 7
    q, k, one = random.standard_normal((1, 2, n, n)), random.standard_normal((1, 2, n, n)), np.eye(n)
    weights = {
        tier: run_on(tier, "attention", q, k, np.broadcast_to(one, q.shape).copy(), Mask(), 0.1, Dropout(rate, seed))[0]
        for tier in kernels.available()
    }
    dropped = {tier: w == 0 for tier, w in weights.items()}
    count = int(dropped["numpy"].sum())
    differ = sum(int((dropped[tier] != dropped["numpy"]).sum()) for tier in tiers)
    trial.check(
        differ == 0 and 0 < count < dropped["numpy"].size,
        f"dropout: {count:,} of {dropped['numpy'].size:,} weights are exactly 0; {differ} differ (0 expected)",
    )
    return "proved", f"{', '.join(tiers)} and numpy differ by {worst:.0e} at most; {count:,} weights dropped alike"


# %% [markdown]
# So we may choose a tier for its speed alone. A factor that is off by a billionth is noticed: the check is not
# lenient.
#
# ## What limits a kernel: two counts
#
# A processor can do only so many operations a second, and carry only so many bytes a second from memory. Which of the
# two holds a kernel up follows from its *intensity*, operations per byte. Below some intensity the arithmetic waits
# for memory, above it memory waits for the arithmetic. Drawn on logarithmic axes, the best possible rate looks like a
# roof.
#
# Attention step by step is a product, a scaling, a softmax, another product. With $T$ queries and keys of width $D$ it
# does $4DT^2 + 6T^2$ operations, and writes or reads the $T^2$ scores six times, beside $4TD$ numbers of $q, k, v$ and
# the result. In one kernel, the scores are used where they arise, and only $4TD + T$ numbers have to move.
#
# **Claim.** Step by step, attention does a limited number of operations per byte however long the text is; in one
# kernel the intensity grows with the length.
#
# **What would refute it.** Other counts than these formulas say. They are integers, so no tolerance is needed.
#
# **Experiment.** Run both, and let the tape count what its kernels read, write and compute.


# %%
def leaf(*shape, dtype="float32", seed=0):
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype), requires_grad=True)


def by_steps(q, k, v, **_):
    """Attention as the formula says it, one operation after the other."""
    return F.softmax(q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5) @ v


def counts(function, T, D):
    """Operations and bytes of a function of q, k, v."""
    cost = tape.cost(function(*(leaf(1, 1, T, D, seed=n) for n in range(3))))
    return cost.flops, cost.bytes_read + cost.bytes_written


def shortest(run, tries=3):
    """Seconds of the fastest of a few runs, after one to warm up."""
    times = [time.perf_counter()]
    for _ in range(tries + 1):
        run()
        times.append(time.perf_counter())
    return min(np.diff(times)[1:])


SHOWN = (
    "linear",
    "attention",
    "attention_backward",
    "linear_cross_entropy",
    "layer_norm",
    "softmax",
    "dropout",
    "adam",
)


def point(name, cost, run):
    seconds, moved = shortest(run, tries=2), cost.bytes_read + cost.bytes_written
    return roofline.Point(name, cost.flops / moved, cost.flops / seconds / 1e9, seconds * 1e3)


def under_the_roof():
    """Where the kernels of a training step stand; the peak of this machine in GFLOPS, and its memory in GB/s."""
    with kernels.use(TILED):
        arguments, q, peak = roofline.arguments(), leaf(8, 2, 256, 100), machine.sgemm_peak()
        points = [point("attention by steps", tape.cost(by_steps(q, q, q)), lambda: by_steps(q, q, q))]
        for name in SHOWN:
            given, kernel = arguments[name], getattr(TILED, name)
            points.append(point(name, CONTRACT[name].cost(*given), lambda given=given, kernel=kernel: kernel(*given)))
        return points, max(peak, machine.sgemm_peak()), machine.bandwidth()  # twice: others may use this machine too


# %%
@lesson.trial(
    "intensity",
    "By steps, attention does a limited number of operations per byte; in one kernel, ever more as the text grows.",
    controls=[faults.scores_stored],
)
def intensity(trial):
    D, lengths = 64, (32, 64, 128, 256, 512)
    steps, fused = ([counts(f, T, D) for T in lengths] for f in (by_steps, F.attention))
    right = sum(bytes_ == 4 * (6 * T * T + 4 * T * D + 1) for T, (_, bytes_) in zip(lengths, steps, strict=True))
    trial.check(right == len(lengths), f"by steps: 4 (6 T² + 4 T D + 1) bytes at {right} of {len(lengths)} lengths")
    right = sum(bytes_ == 4 * T * (4 * D + 1) for T, (_, bytes_) in zip(lengths, fused, strict=True))
    trial.check(right == len(lengths), f"in one kernel: 4 T (4 D + 1) bytes at {right} of {len(lengths)} lengths")
    limit = (4 * D + 6) / 24
    most = max(flops / bytes_ for flops, bytes_ in steps)
    trial.check(most < limit, f"by steps: {most:.1f} operations a byte at most (the formula's limit is {limit:.1f})")
    grown = [flops / bytes_ for flops, bytes_ in fused]
    # the operations are a T² + b T with positive a and b: twice the length, and at least T / (T + 1) of twice as many
    factors = [b / a * (1 + 1 / T) for T, a, b in zip(lengths, grown[:-1], grown[1:], strict=False)]
    text = ", ".join(f"{g:.0f}" for g in grown)
    trial.check(min(factors) >= 2, f"in one kernel: {text} operations a byte at T = {lengths} (doubling expected)")
    if trial.control is None:
        points, peak, speed = under_the_roof()
        caption = "Circles multiply matrices. Left of the corner memory is the limit, right of it arithmetic."
        trial.show(figures.roof(points, peak, speed, machine.description()), "roofline", caption)
        corner = f"the corner is at {peak / speed:.0f} flop a byte"
        trial.note(f"this machine: {peak:.0f} GFLOPS, {speed:.0f} GB/s; {corner}")
    return (
        "proved",
        f"by steps below {limit:.1f} flop a byte for ever; in one kernel {grown[-1]:.0f} at T = {lengths[-1]}",
    )


# %% [markdown]
# About the same number of operations, and far fewer bytes. In the picture, attention stands to the right of the
# corner, where products of matrices belong, and the same attention by steps stands much further to the left. (Where a
# kernel seems to break through the roof, it found its arrays in the cache, where bytes are cheaper.)
#
# ## The online softmax
#
# There is one obstacle. Softmax needs the largest score and the sum of all exponentials *before* it can weigh the
# first value; so it seems that all scores have to be there at once. But suppose that we have seen some of the scores,
# and keep
#
# $$m = \max_s x_s, \qquad l = \sum_s e^{x_s - m}, \qquad a = \sum_s e^{x_s - m}\, v_s .$$
#
# Now a tile of new scores arrives, with a larger maximum $m'$. Since $e^{x - m'} = e^{x - m}\, e^{m - m'}$, a single
# factor puts everything right that was added up so far: $l \to l\, e^{m - m'}$ and $a \to a\, e^{m - m'}$. Then the
# tile is added, and forgotten. At the end the result is $a / l$. Here it is in the open.


# %%
class OnlineSoftmax:
    """The softmax-weighted sum of values whose scores come in tiles, for T queries at once."""

    def __init__(self, exp=np.exp):
        self.exp, self.m, self.l, self.a = exp, -np.inf, 0.0, 0.0

    def rescale(self, top):
        """The sums so far, relative to a new maximum."""
        shrink = self.exp(self.m - top)
        self.l, self.a = self.l * shrink, self.a * shrink

    def meet(self, scores, values):
        """scores (T, n); values (n, D)"""
        top = np.maximum(self.m, scores.max(axis=-1, keepdims=True))
        self.rescale(top)
        weights = self.exp(scores - top)
        self.m, self.l = top, self.l + weights.sum(axis=-1, keepdims=True)
        self.a = self.a + weights @ values


def tiled_attention(q, k, v, scale, block=BLOCK, online=OnlineSoftmax):
    """q (T, D); k, v (S, D) → out (T, D), lse (T). No array has more than `block` rows and columns, or T and D."""
    out, lse = np.empty_like(q), np.empty(len(q), q.dtype)
    for first in range(0, len(q), block):
        rows, sums = slice(first, first + block), online()
        for start in range(0, len(k), block):
            columns = slice(start, start + block)
            sums.meet(q[rows] @ k[columns].T * q.dtype.type(scale), v[columns])
        out[rows], lse[rows] = sums.a / sums.l, (sums.m + np.log(sums.l))[:, 0]
    return out, lse


# %% [markdown]
# **Claim.** The result does not depend on the size of the tiles or the order in which they come.
#
# **What would refute it.** Two cuttings with different results. Rounding would blur that, so the first experiment
# avoids rounding altogether. With $2^x$ in place of $e^x$ and whole numbers for scores and values, all weights are
# powers of two, all sums fit a float64, and the sums must agree *to the last bit*.
#
# **Experiment.** Random cuttings of random orders, exactly. Then with $e^x$, against a derived bound: the $n$
# roundings of a sum, two for each of $m$ tiles, and that of the exponents, which reach over $R$:
# $(n + 2m + 2R + 8)\, \varepsilon$. Then the engine's own kernel, on scores that rise from -300 to 300 along the keys,
# so that *every* tile brings a new maximum; that fall; and that are mixed. The judge is a sum over all keys at once, by
# Python's exactly rounded `fsum`.


# %%
def cut(random, n):
    """An order of n scores, and where it is cut into tiles."""
    ends = np.unique(random.integers(1, n, random.integers(0, n)))
    return np.split(random.permutation(n), ends)


def along(tiles, scores, values, exp):
    sums = OnlineSoftmax(exp)
    for tile in tiles:
        sums.meet(scores[None, tile], values[tile])
    return sums


def exact_attention(scores, values):
    """lse, and the weighted mean of each column of values, from all scores at once."""
    top = scores.max()
    weights = [math.exp(score - top) for score in scores]
    total = math.fsum(weights)
    means = [math.fsum(w * x for w, x in zip(weights, column, strict=True)) / total for column in values.T]
    return top + math.log(total), np.array(means)


# %%
@lesson.trial(
    "online-softmax",
    "A softmax over tiles, in one pass, gives the same numbers whatever the size and the order of the tiles.",
    controls=[faults.sum_not_rescaled(OnlineSoftmax), faults.engine_does_not_rescale(tiled_attention, OnlineSoftmax)],
)
def online_softmax(trial):
    random, tries, wrong, worst = np.random.default_rng(0), 2000 if lesson.full else 300, 0, 0.0
    for _ in range(tries):
        n = int(random.integers(2, 200))
        scores, values = random.integers(-15, 16, n).astype(float), random.integers(-99, 100, (n, 3)).astype(float)
        whole, parts = along([np.arange(n)], scores, values, np.exp2), along(cut(random, n), scores, values, np.exp2)
        wrong += not (np.array_equal(whole.l, parts.l) and np.array_equal(whole.a, parts.a))
    trial.check(wrong == 0, f"powers of two: {wrong} of {tries} cuttings change a bit of the sums (0 expected)")
    for _ in range(tries):
        n = int(random.integers(2, 200))
        scores, values = random.standard_normal(n) * 20, random.random((n, 3))
        tiles = cut(random, n)
        whole, parts = along([np.arange(n)], scores, values, np.exp), along(tiles, scores, values, np.exp)
        off = max(np.abs(parts.l / whole.l - 1).max(), np.abs(parts.a / whole.a - 1).max())
        worst = max(worst, off / ((n + 2 * len(tiles) + 2 * np.ptp(scores) + 8) * EPS))
    trial.check(worst <= 1, f"exponentials: {worst:.0%} of the bound on rounding at most, in {tries} cuttings")

    S, D = 1000, 4
    rising = np.linspace(-300, 300, S)
    values = random.random((S, D))
    bound = (
        2 * (S + 2 * S / 32 + 2 * 600 + 8) * EPS
    )  # 32: the smallest tile of any tier; 2: there are two sums, a and l
    furthest = 0.0
    for name, scores in {"rise": rising, "fall": rising[::-1], "are mixed": random.permutation(rising)}.items():
        q, k = np.zeros((1, 1, 1, D)), np.zeros((1, 1, S, D))
        q[..., 0], k[..., 0] = 1, scores  # so that a score is exactly the number we chose
        here = kernels.current()
        arguments = (here.asarray(x) for x in (q, k, values[None, None]))
        out, lse = (here.to_numpy(x) for x in here.attention(*arguments, Mask(), 1.0, Dropout()))
        exact_lse, exact_out = exact_attention(scores, values)
        off = max(abs(lse.item() / exact_lse - 1), np.abs(out[0, 0, 0] / exact_out - 1).max())
        furthest = max(furthest, off)
        trial.check(
            off <= bound,
            f"{here.name}: scores between -300 and 300 that {name}: off by {off:.0e} ({bound:.0e} allowed)",
        )
    return "proved", f"{tries} cuttings equal to the last bit in powers of two; the engine is off by {furthest:.0e}"


# %% [markdown]
# The order does not matter, because the sums are relative to a maximum that one factor can change. That is all the
# mathematics that tiled attention needs. Here is its heart once more, compiled, on both fast tiers: look for `shrink`.

# %%
print(excerpt("cpu/attention.py", "            seen = max(0", "            if dropout"))
print(
    excerpt(
        "gpu/attention.cu", "            // all scores -inf so far", "            for (int c = 0; c < L::C; c += 4)"
    )
)

# %% [markdown]
# ## Memory, predicted and measured
#
# **Claim.** Attention by tiles needs memory that grows with $T$, not with $T^2$, forward and backward.
#
# **What would refute it.** More bytes at any length than predicted: the arrays that are asked for (the result with its
# log-sum-exp, three gradients), the parts of $dq$ (one for each of at most 8 shares of the keys), and for each thread
# two square tiles and a row, whatever the length is.
#
# **Experiment.** `tracemalloc` sees every array that NumPy makes, and those of compiled code as well, since Numba asks
# Python for its memory. We read its peak over a forward and a backward pass. And we measure the specification, which
# does store its scores: a meter that did not see *those* would be blind.


# %%
def peak_bytes(work):
    """The most bytes that arrays made by `work` held at one time. It runs in a thread of its own, because the engine
    keeps some buffers for the thread that used them, and those would not be counted again."""

    def traced():
        tracemalloc.start()
        try:
            result = work()
            return tracemalloc.get_traced_memory()[1], result
        finally:
            tracemalloc.stop()

    work()  # whatever is compiled or loaded at the first call is not what we measure
    with ThreadPoolExecutor(1) as one:
        return one.submit(traced).result()[0]


def forward_and_backward(backend, T, D=64):
    """A pass through attention, ready to run."""
    q, k, v, dout = (np.random.default_rng(n).standard_normal((1, 1, T, D), dtype=np.float32) for n in range(4))
    options = Mask(), D**-0.5, Dropout()

    def work():
        out, lse = backend.attention(q, k, v, *options)
        return out, lse, *backend.attention_backward(dout, q, k, v, out, lse, *options)

    return work


def predicted_bytes(T, D=64):
    """out, dk, dv, lse; dq in as many parts as there are shares, and their sum."""
    shares = min(SHARES, -(-T // BLOCK))
    return 4 * (T * D * (3 + shares + (shares > 1)) + T)


def ladder(trial, T=1024, D=64):
    """The same attention three times, each less naive than the one before: time and memory, to look at."""
    q, k, v = (np.random.default_rng(n).standard_normal((1, 1, T, D), dtype=np.float32) for n in range(3))
    options = Mask(), D**-0.5, Dropout()
    steps = {
        "naive, NumPy": lambda: NAIVE.attention(q, k, v, *options),
        "in tiles, NumPy": lambda: tiled_attention(q[0, 0], k[0, 0], v[0, 0], D**-0.5),
        "in tiles, compiled": lambda: TILED.attention(q, k, v, *options),
    }
    rows = [(name, f"{shortest(f) * 1e3:.1f} ms", f"{peak_bytes(f) / 1e6:.2f} MB") for name, f in steps.items()]
    trial.note(table((f"forward, T = {T:,}, D = {D}", "time", "arrays"), rows, right=(1, 2)))


# %%
@lesson.trial(
    "attention-memory",
    "Attention by tiles needs memory that grows with T, not with T², forward and backward.",
    controls=[faults.scores_kept, faults.scores_kept_in_backward],
)
def attention_memory(trial):
    lengths = (256, 512, 1024, 2048, 4096)
    predicted, tiled = [predicted_bytes(T) for T in lengths], []
    for T, bytes_ in zip(lengths, predicted, strict=True):
        tiled.append(peak_bytes(forward_and_backward(TILED, T)))
        # two tiles and a row a thread, if all threads hold theirs at the peak; 64 KB for Python's own objects
        more = numba.get_num_threads() * 4 * (2 * BLOCK**2 + T) + 2**16
        text = (
            f"T = {T:,}: {tiled[-1]:,} bytes ({bytes_:,} predicted for arrays, at most {more:,} for tiles and Python)"
        )
        trial.check(bytes_ <= tiled[-1] <= bytes_ + more, text)
    T = lengths[-1]
    naive = [peak_bytes(forward_and_backward(NAIVE, T)) for T in lengths]
    seen = sum(bytes_ >= 4 * T * T for T, bytes_ in zip(lengths, naive, strict=True))
    trial.check(seen == len(lengths), f"step by step, the squares are seen at {seen} of {len(lengths)} lengths")
    trial.note(f"step by step it is {naive[-1] / 1e6:.0f} MB at T = {T:,}: {naive[-1] / tiled[-1]:.0f} times as much")
    if trial.control is None:
        trial.show(figures.memory(lengths, naive, tiled, predicted), "memory", "Bytes of arrays at their peak.")
        ladder(trial)
    return "proved", f"{tiled[-1] / 1e6:.1f} MB at T = {T:,} as predicted, {naive[-1] / 1e6:.0f} MB step by step"


# %% [markdown]
# Proved: what we predicted, and a constant. (Up to T = 1,024 the number of shares still grows with the length; from
# there on it is 8, and the line is straight.) The slope of the blue points is the whole difference between a
# context of a few thousand words and one of a few hundred thousand.
#
# The ladder shows that tiles by themselves save memory. Compiling them saves time as well, because then what is done
# to a tile happens while it is still in the cache.
#
# ## The head that never sees its logits
#
# The last layer of a language model has the same trouble: $N$ positions times $V$ words of logits, only to be turned
# into one number, the loss. With 2,048 positions and 50,001 words that is 410 MB, and their gradient as much again.
# `linear_cross_entropy` takes a chunk of rows at a time: logits, loss, gradient of the logits, both products of the
# backward pass; then the buffer is used again for the next chunk. That is possible since the gradient of a mean is
# known in advance up to a factor, the gradient of the loss itself.
#
# **Claim.** The fused head gives the loss and the gradients of `linear` followed by `cross_entropy`, and its memory
# does not grow with $N \cdot V$.
#
# **What would refute it.** A number further off than rounding explains; or more bytes than predicted: a buffer of at
# most 64 MB, the partial sums that go with its rows, and the gradients that are asked for.


# %%
def loss_and_gradients(function, leaves, targets):
    for leaf in leaves:
        leaf.grad = None
    loss = function(*leaves, targets)
    loss.backward()
    return loss.numpy(), *(leaf.grad.numpy() for leaf in leaves)


def one_after_the_other(x, weight, bias, targets, **options):
    return F.cross_entropy(F.linear(x, weight, bias), targets, **options)


def head_allowances(x, weight, bias, targets):
    """How far rounding can take apart two results (loss, dx, dweight, dbias), to first order in eps."""
    (N, C), V = x.shape, len(weight)
    logits = x @ weight.T + bias
    size = (np.abs(x) @ np.abs(weight).T + np.abs(bias)).max()
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    d = (p + np.eye(V)[targets]) / N
    # a logit is a sum of C + 1 terms; a weight inherits two of those errors, the sum of V, and the exponent's reach
    relative = 2 * (2 * (C + 1) * size + V + N + 2 * np.ptp(logits) + 16) * EPS
    return (
        relative * (1 + size),
        relative * (d @ np.abs(weight)),
        relative * (d.T @ np.abs(x)),
        relative * d.sum(axis=0),
    )


def predicted_head(N, C, V):
    """Bytes of the buffer, of the partial sums of dx for its rows, and of the gradients. V is a power of two here, so
    that no block of words needs padding."""
    rows = min(N, head.BUFFER_BYTES // (4 * V))
    return 4 * (rows * V + rows * head.PARTIALS * C + N * C + V * C + V), rows


# %%
@lesson.trial(
    "fused-head",
    "The fused head gives the loss and gradients of linear and cross-entropy, and never holds the logits whole.",
    controls=[faults.logits_whole, faults.gradients_off],
)
def fused_head(trial):
    random = np.random.default_rng(0)

    def inputs(N, C, V, dtype):
        arrays = (random.standard_normal(shape).astype(dtype) for shape in ((N, C), (V, C), (V,)))
        return [Tensor(array, requires_grad=True) for array in arrays], random.integers(0, V, N)

    with kernels.use(TILED):
        leaves, targets = inputs(301, 33, 1009, "float64")
        ours, theirs = (loss_and_gradients(f, leaves, targets) for f in (F.linear_cross_entropy, one_after_the_other))
        apart = [np.abs(a - b) for a, b in zip(ours, theirs, strict=True)]
        allowed = head_allowances(*(leaf.numpy() for leaf in leaves), targets)
        beyond = sum(int((a > b).sum()) for a, b in zip(apart, allowed, strict=True))
        largest = max(a.max() for a in apart)
        trial.check(
            beyond == 0,
            f"{beyond} of {sum(a.size for a in apart):,} numbers differ by more than rounding can explain "
            f"(0 expected; largest difference {largest:.0e})",
        )
        C, V, sizes = 64, 8192, (1024, 2048, 4096, 8192) if lesson.full else (1024, 2048, 4096)
        fused, whole, predicted = [], [], [predicted_head(N, C, V)[0] for N in sizes]
        for N, bytes_ in zip(sizes, predicted, strict=True):
            given = inputs(N, C, V, "float32")
            fused.append(peak_bytes(lambda given=given: loss_and_gradients(F.linear_cross_entropy, *given)))
            # a few numbers for each row of the buffer and block of words, and for each position; 64 KB for Python
            more = 4 * predicted_head(N, C, V)[1] * (C + 8 * head.PARTIALS) + 32 * N + 2**16
            text = f"{fused[-1] / 1e6:.1f} MB, {bytes_ / 1e6:.1f} predicted, at most {more / 1e6:.1f} more for rows"
            trial.check(bytes_ <= fused[-1] <= bytes_ + more, f"N = {N:,}: {text}")
            whole.append(peak_bytes(lambda given=given: loss_and_gradients(one_after_the_other, *given)))
            text = f"{whole[-1] / 1e6:.1f} MB, with {4 * N * V / 1e6:.1f} of logits"
            trial.check(whole[-1] >= 4 * N * V, f"N = {N:,}, one after the other: {text}")
    trial.show(
        figures.head(sizes, fused, whole, predicted, V), "head", "Bytes of arrays at their peak, one training step."
    )
    saved = f"{fused[-1] / 1e6:.0f} MB instead of {whole[-1] / 1e6:.0f} MB at N = {sizes[-1]:,}"
    return "proved", f"off by {largest:.0e}, within rounding; {saved}"


# %% [markdown]
# Nothing is lost, and the memory stops growing once the buffer is full; only the gradients themselves go on.
#
# ## A race, and how it is found
#
# The threads of a GPU block share some fast memory: that is where tiles live. Sharing brings a kind of mistake that
# does not exist in the code above. Two threads touch the same number, one of them writes, and nothing says who comes
# first. A *barrier*, `__syncthreads()`, makes all threads wait for one another. If one is missing, the kernel may work
# for a year, until a new driver runs its threads in another order.
#
# Here is a small kernel of that sort. Each thread owns one number of a tile, and replaces it by the mean of itself and
# its right neighbour. Between reading the neighbour and writing its own number it must wait, or the *left* neighbour
# may read the new number instead of the old one. `BARRIER` is given at compile time: a barrier, or nothing. The two
# kernels below it do the same simple work along the rows or along the columns of a matrix; we come to them at the end.

# %%
SOURCE = """#include "common.cuh"

// Each number becomes the mean of itself and its right neighbour.   y, x (64): one block of 64 threads
extern "C" __global__ void smooth(real* y, const real* x) {
    __shared__ real tile[64];
    const int t = threadIdx.x, right = t < 63 ? t + 1 : 63;
    tile[t] = x[t];
    __syncthreads();
    const real mean = (tile[t] + tile[right]) / 2;  // reads the neighbour's
    BARRIER;                                        // until all have read
    tile[t] = mean;                                 // writes its own
    __syncthreads();
    y[t] = tile[t];
}

// y = 2 x for a matrix, a thread a number; neighbouring threads are neighbours in a row.   y, x (n, n)
extern "C" __global__ void along_rows(real* y, const real* x, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * n) y[i] = 2 * x[i];
}

// The same, but neighbouring threads are neighbours in a column.
extern "C" __global__ void along_columns(real* y, const real* x, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * n) y[i % n * n + i / n] = 2 * x[i % n * n + i / n];
}
"""
FILE = FOLDER / "08_race.cu"
FILE.write_text(SOURCE, encoding="utf-8")
READS, WRITES = (1 + SOURCE[: SOURCE.index(text)].count("\n") for text in ("// reads", "// writes"))

# %% [markdown]
# The engine has an *emulator*: g++ compiles a `.cu` file as it stands, and every GPU thread becomes a little thread of
# its own that runs until it meets a barrier. The order is ours to choose, and every access to memory can be watched.
#
# **Claim.** A missing barrier can give the right numbers, and is found all the same, with its source line.
#
# **What would refute it.** The faulty kernel gives wrong numbers in every order (then plain tests would do); or it
# escapes in some order; or the sound kernel is accused.
#
# **Experiment.** Both versions, threads in order and in many shuffled orders, plainly and under watch. The numbers are
# small integers, and halves of them, so right means right to the last bit. What the watch looks for is not a wrong
# number, but two accesses to one place, one of them a write, with no barrier in between. That is so in *every* order.


# %%
def smooth(barrier, x):
    y = np.zeros_like(x)
    defines = {"BARRIER": "__syncthreads()" if barrier else ""}
    launcher.launch(str(FILE), "smooth", (1,), (64,), (y, x), x.dtype, defines)
    return y


def smooth_in_numpy(x):
    return (x + np.append(x[1:], x[-1])) / 2


def fault(barrier, x, seed):
    """What the watch says in one order: nothing, if all is well."""
    try:
        with emulator.checked(seed):
            smooth(barrier, x)
    except emulator.EmulatorError as error:
        return error
    return None


def lines_touched(kernel, n=64):
    """How many lines of 128 bytes the warps of a kernel ask memory for."""
    x, y = np.ones((n, n), np.float32), np.zeros((n, n), np.float32)
    with emulator.checked() as report:
        launcher.launch(str(FILE), kernel, (n * n // 64,), (64,), (y, x, n), x.dtype, {"BARRIER": ""})
    return report.launches[0].lines


# %%
def race(trial):
    x = np.random.default_rng(0).integers(0, 100, 64).astype(np.float32)
    right, seeds = smooth_in_numpy(x), range(200 if lesson.full else 40)
    plain = smooth(False, x)
    trial.check(
        np.array_equal(plain, right),
        f"without its barrier, threads in order: {int((plain != right).sum())} of 64 numbers are wrong (0 expected)",
    )
    shuffled = []
    for seed in seeds[1:]:
        with emulator.shuffled(seed):
            shuffled.append(smooth(False, x))
    wrong = sum(not np.array_equal(result, right) for result in shuffled)
    trial.check(wrong > 0, f"without its barrier, threads shuffled: wrong in {wrong} of {len(shuffled)} orders")
    found = [fault(False, x, seed) for seed in seeds]
    kinds = [error.kind for error in found if error is not None]
    text = f"under watch: a race is found in {kinds.count('race')} of {len(seeds)} orders, the harmless one included"
    trial.check(kinds == ["race"] * len(seeds), text)
    places = {line for error in found for line in error.lines}
    expected = {f"{FILE.name}:{n}" for n in (READS, WRITES)}
    trial.check(
        {Path(place).name for place in places} == expected,
        f"it names {', '.join(sorted(Path(place).name for place in places))} (where one reads and the other writes)",
    )
    trial.note(str(found[0]))
    accused = sum(fault(True, x, seed) is not None for seed in seeds)
    trial.check(accused == 0, f"with its barrier it is accused in {accused} of {len(seeds)} orders (0 expected)")
    rows, columns, n = lines_touched("along_rows"), lines_touched("along_columns"), 64
    trial.check(
        rows == 2 * n * n * 4 // 128 and columns == 2 * n * n,
        f"{2 * n * n:,} numbers read or written: {rows:,} lines along rows (32 numbers share one, 256 expected), "
        f"{columns:,} along columns (8,192 expected)",
    )
    with emulator.checked() as report:
        q = np.random.default_rng(0).standard_normal((1, 1, 128, 32), dtype=np.float32)
        kernels.backend("emulated").attention(q, q, q, Mask(is_causal=True), 0.2, Dropout())
    counted = report.launches[0]
    text = f"{counted.load_lines} lines read, {counted.load_lines_ideal} needed for the bytes"
    trial.check(counted.load_lines == counted.load_lines_ideal, f"the engine's attention, no fault found: {text}")
    trial.note(report.table())
    if trial.control is None:
        unlucky = next(result for result in shuffled if not np.array_equal(result, right))
        trial.show(figures.race(right, unlucky), "race", "Plain tests see this fault only in an unlucky order.")
    return (
        "proved",
        f"right in order, wrong in {wrong} of {len(shuffled)} orders, found in {len(seeds)} of {len(seeds)}",
    )


# %%
if "emulated" in kernels.available():
    statement = "A missing barrier can give the right numbers, and is found all the same, with its source line."
    lesson.trial("race", statement, controls=[faults.barrier_lost, faults.watch_asleep, faults.strides_apart])(race)
else:
    print(f"race: left out, because the emulator cannot be used here: {kernels.reasons()['emulated']}")

# %% [markdown]
# The faulty kernel is right in the one order that a quick test would use. The watch does not wait for bad luck: it
# finds the fault in every order, and points at the two lines between which the barrier belongs.
#
# The last check counts something else that no result shows. Memory is read in lines of 128 bytes. Where 32
# neighbouring threads read 32 neighbouring numbers, one line serves them all; where they read down a column, each
# needs a line of its own, and 31 of 32 numbers that were fetched are thrown away. The engine's
# attention reads no line without need. That the table still says 64 % comes from its writes: eight lanes write 32
# neighbouring bytes of a row, a quarter of a line, which is the smallest piece that memory takes.
#
# That is the whole way: the specification says what is right, counting says what it must cost, tiles and one small
# identity about exponentials get there, and watching, not luck, says that it is sound.

# %%
lesson.finish()
