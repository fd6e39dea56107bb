# %% [markdown]
# # 8. From formula to kernel
#
# The formula of attention fits on one line, and so does its NumPy version. Both are right. Yet much of the time of that
# line is not spent on arithmetic at all: it is spent on carrying numbers to memory and back. Whoever wants to train
# faster must know which of the two is in the way, and can find out by counting, before writing any fast code.
#
# **At the end you can say**
# - what a kernel is, what a backend is, and why this engine has every kernel three times;
# - why two correct programs differ in the last digits, and by how much they may;
# - how to tell from two counts, operations and bytes, what limits a kernel;
# - why attention "in one kernel" can be faster, although it does all the same arithmetic.
#
# **Time:** 25 minutes to read, 15 seconds to run (a minute or two more at the very first run, which compiles kernels).
# **Before you start:** lesson 2 (what attention computes). You need not know C or CUDA: the three programs that we look
# at are short, and we go through them together.
#
# Run it: `python lessons/08_kernels.py`, or on another backend with `--backend numpy`; `--break another-scale` runs it
# on a *control*, an engine that was broken on purpose: there a check has to fail.

# %% tags=["plumbing"]
import numpy as np

import autograd.functional as F
import kernels
from autograd import Tensor
from lessons import faults
from lessons.evidence import kernels as evidence
from lessons.excerpts import excerpt
from lessons.figures import kernels as figures
from lessons.harness.trial import Lesson
from minitransformer.app.bench import machine
from minitransformer.app.tables import table

lesson = Lesson(__file__)

# %% [markdown]
# ## A formula, by hand
# We start with softmax, because it is the heart of attention and small enough to follow with a pencil. It turns scores
# into shares that add up to one:
#
# $$y_c = \frac{e^{x_c}}{\sum_j e^{x_j}} .$$
#
# For the scores 1, 2 and 3:

# %%
row = np.array([1.0, 2.0, 3.0])
powers = np.exp(row)
print("exponentials", powers.round(3), "  their sum", powers.sum().round(3))
print("shares      ", (powers / powers.sum()).round(3))

# %% [markdown]
# That is right, and it is not yet a program that one could use. What do you expect for the scores 1001, 1002 and 1003?
# On paper, the same shares: a common factor $e^{1000}$ cancels. Now the computer:

# %%
row = np.array([1001.0, 1002.0, 1003.0])
with np.errstate(all="ignore"):
    print("as the formula says:        ", np.exp(row) / np.exp(row).sum())
powers = np.exp(row - row.max())
print("after taking off the largest:", (powers / powers.sum()).round(3))

# %% [markdown]
# $e^{1003}$ is larger than any number the machine can hold. So one subtracts the largest score first; then the largest
# exponential is 1, and nothing can overflow. Every softmax that you will ever meet in a library does this.
#
# ## The same softmax, three times
# A **kernel** is a function that takes arrays and returns arrays, and knows nothing of models or gradients. This engine
# has each kernel three times, in files of the same name:
#
# - `kernels/reference/`: NumPy. Short and plainly right. This is the *specification*.
# - `kernels/cpu/`: Python loops that Numba compiles to machine code.
# - `kernels/gpu/`: CUDA C, for graphics cards.
#
# Here they are, cut out of the engine's own files. Read the first and look for its four steps (largest, exponentials,
# sum, division) in the other two.

# %%
print(excerpt("reference/softmax.py", "def softmax(", "def softmax_backward"))
print(excerpt("cpu/softmax.py", "def _softmax(", "@kernel"))
print(excerpt("gpu/softmax.cu", 'extern "C" __global__ void softmax_forward', "// dx"))

# %% [markdown]
# The names that you cannot know:
#
# | name | what it means |
# |---|---|
# | `largest`, `row_max`, `row_sum` | the largest number of a row; its sum |
# | `_part_exp`, `TERMS` | exponentials of 1,024 neighbours and their sum; long sums are added up in such parts |
# | `real`, `__restrict__` | float or double, as compiled; a promise that the arrays do not overlap |
# | `WARP_STRIDE_LOOP(n, N)` | each group of 32 threads takes the rows that are its own |
# | `LANE_STRIDE_LOOP(c, C)` | each thread takes every 32nd column; its number in the group is its *lane* |
# | `LongSum`, `warp_sum` | a sum in parts, as above; the sum over the 32 threads |
#
# The fourth step, the division, appears as "times `share`", and `share` is 1 divided by the sum. What differs is *who
# does the work*.
#
# - NumPy takes whole arrays, one operation after the other: `np.exp` has written all of `e` before `row_sum(e)` begins.
# - Numba's `prange` hands out rows: each processor core takes one row and does all the steps. When it walks through the
#   row a second time, the row is still in the cache, a small and fast memory beside the core.
# - On a graphics card, 32 threads (a *warp*) share a row. Thread 0 takes columns 0, 32, 64 and so on, thread 1 takes 1,
#   33, 65. Each adds up its own part, and `warp_sum` adds the 32 parts.
#
# A **backend** is one of these tiers behind a flag. Everything above, from autograd to the translator, asks the current
# backend for its kernels; so one line moves a whole program. The same ten scores on each tier that works here:

# %%
scores = np.random.default_rng(0).standard_normal((1, 10))
for tier in kernels.available():
    with kernels.use(tier):
        y = F.softmax(Tensor(scores)).numpy()
    print(f"{tier:9}", " ".join(f"{share:.17f}" for share in y[0, :3]), "...")

# %% [markdown]
# (`emulated` is the CUDA file, run without a graphics card: g++ compiles it, and the threads take turns. Lesson 10
# explains how. It appears where g++ is installed, as `cupy` does where there is a card.)
#
# The numbers look the same, at least most of their digits. **Think of a number before you go on:** how many shares in
# a hundred will be the same to the very last digit on all tiers?

# %%
many = np.random.default_rng(0).standard_normal((10, 1000))
shares = {}
for tier in kernels.available():
    with kernels.use(tier):
        shares[tier] = F.softmax(Tensor(many)).numpy()
expected = shares.pop("numpy")
apart = {tier: np.rint(np.abs(y - expected) / np.spacing(expected)) for tier, y in shares.items()}
same = np.all([away == 0 for away in apart.values()], axis=0).mean()
print(f"the same to the last digit on all tiers: {100 * same:.0f} of 100 shares")
lesson.show(figures.last_digits(apart), "last_digits", "How far the numbers of other tiers are from NumPy's.")
one, other = (0.1 + 0.2) + 0.3, 0.1 + (0.2 + 0.3)
print(f"(0.1 + 0.2) + 0.3 = {one!r}      0.1 + (0.2 + 0.3) = {other!r}")

# %% [markdown]
# Fewer than most people expect, and the line below the picture says why. (One step in the picture is the last binary
# digit of a number, about one part in $10^{16}$ of it.) A float64 keeps about 16 digits, every addition rounds to them,
# and so *the order of a sum changes its last digit*. NumPy, a core and 32 threads add in three orders. None is wrong.
#
# But then, how do we notice one that *is* wrong? "Close enough" is no answer: with a generous tolerance, a bug hides in
# it. The answer is that rounding obeys a law. A sum of $n$ terms is off by at most $n \varepsilon$ times the sum of
# their absolute values, with $\varepsilon \approx 2 \cdot 10^{-16}$. So we can compute, for every single number, how
# far rounding can carry it. Further means: not rounding.
#
# ## Claim: the tiers compute the same attention
# Softmax was the first. The real candidate is attention with everything that makes it hard: a causal mask, keys of
# two lengths, awkward sizes (67 queries, 131 keys, width 20), and all three gradients.
#
# **What would refute it.** One number out of some 30,000 that is further off than rounding can carry it.
#
# **Experiment.** Run it on every tier that works here, in float64, and compare with NumPy number by number. Then
# dropout: the same seed must have dropped the *same* weights on all tiers, to the last one. (Trick: with the identity
# matrix in place of the values, the weights themselves come out.)
#
# Two broken engines have to be caught: one whose factor $1/\sqrt{D}$ is off by a billionth, one that draws its dropout
# from the next seed. (The next cell is this experiment as code; you may skip it.)


# %%
@lesson.trial(
    "same-kernel",
    "The tiers compute the same attention, forward and backward, up to rounding; dropout drops the same weights.",
    controls=[faults.another_scale, faults.another_seed],
)
def same_kernel(trial):
    tiers = [tier for tier in kernels.available() if tier != "numpy"]
    found, allowed = evidence.distances(tiers)
    for tier, (beyond, of, largest) in found.items():
        largest_text = ", ".join(f"{name} {size:.0e}" for name, size in largest.items())
        text = f"{tier} and numpy: {beyond} of {of:,} numbers differ by more than rounding can explain (0 expected)"
        trial.check(beyond == 0, f"{text}; largest differences: {largest_text}")
    trial.note(f"rounding could explain up to {allowed:.0e}: the law speaks of the worst case, which hardly happens")

    dropped = {tier: evidence.dropped_weights(tier) for tier in kernels.available()}
    count, of = int(dropped["numpy"].sum()), dropped["numpy"].size
    differ = sum(int((dropped[tier] != dropped["numpy"]).sum()) for tier in tiers)
    text = f"dropout: NumPy drops {count:,} of {of:,} weights; another tier treats {differ} weights differently"
    trial.check(differ == 0 and 0 < count < of, f"{text} (0 expected)")
    worst = max(size for distance in found.values() for size in distance.largest.values())
    return "proved", f"{', '.join(tiers)} and numpy differ by {worst:.0e} at most; {count:,} weights dropped alike"


# %% [markdown]
# They agree to 15 digits, and an error of a billionth is noticed at once. So we may choose a tier for its speed alone.
# (Where the allowance for each number comes from is derived in `lessons/evidence/kernels.py`.)
#
# ## What limits a kernel: two counts
# A processor can do only so many operations a second, and it can carry only so many bytes a second between memory and
# itself. Which of the two holds a kernel up? Compare adding two arrays of a million numbers with multiplying two
# matrices of a thousand by a thousand. Both read two million numbers and write one million. **What would you guess:**
# how many operations does each do for every byte that it moves?

# %%
a, b = evidence.leaves(1000, 1000, count=2)
rows = []
for name, result in (("a + b", a + b), ("a @ b", a @ b)):
    ((_, operations, bytes_),) = evidence.price_list(result)
    rows.append((name, f"{operations:,}", f"{bytes_:,}", f"{operations / bytes_:.2f}"))
print(table(("1000 × 1000", "operations", "bytes", "operations a byte"), rows, right=(1, 2, 3)))

# %% [markdown]
# The same bytes, and two thousand times the work. (These counts come from the engine's contract, where each kernel
# states what it reads, writes and computes. A number of float32 has four bytes.)
#
# *Operations per byte* is called the **intensity** of a kernel. If the machine can do $P$ operations and carry $M$
# bytes in a second, then a kernel of intensity $I$ cannot do more than
#
# $$\min(P,\; I \cdot M) \quad \text{operations a second.}$$
#
# Below the intensity $P / M$ the arithmetic waits for memory; above it, memory waits for the arithmetic. Drawn on
# logarithmic axes, this minimum looks like a roof. Next we measure $P$ and $M$ of *your* machine, and time the kernels
# of a training step. Among them is attention as the formula says it, one operation after the other:


# %%
def by_steps(q, k, v, **_):
    """q, k, v (..., T, D)"""
    return F.softmax(q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5) @ v


points, peak, speed, share = evidence.under_the_roof(by_steps)
print(f"this machine: P = {peak:.0f} billion operations a second, M = {speed:.0f} billion bytes a second")
print(f"so the corner of the roof is at {peak / speed:.1f} operations a byte")
busy = f"busy: softmax got only {share:.0%} of the processors" if share < evidence.QUIET else ""
if busy:
    print(f"This machine was {busy}. Do not trust the heights of the dots.")
caption = f"The grey line is the best that is possible. {evidence.SIZES}" + " Busy: all may lie too low." * bool(busy)
title = f"{machine.description()}, {busy}".removesuffix(", ")
lesson.show(figures.roof(points, peak, speed, title), "roofline", caption)

# %% [markdown]
# Find four things in the picture.
#
# - Left of the corner stand the kernels that do little with each number. One that touches the roof, as Adam's update
#   nearly does, is held up by memory: only fewer bytes would help it.
# - A dot *far below* the roof is held up by something that neither count knows. Softmax takes exponentials, and dropout
#   draws random numbers; each counts as one operation or a few, and takes the time of many. Other programs push all
#   dots down, and most of all short kernels such as layer norm, which wait for the slowest of their threads.
# - Further right stand products of matrices, and two dots for attention, which compute *the same result*.
# - The thin roof is that of a graphics card, an RTX 3090 (two figures that its maker published; we did not measure it).
#   Its corner lies at 38. The two rings show the most that it could do of either attention.
#
# (A dot above the roof found its arrays in the cache, where bytes are cheaper.)
#
# ## Attention, counted
# Why are there two dots? Here is attention by steps, for one head of width $D = 64$ and a text of $T = 512$ words.

# %%
T, D = 512, 64
names = {"matmul": "product", "multiply": "times 1/√D"}
rows = [
    (names.get(name, name), f"{operations:,}", f"{bytes_:,}", f"{operations / bytes_:.1f}")
    for name, operations, bytes_ in evidence.price_list(by_steps(*evidence.leaves(1, 1, T, D)))
]
print(table(("step", "operations", "bytes", "operations a byte"), rows, right=(1, 2, 3)))
operations, bytes_ = evidence.counts(F.attention, T, D)
print(f"in one kernel: {operations:,} operations, {bytes_:,} bytes: {operations / bytes_:.1f} operations a byte")

# %% [markdown]
# The table has the answer. The matrix of scores has $T^2$ numbers, and each step writes it or reads it: six times in
# all, for a result that has only $T \cdot D$ numbers. In one kernel, a score is used where it arises and never stored.
# Written as formulas (the 1 is the factor $1/\sqrt D$; the $T$ is one number for each row that the way back needs; of
# the $6T^2$ operations one is the scaling, and five are the softmax):
#
# | | operations | numbers that move |
# |---|---|---|
# | step by step | $4DT^2 + 6T^2$ | $6T^2 + 4TD + 1$ |
# | in one kernel | about the same | $4TD + T$ |
#
# **Predict** what happens when the text gets longer: which of the two intensities grows, and how far? For a long text
# only the terms with $T^2$ count. By steps these are $(4D + 6)\,T^2$ operations for $6T^2$ numbers of 4 bytes each, so
# the quotient cannot pass $(4D + 6)/24$, which is 10.9 for $D = 64$. And in one kernel?

# %%
lengths = (32, 64, 128, 256, 512)
limit = (4 * D + 6) / 24
steps, fused = ([evidence.counts(attention, T, D) for T in lengths] for attention in (by_steps, F.attention))
grows = [[operations / bytes_ for operations, bytes_ in counts] for counts in (steps, fused)]
lesson.show(figures.intensity(lengths, *grows, limit), "intensity", "Only one of the two gains from a longer text.")

# %% [markdown]
# ## Claim: only in one kernel does the intensity grow with the text
# **What would refute it.** Other counts than these formulas say. They are whole numbers, so no tolerance is needed.
#
# **Experiment.** Run both at five lengths, let the tape add up what its kernels read, write and compute, and compare
# with the formulas. The broken engine takes attention apart into its steps behind our back.


# %%
@lesson.trial(
    "intensity",
    "By steps, attention does limited work per byte; in one kernel that reads inputs once, ever more as texts grow.",
    controls=[faults.scores_stored],
)
def intensity(trial):
    steps, fused = ([evidence.counts(attention, T, D) for T in lengths] for attention in (by_steps, F.attention))
    right = sum(bytes_ == 4 * (6 * T * T + 4 * T * D + 1) for T, (_, bytes_) in zip(lengths, steps, strict=True))
    trial.check(right == len(lengths), f"by steps: 4 (6 T² + 4 T D + 1) bytes at {right} of {len(lengths)} lengths")
    right = sum(bytes_ == 4 * T * (4 * D + 1) for T, (_, bytes_) in zip(lengths, fused, strict=True))
    trial.check(right == len(lengths), f"in one kernel: 4 T (4 D + 1) bytes at {right} of {len(lengths)} lengths")
    most = max(operations / bytes_ for operations, bytes_ in steps)
    trial.check(most < limit, f"by steps: {most:.1f} operations a byte at most (the formula's limit is {limit:.1f})")
    grown = [operations / bytes_ for operations, bytes_ in fused]
    # the operations are a T² + b T with positive a and b: twice the length, and at least T / (T + 1) of twice as many
    factors = [b / a * (1 + 1 / T) for T, a, b in zip(lengths, grown[:-1], grown[1:], strict=False)]
    text = ", ".join(f"{one:.0f}" for one in grown)
    trial.check(min(factors) >= 2, f"in one kernel: {text} operations a byte at T = {lengths} (doubling expected)")
    return (
        "proved",
        f"by steps below {limit:.1f} operations a byte for ever; in one kernel {grown[-1]:.0f} at T = {lengths[-1]}",
    )


# %% [markdown]
# By steps, attention stays below 11 operations a byte however long the text is. In one kernel it doubles with the
# length. Nothing is approximated and hardly an operation is saved: only bytes are. That moves the dot to the right.
#
# **Fine print.** We count each input once, as if keys and values fitted into fast memory. When they do not, they are
# read again for every tile of queries, and the growth ends at a value set by the size of that memory.
#
# What is it worth? Look where the corner of *your* machine lies. If both dots are right of it, bytes do not hold up the
# products. But the dot of step by step is an average of four steps. The scaling, at 0.1, waits for memory all the same;
# so does the softmax, at 0.6, or for its exponentials, each of which costs more than the one operation we count. On the
# card, whose corner lies at 38, attention by steps stays on the slope for ever: it waits for memory however fast the
# arithmetic is. In one kernel it leaves the slope once the text is long enough.
#
# One question is open. Softmax divides by a sum over *all* scores of a row. How can a kernel use a score and forget it
# before it has seen the others? That is the next lesson.
#
# ## Questions to think about
# 1. A new chip does twice as many operations a second and has the same memory. Which dots of the roof move? And if the
#    memory became twice as fast instead?
# 2. The formula's limit of step by step is $(4D + 6)/24$. What would you change in the model to raise it, and what
#    would that cost elsewhere?
# 3. Layer norm does about seven operations on each number. Could any clever program move its dot to the right of the
#    corner? What if it were done in one kernel together with its neighbours?
# 4. Two runs of the same training, one on NumPy and one on Numba, start alike and differ in the third digit of the loss
#    after a thousand steps. Bug or rounding? How would you find out?
#
# ## Further reading
# - S. Williams, A. Waterman and D. Patterson, *Roofline: an insightful visual performance model for multicore
#   architectures* (2009). The picture above, from those who invented it; short and without formulas to fear.
# - D. Goldberg, *What every computer scientist should know about floating-point arithmetic* (1991): how rounding works.
# - N. Higham, *Accuracy and stability of numerical algorithms* (2nd edition, 2002), chapter 4: the order of sums.
#
# **Exercises** (`minitransformer exercise NAME` checks your answer): `row-sums` and `layer-norm-kernel` in Numba,
# `vector-add`, `softmax-row` and `layer-norm-cuda` in CUDA (in the emulator), and `bug-scale`.

# %%
lesson.finish()
