# %% [markdown]
# # 15. Four bits
#
# A weight is a number of 32 bits. A model of 135 million weights is then 538 megabytes, and for every word
# that it writes all of them have to be read. Yet the file in which SmolLM2 comes has only 98. Where did the
# rest go, and what did it cost? In this lesson you pack weights into four bits by hand, derive how wrong
# the result may be, and look for the point at which a trained model begins to suffer.
#
# **At the end you can say**
# - what a block of 32 four-bit weights looks like, byte by byte;
# - how far a weight, and a product, can move, and why products usually move much less;
# - what is saved, exactly, and which weights are better left alone;
# - why weights are packed in blocks;
# - how many bits a trained model needs before it notices.
#
# **Time:** 30 minutes to read, under a minute to run. **Before you start:** lesson 8 (what limits a
# program). Nothing is downloaded. Run it with `python lessons/15_four_bits.py`; add `--break
# halves-exchanged` to see a check fail.

# %% tags=["plumbing"]
import numpy as np

from lessons import faults
from lessons.evidence import four_bits as evidence
from lessons.figures import four_bits as figures
from lessons.harness.trial import Lesson

lesson = Lesson(__file__)
rng = np.random.default_rng(15)

# %% [markdown]
# ## A ladder of sixteen rungs
# Four bits can count from 0 to 15. So take a handful of weights, look for the least and the largest, and set
# sixteen rungs between them. If they reach from -0.8 to 0.7, rungs are 0.1 apart. The weight 0.13 is
# $(0.13 + 0.8) / 0.1 = 9.3$ rungs above the least: it goes to rung 9, and comes back as $-0.8 + 9 \cdot 0.1 =
# 0.1$. Only the 9 is kept for it. The least value and the step are kept once, for all.
#
# Thirty-two neighbours of a row share a ladder. That is GGUF's `Q4_1`, the format of our file:

# %%
w = np.round(rng.uniform(-0.8, 0.7, (1, 32)), 2).astype(np.float32)
w[0, 0], w[0, 1], w[0, 2] = -0.8, 0.7, 0.13
step, least, halves = evidence.fields(w)
print(f"least {least:.4f}, step {step:.4f}")
print("the first weights:", w[0, :4], " the seventeenth and its neighbours:", w[0, 16:20])
print("the first bytes:  ", [f"{byte:08b}" for byte in halves[:4]])

# %% [markdown]
# Read the third byte. Its *lower* half, on the right, is `1001`: rung 9, our 0.13. Its upper half belongs to
# the weight sixteen places on. (Why not to its neighbour? A processor that loads 16 bytes at once gets the
# first sixteen weights by cutting off the upper halves, and the others by shifting. No weight has to change
# its place.) Sixteen bytes, and two each for least and step, which are float16: 20 bytes for 32 weights, 5
# bits for each of them.
#
# Back again, `least + step * rung`:

# %%
back = evidence.unpacked_by_products(w)
print("unpacked:         ", back[0, :4].round(4))
caption = "Each weight moves to the nearest rung: at most half a step."
lesson.show(figures.ladder(w[0], back[0], step, least), "ladder", caption)

# %% [markdown]
# ## First trial: half a step
# A weight moves by half a step $s$ at most. (A little more: step and least value are rounded themselves, to
# the 11 bits of a float16.) What does that mean for a product $\sum_c x_c w_c$? In the worst case every
# weight moves by half a step, and each in the direction that hurts: the product then moves by $\tfrac12
# \sum_c |x_c| s_c$. In the usual case some go up and some go down. Before you read on: for 256 columns, what
# share of the worst case do you expect?
#
# **Claim.** No weight moves by more than half a step of its block, and no product by more than the sum of
# that; and the bound is no idle one, some weights come near it.
#
# **What would refute it.** One weight, or one product, beyond its bound. If all errors were tiny, the bound
# would be true and useless, so the largest must exceed nine tenths of it. (The next cell is this experiment
# as code; you may skip it.)


# %%
@lesson.trial(
    "half-a-step",
    "Four bits move no weight by more than half a step of its block, and no product by more than these add up to.",
    controls=[
        faults.halves_exchanged, faults.least_forgotten, faults.neighbours_scale, faults.cut_instead_of_rounded,
    ],
)  # fmt: skip
def half_a_step(trial):
    w = (0.05 * np.random.default_rng(1).standard_normal((192, 256))).astype(np.float32)
    moved = np.abs(evidence.unpacked_by_products(w) - w) / evidence.weight_bound(w)
    trial.check(moved.max() <= 1, f"of {w.size:,} weights none moves by more than {moved.max():.3f} of its bound")
    trial.check(moved.max() > 0.9, "and one comes that near, so that the bound says something")
    products = evidence.product_errors(w, np.random.default_rng(2))
    worst, usual = products.max(), products.mean()
    trial.check(worst <= 1, f"of {products.size:,} products none moves by more than {worst:.2f} of its bound")
    trial.check(usual < 0.1, f"and the mean of them by {usual:.3f}: errors of both signs cancel")
    trial.show(figures.errors(moved, products), "errors", "Single weights fill their bound; products stay far below.")
    return (
        "proved",
        f"{w.size:,} weights within {moved.max():.3f} of the bound, {products.size:,} products within {worst:.2f}",
    )


# %% [markdown]
# Proved, and with room. Errors spread evenly between $-s/2$ and $s/2$ have a typical size of $s/\sqrt{12}$,
# and a sum of $C$ of them grows with $\sqrt{C}$, while the bound grows with $C$. So the longer the rows,
# the smaller the share. That is why four bits work at all.
#
# Note what was *not* rounded: $x$. Our products unpack the weights in registers and multiply float32
# numbers (`kernels/cpu/quantised_blocks.py`). Other programs round $x$ to eight bits as well, multiply whole
# numbers, and have a second error to account for.
#
# ## What is saved
# Five bits instead of 32, a factor of 6.4? Not for all weights. Tables of words, which are often the head as
# well, are kept in eight bits: `Q8_0` has 34 bytes for 32 weights, a scale and no least value. Norms have a
# weight a column, together a hundredth of a percent. They stay float32.
#
# So count: $V C$ weights of the table at $34/32$ bytes, the matrices at $20/32$, the norms at 4. For the sizes
# of SmolLM2 that is a sum one can do on paper:

# %%
table, norms = 49_152 * 576, 61 * 576
matrices = 134_515_008 - table - norms
kept = table * 34 // 32 + matrices * 20 // 32 + 4 * norms
print(f"{table:,} + {matrices:,} + {norms:,} weights: {kept / 1e6:.1f} MB instead of {4 * 134_515_008 / 1e6:.1f}")

# %% [markdown]
# **Claim.** The memory of a quantised model is that sum, to the byte; a table that serves as head too
# counts once, and nothing is kept beside the bytes.
#
# **What would refute it.** A byte more or less. Or a model that has fewer *weights* than before: packing is
# not leaving out.


# %%
@lesson.trial(
    "bits-counted",
    "A quantised model takes 20 bytes for 32 weights, 34 for 32 of its words, 4 for each of its norms: no more.",
    controls=[faults.numbers_kept_beside, faults.head_of_its_own, faults.memory_by_weights],
)
def bits_counted(trial):
    for width, layers in ((64, 2), (96, 1), (128, 3)):
        sizes = evidence.SIZES | {"d_model": width, "d_ff": 2 * width, "n_layers": layers, "n_kv_heads": 2}
        model, weights, before, after, by_hand = evidence.memory(sizes)
        trial.check(model.num_parameters() == weights, f"width {width}: {weights:,} weights, before and after")
        trial.check(before == 4 * weights, f"before, {before:,} bytes: four for each")
        trial.check(after == by_hand, f"after, {after:,} bytes: as counted by hand")
    seen = f"{before:,} bytes become {after:,}"
    return "proved", f"three models, to the byte; {seen}, a factor of {before / after:.1f}"


# %% [markdown]
# The factor is below 6.4 as long as words take a large part. In SmolLM2 they are a fifth of all weights,
# and the whole falls to 96.6 MB: 5.6 times less to read for every word it writes. `print(model)` shows what
# is kept how, `model.num_bytes()` the sum.
#
# ## Why blocks
# A ladder for each 32 weights costs 4 bytes of 20. Why not one ladder for a whole row of 576? Suppose that
# one weight is forty times larger than all others. (In trained models there are such weights.) The ladder has
# to reach it, with the same sixteen rungs, and all others meet at one or two of them.
#
# **Claim.** With blocks, a weight that is far too large spoils the 31 others of its block, and no other.
#
# **What would refute it.** A weight of another block that comes back differently, by a single bit. And if
# the neighbours in the block did *not* suffer, there would be no need for blocks.


# %%
@lesson.trial(
    "blocks-contain",
    "A weight that is far too large spoils the other 31 weights of its block, and none of another block.",
    controls=[faults.one_scale_a_row, faults.largest_cut_off],
)
def blocks_contain(trial):
    w = (0.05 * np.random.default_rng(3).standard_normal((4, 576))).astype(np.float32)
    spoiled = evidence.with_outlier(w, 40)
    plain, with_it = evidence.error(w), evidence.error(spoiled)
    block = np.zeros(w.shape, bool)
    block[0, 32:64] = True
    elsewhere = (plain != with_it)[~block].sum()
    trial.check(elsewhere == 0, f"of {(~block).sum():,} weights of other blocks {elsewhere} come back differently")
    beside = block.copy()
    beside[0, 40] = False
    grown = with_it[beside].mean() / plain[beside].mean()
    trial.check(grown > 4, f"in the block of the outlier errors are {grown:.0f} times as large")
    itself = with_it[0, 40] / evidence.weight_bound(spoiled)[0, 40]
    trial.check(itself <= 1, f"the outlier itself comes back within {itself:.2f} of its bound")
    row = np.abs(evidence.rounded(spoiled, 4, block=576) - spoiled)
    trial.check((row[0, ~block[0]] > 0.01).mean() > 0.5, "with one ladder for the row, most of its weights are lost")
    caption = "Blue and orange coincide outside the grey block. One ladder for the row loses all of it."
    trial.show(figures.outlier(plain[0], with_it[0], row[0]), "outlier", caption)
    return "proved", f"31 weights suffer {grown:.0f} times larger errors; {(~block).sum():,} others not by a bit"


# %% [markdown]
# ## Does a model notice?
# Bounds are about numbers, and what we want is text. So let us train a small model of letters, on the text
# of lessons 1 and 2, for a few seconds. Then round its matrices to fewer and fewer bits, and look at the
# loss on a tenth of the text that it has not read. Where will the curve turn up? Guess a number of bits.

# %%
state = evidence.trained()
print(f"loss on unread text: {evidence.loss_of(evidence.filled(state)):.3f}, from {np.log(128):.3f} before training")

# %% [markdown]
# **Claim.** "A model does as well with four bits": what people say who sell memory.
#
# **What would refute it.** A loss that rises by more than a few percent with four bits. And two things must
# be seen for the check to mean anything: with too few bits the loss must rise; and the products that read
# bytes must give the loss of an ordinary model whose weights were rounded by hand.


# %%
@lesson.trial(
    "bits-enough",
    "A trained model does as well with four bits a weight as with 32.",
    controls=[faults.halves_exchanged, faults.least_forgotten, faults.neighbours_scale],
)
def bits_enough(trial):
    plain = evidence.loss_of(evidence.filled(state))
    bits = (2, 3, 4, 5, 6, 8)
    losses = [evidence.rounded_loss(state, n) for n in bits]
    rise = {n: loss / plain - 1 for n, loss in zip(bits, losses, strict=True)}
    trial.note("loss, by bits: " + ", ".join(f"{n}: {loss:.3f}" for n, loss in zip(bits, losses, strict=True)))
    eight, four = (evidence.quantised_loss(state, kind) / plain - 1 for kind in ("Q8_0", "Q4_1"))
    trial.check(abs(eight) < 0.005, f"eight bits change the loss of {plain:.3f} by {eight:+.2%} (below 0.5 % expected)")
    trial.check(0 < four < 0.05, f"four bits by {four:+.2%} (below 5 % expected, but not nothing)")
    apart = abs(four - rise[4])
    trial.check(apart < 0.002, f"products on bytes and weights rounded by hand agree to {apart:.2%}")
    trial.check(rise[2] > 0.1, f"two bits are too few: {rise[2]:+.0%} (more than 10 % expected)")
    trial.show(figures.loss_by_bits(bits, losses, plain), "bits", "The curve is flat down to five bits, then it rises.")
    seen = f"the loss of {plain:.2f} rises by {eight:.2%} with eight bits, {four:.1%} with four, {rise[2]:.0%} with two"
    return "sharpened", f"nearly as well: {seen}"


# %% [markdown]
# Nearly as well. Each bit that is taken away doubles the step, and with it the errors. Down to five bits they
# are too small to matter; at four one can measure them; at two the model is another one. Larger models
# suffer less, since their sums are longer and their knowledge is spread wider; but that, a lesson of
# under a minute cannot show.
#
# **Fine print.** The bounds are derived in `lessons/evidence/four_bits.py`, the rounding of float16 included.
# "By hand" keeps step and least value in float64, the engine in float16: hence the small difference between
# the two. The model has 82,240 weights and was trained for 300 steps of 16 rows.
#
# A model with quantised weights is for reading and writing, not for learning: asked for a gradient by
# such a weight, the engine refuses, and says how to unpack it. `minitransformer chat` talks with one.
#
# ## Questions to think about
# 1. `Q8_0` has no least value. For which weights is that a waste, and of how much?
# 2. A block of 32 equal weights: what is its step, and what comes back?
# 3. Rungs at equal distances suit weights that are spread evenly. Weights look more like a bell. Where would
#    you set sixteen rungs?
# 4. In a model that writes word by word, why does reading fewer bytes save time, although unpacking adds
#    operations? (Lesson 8 has two numbers for that.)
#
# ## Further reading
# - Dettmers and others, *LLM.int8()*, 2022: outliers in large models, and what they do to ladders.
# - Frantar and others, *GPTQ*, 2022: rounding that lets later weights make up for the errors of earlier ones.
# - Dettmers and others, *QLoRA*, 2023: rungs for bells, and training beside frozen four-bit weights.
#
# ## Exercises
# `minitransformer exercise unpack-four-bits`: the 20 bytes of a `Q4_1` block become 32 weights. In `eight-bits` you go
# the other way, with a step for each block, and see how far a weight moves.

# %%
lesson.finish()
