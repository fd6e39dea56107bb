# %% [markdown]
# # 10. Threads, races and barriers
#
# A program that is right today, right tomorrow, right in all your tests, and wrong on the first day with a new driver:
# that is a *race*. Graphics cards run thousands of threads which share memory, and the order in which they run is
# nobody's business but the card's. So a test that passes says nothing about the other orders. This lesson shows what a
# race is, in ten lines of Python; then how a race is *found*, in every order, even in the one where nothing goes wrong.
# You need no graphics card.
#
# **At the end you can say**
# - what a race is, and why adding one to a counter can lose a one;
# - what a barrier does, and where it belongs;
# - why testing cannot find races, and what can;
# - why it matters which thread reads which number, even when all results are right.
#
# **Time:** 25 minutes to read, ten seconds to run (at the very first run up to a minute more). **Before you start:**
# lesson 8 (what a kernel is). The last parts need g++; without it, the lesson says so and leaves them out.
#
# Run it: `python lessons/10_races.py`; `--break barrier-lost` runs it on a *control*, an engine that was broken on
# purpose: there a check has to fail.

# %% tags=["plumbing"]
import itertools
from pathlib import Path

import numpy as np

import kernels
from lessons import faults
from lessons.evidence import races as evidence
from lessons.figures import races as figures
from lessons.harness.trial import FOLDER, Lesson

lesson = Lesson(__file__)
COMPILES = "emulated" in kernels.available()
smooth, strides = FOLDER / "10_smooth.cu", FOLDER / "10_lines.cu"
strides.write_text(evidence.LINES, encoding="utf-8")

# %% [markdown]
# ## One and one is one
#
# Two threads, A and B, each add one to the same counter. For the machine that is two steps: read the counter, then
# write it back plus one. In between, the other thread may run. Here is such a thread in Python, with a `yield` at the
# place where others may run:


# %%
def add_one(memory):
    seen = memory["counter"]
    yield
    memory["counter"] = seen + 1


# %% [markdown]
# (If generators are new to you: `next(thread)` runs the function up to its `yield`, and the next `next` runs the rest.
# So whoever calls `next` decides who runs when. That is all we need of a machine with threads.)
#
# Two steps of A and two of B can follow each other in six orders. The counter starts at 0. **In how many of the six is
# it 2 at the end?**

# %%
for order in sorted(set(itertools.permutations("AABB"))):
    memory = {"counter": 0}
    threads = {name: add_one(memory) for name in "AB"}
    for name in order:
        next(threads[name], None)
    print(" ".join(order), " counter =", memory["counter"])
lesson.show(figures.orders(), "orders", "Both ones arrive only where one thread ends before the other begins.")

# %% [markdown]
# In two. Only where one thread is done before the other begins, both ones arrive. A row of the picture is one order,
# from left to right, and the colour says whose step it is. Follow the second row: A reads 0, B reads 0, A writes 1, and
# B writes 1 too. B still believes in the 0 that it read, and A's work is lost. No line of the program is wrong; the
# order is. (It happens in every language with threads, wherever what looks like one step, `counter += 1`, is really
# two.)
#
# Six orders can be tried one by one. For sixty-four threads with two steps each there are $128! / 2^{64}$, a number
# with 197 digits. So nobody will ever try them all, and which of them your machine takes today is chance, or habit.
#
# **A race** is just this: two threads touch the same place in memory, at least one of them writes, and nothing says who
# comes first.
#
# Threads that only read do each other no harm, and neither do threads that write to different places. So most of a
# kernel needs no care at all: each thread writes the numbers that are its own. What remains are the places that several
# threads share.
#
# ## Sixty-four threads and a tile
#
# Four words for what follows. On a graphics card, 32 threads that take their steps together are a **warp**; several
# warps that share a piece of fast memory are a **block**; a kernel is run by many blocks, which know nothing of each
# other. **Shared memory** is where tiles (lesson 9) live: fast, small, and open to every thread of its block.
#
# Here is a small job of that kind. Each thread owns one number of a tile, and replaces it by the mean of itself and its
# right neighbour. (The last one has no neighbour and takes itself.) By hand, for the four numbers 8, 4, 2, 6: the means
# are 6, 3, 4, 6.
#
# In the version with a **barrier**, each thread stops between reading and writing until all threads have read:


# %%
class Tile(list):
    """Numbers that threads share. It knows whose turn it is, and hears when all have met a barrier."""

    def barrier(self):
        pass


def smooth_thread(t, tile, barrier):
    right = min(t + 1, len(tile) - 1)
    mean = (tile[t] + tile[right]) / 2  # reads its neighbour's number
    if barrier:
        yield "barrier"  # waits until all have read
    tile[t] = mean  # writes its own


def run(tile, order, barrier):
    """All threads in this order, each as far as it gets; then the next round, until all are done."""
    threads, waiting = [smooth_thread(t, tile, barrier) for t in range(len(tile))], list(order)
    while waiting:
        met = []
        for t in waiting:
            tile.thread = t
            met += [t] if next(threads[t], None) == "barrier" else []
        waiting = met
        tile.barrier()
    return tile


# %% [markdown]
# **Predict** the four numbers without a barrier, if the threads run in the order 0, 1, 2, 3; and if they run in the
# order 3, 2, 1, 0.

# %%
for barrier in (False, True):
    for order in ((0, 1, 2, 3), (3, 2, 1, 0)):
        result = run(Tile([8, 4, 2, 6]), order, barrier)
        print(f"{'with' if barrier else 'without'} barrier, order {order}:", *(f"{x:g}" for x in result))

# %% [markdown]
# Without a barrier one order is right and the other wrong. In the order 3, 2, 1, 0, thread 1 reads the number of thread
# 2 after it was replaced: 4 and 4 make 4, not 3. In the order 0, 1, 2, 3 every thread reads its right neighbour before
# that one writes, so nothing happens. With a barrier the order does not matter: all reads come before all writes.
#
# A barrier is not free, since everybody waits for the slowest. So one does not put them everywhere to be on the safe
# side; each has a reason, which belongs into a comment beside it.
#
# Sixty-four threads, and a thousand random orders:

# %%
x = np.random.default_rng(0).integers(0, 100, 64).astype(np.float32)
right = evidence.in_numpy(x)
orders = [np.random.default_rng(seed).permutation(64) for seed in range(1000)]
without, with_one = ([run(Tile(x), order, barrier) for order in orders] for barrier in (False, True))
for name, results in (("without", without), ("with", with_one)):
    wrong = sum(not np.array_equal(result, right) for result in results)
    print(f"{name} the barrier: wrong in {wrong} of {len(orders)} random orders")
in_order = run(Tile(x), range(64), False)
print(f"without it, in the order 0, 1, 2 ...: {int((np.array(in_order) != right).sum())} of 64 numbers are wrong")
lesson.show(figures.race(right, without[0]), "race", "A plain test misses this fault in one order only: 0, 1, 2, ...")

# %% [markdown]
# Now think of a machine which nearly always runs its threads in the order 0, 1, 2 and so on. All your tests would pass,
# for years. **How could you find the fault all the same?**
#
# ## Watch accesses, not results
#
# The definition of a race does not speak of wrong numbers. It speaks of two accesses to one place, one of them a write,
# with nothing that orders them. That can be *watched*: note who touches what, forget the notes at each barrier, and
# complain when two notes fit the definition.
#
# At a barrier the notes may be forgotten, because whatever comes after it comes after everything before it: those
# accesses *are* ordered. Before you run it: what will the watch say about the order 0, 1, 2, 3 without a barrier, where
# all numbers come out right?


# %%
class Watched(Tile):
    """A tile that notes who touches it."""

    notes, races = (), ()

    def note(self, place, what):
        for other, where, before in self.notes:
            if where == place and other != self.thread and "writes" in (what, before):
                self.races += (f"place {place}: thread {other} {before} it, thread {self.thread} {what} it",)
        self.notes += ((self.thread, place, what),)

    def __getitem__(self, place):
        self.note(place, "reads")
        return super().__getitem__(place)

    def __setitem__(self, place, number):
        self.note(place, "writes")
        super().__setitem__(place, number)

    def barrier(self):
        self.notes = ()


for barrier in (False, True):
    tile = run(Watched([8, 4, 2, 6]), (0, 1, 2, 3), barrier)
    print(f"{'with' if barrier else 'without'} barrier, order 0 1 2 3: numbers {list(tile)}, {len(tile.races)} races")
    print(*(f"    {race}, with no barrier in between\n" for race in tile.races), sep="", end="")

# %% [markdown]
# There it is. The numbers are right, and the watch complains all the same: three times, once for each pair of
# neighbours. With the barrier it is silent. The watch does not wait for bad luck.
#
# ## The real thing: CUDA
#
# The same kernel for a graphics card. `__shared__` is the memory that the threads of a block share, `threadIdx.x` is
# the number of the thread, and `__syncthreads()` is CUDA's barrier. `BARRIER` is filled in when it is compiled: a
# barrier, or nothing. Compare it with `smooth_thread`, line by line. There are two more barriers: the first makes sure
# that the whole tile has been filled before anybody reads a neighbour; the last is not needed at all. (Why not?)

# %%
SMOOTH = """#include "common.cuh"

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
"""
smooth.write_text(SMOOTH, encoding="utf-8")
print(*(f"{number:2}  {line}" for number, line in enumerate(SMOOTH.splitlines(), 1) if number > 5), sep="\n")
if COMPILES:
    print(evidence.wrapped(evidence.complaint(smooth, False, x, seed=0)))

# %% [markdown]
# That was the engine's *emulator*, and you have just written a small one yourself. g++ compiles the `.cu` file as it
# stands; each thread of the card becomes a little thread that runs until it meets a barrier; the order is ours to
# choose; and every access to memory is watched. The message names the two source lines between which a barrier is
# missing. It ran the threads in the harmless order 0, 1, 2, ...
#
# ## Claim: a missing barrier can give the right numbers, and is found all the same
#
# **What would refute it.** The faulty kernel gives wrong numbers in every order (then plain tests would do); or it
# escapes the watch in some order; or the watch accuses the sound kernel.
#
# **Experiment.** Both versions, threads in order and in many shuffled orders, plainly and under watch. The numbers are
# small integers and halves of them, so right means right to the last bit. (Two more checks, at the end of the trial,
# belong to the next section: how memory is read, and what the watch says of the engine's own attention.)
#
# Three broken engines: the compiler loses the barrier, the watch sleeps, and neighbours are no longer neighbours.
# (The next cell is this experiment as code; you may skip it.)


# %%
@lesson.trial(
    "race",
    "A missing barrier can give the right numbers, and is found all the same, with its source line.",
    controls=[faults.barrier_lost, faults.watch_asleep, faults.strides_apart],
    without=None if COMPILES else f"the emulator cannot be used here: {kernels.reasons()['emulated']}",
)
def race(trial):
    seeds = range(200 if lesson.full else 40)
    plain = evidence.smooth(smooth, False, x)
    text = f"without its barrier, threads in order: {int((plain != right).sum())} of 64 numbers are wrong (0 expected)"
    trial.check(np.array_equal(plain, right), text)
    shuffled = evidence.in_orders(smooth, x, seeds[1:])
    wrong = sum(not np.array_equal(result, right) for result in shuffled)
    trial.check(wrong > 0, f"without its barrier, threads shuffled: wrong in {wrong} of {len(shuffled)} orders")

    found = [evidence.complaint(smooth, False, x, seed) for seed in seeds]
    kinds = [error.kind for error in found if error is not None]
    text = f"under watch: a race is found in {kinds.count('race')} of {len(seeds)} orders, the harmless one included"
    trial.check(kinds == ["race"] * len(seeds), text)
    places = {Path(line).name for error in found for line in error.lines}
    expected = {f"{smooth.name}:{evidence.line_of(SMOOTH, mark)}" for mark in ("// reads", "// writes")}
    trial.check(places == expected, f"it names {', '.join(sorted(places))} (where one reads and the other writes)")
    accused = sum(evidence.complaint(smooth, True, x, seed) is not None for seed in seeds)
    trial.check(accused == 0, f"with its barrier it is accused in {accused} of {len(seeds)} orders (0 expected)")

    trial.check(*evidence.lines_as_expected(strides))
    trial.check(*evidence.attention_reads_no_line_in_vain())
    return (
        "proved",
        f"right in order, wrong in {wrong} of {len(shuffled)} orders, found in {len(kinds)} of {len(seeds)}",
    )


# %% [markdown]
# The faulty kernel is right in the one order that a quick test would use, wrong in every shuffled one, and found in all
# of them. The sound kernel is never accused.
#
# ## Right, and slow
#
# There is a second thing that no result shows. Memory hands out *lines* of 128 bytes: 32 numbers at a time, whether one
# wants them all or one. The 32 threads of a warp read at the same moment. If they read along a row of a matrix, or down
# a column of it, how many lines do they need? **Make a guess,** for a matrix with 64 columns.

# %%
n = 64
along_row, down_column = np.arange(32), np.arange(32) * n  # which numbers of the matrix the 32 threads read
for name, numbers in (("along a row", along_row), ("down a column", down_column)):
    print(f"{name:14} {len(set(numbers // 32)):3} lines of memory for 32 numbers")
lesson.show(figures.lines(along_row, down_column, 32), "lines", "A line is fetched whole, whoever asks.")

# %% [markdown]
# One line, or thirty-two, for the same work. Along a column, 31 of 32 numbers that were fetched are thrown away, and
# the kernel takes that much longer, with no wrong result to warn you. The trial's last checks counted this in the
# emulator, for a kernel that doubles a whole matrix: 256 lines along rows, 8,192 along columns. They found as well that
# the engine's own attention, its most intricate kernel, has no race and reads no line without need.
#
# The emulator finds other faults that threads can make, for example reading behind an array:

# %%
if COMPILES:
    print(evidence.wrapped(evidence.one_too_far(strides)))
    print(evidence.lines_of_attention())

# %% [markdown]
# On a card, that read would have returned some number or other. (In the last lines, attention *writes* more lines than
# its bytes would fill: eight threads write 32 neighbouring bytes, a quarter of a line, which is the smallest piece that
# memory takes.)
#
# This ends three lessons about fast code. What they did, step by step: a short specification says what is right (lesson
# 8). Counting says what it must cost (lesson 8). Tiles and the online softmax reach that cost (lesson 9). And watching
# every access, not luck, shows that the threads are sound (lesson 10).
#
# ## Questions to think about
# 1. In `smooth_thread`, let each thread write to a *second* tile instead of its own. Is the barrier still needed? What
#    does this cost?
# 2. Our watch forgets all notes at a barrier. What would it miss, or wrongly report, if it forgot none?
# 3. A barrier stands inside `if (t < 32) { ... }` in a block of 64 threads. What happens? What should the watch say?
# 4. Thread A writes a result, then sets a flag `ready = 1`; thread B waits for the flag, then reads. Is that a race by
#    our definition? Can it go wrong?
# 5. Why does the engine have every number written by one thread only, instead of adding into it from many?
#
# ## Further reading
# - H. Boehm, *How to miscompile programs with "benign" data races* (2011). Why no race is harmless.
# - K. Serebryany and T. Iskhodzhanov, *ThreadSanitizer: data race detection in practice* (2009). The watch for programs
#   on a processor; it is built into g++ and clang.
# - A. Betts and others, *GPUVerify: a verifier for GPU kernels* (2012). Proofs instead of watching.
# - M. Harris, *Optimizing parallel reduction in CUDA* (2007). Barriers, lines and warps at work, in seven steps.
#
# **Exercises** (`minitransformer exercise NAME`; they run in the emulator): `warp-reduction`, and `bug-race`, a kernel
# in which you find the race.

# %%
lesson.finish()
