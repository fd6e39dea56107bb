# %% [markdown]
# # 6. Why several heads
#
# Every transformer cuts its attention into heads: instead of one attention of width $C$, it has $H$ of them of width $D
# = C/H$, side by side. Two reasons are given. It costs nothing, and it lets a layer look at several places at once. The
# first can be counted. For the second there is a small task which one head *provably* cannot do, however wide it is and
# however long it is trained, and two heads learn in a second.
#
# **At the end you can say**
# - what a head is, and how a layer is cut into heads without a single new weight;
# - what heads cost: what stays exactly the same, and what grows with their number;
# - why one head can bring back only *one* mixture, and which questions it therefore cannot answer;
# - under which condition this holds, and how a single head can get around it;
# - how attention, a feed-forward part, two sums and two norms make a whole layer.
#
# **Time:** 25 minutes to read, 15 seconds to run (at the very first run a minute more). **Before you start:** lesson 2
# (attention); what a cross-entropy loss is. Lesson 5 helps for the counting.
#
# **Run it:** `python lessons/06_heads.py`. `--break heads-tied` runs it on a *control*, an engine that was broken on
# purpose: there a check has to fail.

# %% tags=["plumbing"]
import numpy as np

import autograd.functional as F
from lessons import faults
from lessons.evidence import heads as evidence
from lessons.evidence.heads import BOUND, BOXES, CASES, FIRST, ROWS, SECOND, WIDTH
from lessons.figures import heads as figures
from lessons.harness.trial import Lesson
from minitransformer.app.tables import table

lesson = Lesson(__file__)
trained = lesson.remember(evidence.trained)  # a model is trained once, and again on each broken engine

# %% [markdown]
# ## What a head is
#
# Take three words of width 8, and two heads. Cutting means: the first four numbers of every vector belong to the first
# head, the last four to the second. Nothing is computed. It is a reshape and a swap of two axes.

# %%
words = np.arange(24).reshape(3, 8)
heads = words.reshape(3, 2, 4).swapaxes(0, 1)  # (words, width) → (heads, words, width of a head)
print(f"three words of width 8\n{words}\n\nhead 1\n{heads[0]}\n\nhead 2\n{heads[1]}")

# %% [markdown]
# Queries, keys and values are cut in this way, and each head does attention for itself. In the end the results are put
# side by side again, and a last matrix mixes them. So each head has *its own attention weight for every pair of words*.
# Here is a layer of the engine with random matrices, on four words. First with one head, then with two: read a row as
# "where does this word look?".

# %%
sentence = "the", "cat", "sat", "down"
for number in (1, 2):
    layer, x = evidence.layer_and_input(C=8, heads=number, T=len(sentence))
    maps = evidence.weights_of(layer, x).numpy()[0]  # (heads, words, words)
    print(("one head", "two heads")[number - 1].ljust(12) + "  |  ".join([" the  cat  sat down"] * number))
    for word, rows in zip(sentence, maps.swapaxes(0, 1), strict=True):
        print(f"{word:>10}  " + "  |  ".join(" ".join(f"{weight:.2f}" for weight in row) for row in rows))

# %% [markdown]
# Two heads, two tables: the same word can look at one place with the first head and at another with the second.
#
# ## What heads cost
#
# **Predict.** A layer of width 48 gets 2, 4, ... 48 heads instead of one. What happens to the number of its weights? To
# the operations in its matrix products? And in its softmax?

# %%
rows = []
for number in (1, 2, 4, 8, 16, 48):
    layer, x = evidence.layer_and_input(C=48, heads=number, T=20)
    work = evidence.work(evidence.written_out(layer, x))
    counts = layer.num_parameters(), work["linear"] + work["matmul"], work["softmax"]
    rows.append([number, *(f"{count:,}" for count in counts)])
print(table(("heads", "weights", "operations in products", "in the softmax"), rows, right=range(4)))

# %% [markdown]
# Why? The products: each head makes $T^2$ scores of $C/H$ products each, and there are $H$ heads, so the $H$ cancels.
# The softmax: each head has $T^2$ scores of its own, and nothing cancels. The picture shows both, and the time they
# take, for a larger layer.

# %%
T, C, heads = 128, 64, [1, 2, 4, 8, 16, 32, 64]
figure = figures.work(T, C, heads, *evidence.counts_and_times(T, C, heads))
lesson.show(figure, "work", "The products do not change with the number of heads; the softmax's work does.")

# %% [markdown]
# At the right end every head has width 1, and the softmax is three quarters as much work as all products together. In
# models in use a head has some 64 columns; there nobody notices.
#
# **Claim.** $H$ heads of width $C/H$ cost what one head of width $C$ costs.
#
# **What would refute it:** a weight more or less, or an operation more or less, for some $H$ that divides $C$.
#
# **Experiment.** Build the layer for every $H$ that divides $C$, and count its weights. Then run it twice: as it is,
# where one *fused* function does all of attention at once, and written out in products and a softmax, so that the parts
# can be counted apart. Both must give the same numbers. (The next cell is this experiment as code; you may skip it.)


# %%
@lesson.trial(
    "heads-free",
    "H heads of width C/H cost what one head of width C costs.",
    controls=[faults.bias_for_each_head, faults.every_head_projects_all, faults.heads_tied],
)
def heads_free(trial):
    T, widths = 20, (48, 60, 64, 210) if lesson.full else (48, 60)
    cases = [(C, H) for C in widths for H in range(1, C + 1) if C % H == 0]

    def check_all(of, text):
        held = sum(of(C, H) for C, H in cases)
        trial.check(held == len(cases), f"{held} of {len(cases)} {text}")

    weights = {case: evidence.layer_and_input(*case, 1)[0].num_parameters() for case in cases}
    check_all(lambda C, H: weights[C, H] == 4 * C * C + 4 * C, "layers have exactly 4C² + 4C weights, whatever H is")
    fused, apart, worst = evidence.compared(cases, T)
    # both sum at most C + T products in another order: a few roundings each, far below (C + T) of them
    bound = (max(widths) + T) * np.finfo(float).eps
    trial.check(worst < bound, f"fused and written out differ by {worst:.1e} of the largest value (below {bound:.1e})")
    for name in ("linear", "matmul"):
        check_all(lambda C, H, name=name: apart[C, H][name] == apart[C, 1][name],
                  f"layers do as many {name} operations as with one head")  # fmt: skip
    check_all(lambda C, H: fused[C, H]["linear"] == apart[C, H]["linear"], "fused layers do as many, too")
    check_all(lambda C, H: apart[C, H]["softmax"] == H * apart[C, 1]["softmax"],
              "layers do H times the softmax work of one head")  # fmt: skip
    check_all(lambda C, H: fused[C, H]["attention"] - fused[C, 1]["attention"] == (H - 1) * (4 * T * T + 2 * T),
              "fused kernels do (H - 1)(4T² + 2T) operations more than with one head")  # fmt: skip
    return "sharpened", f"weights and products equal for {len(cases)} pairs (C, H); the softmax work is H times as much"


# %% [markdown]
# Sharpened: weights and products are the same to the last one, the softmax's work is not. Compared with the products of
# scores and averages it is about $1/D$, with $D = C/H$ the width of a head.
#
# ## A task for two eyes
#
# Now to what heads *buy*. Six boxes with addresses 0 to 5 hold a coin each, which shows 0 or 1. A question names two
# addresses; the coins in both are to be told, in this order.

# %%
boxes, (a, b) = ROWS[37], (FIRST[18], SECOND[18])
print("box   " + " ".join(map(str, range(BOXES))))
print("coin  " + " ".join(map(str, boxes)))
print(f"Question: what is in box {a}, and what is in box {b}? Answer: {boxes[a]} and {boxes[b]}.")

# %% [markdown]
# For attention this is a dictionary: keys are made of addresses, values of coins, the query of the question. A single
# head brings back *one* mixture, with weights $p_a$ and $p_b$ on the two boxes asked for (weight elsewhere only
# disturbs). What arrives is, in essence, one number, the share of 1s: $p_a a + p_b b$. From it, both coins are to be
# read by a linear layer, which can do no more than say "1" on one side of a cut and "0" on the other.
#
# **Predict.** Which weights would you choose? With $p_a = 0.7, p_b = 0.3$ the four cases 00, 01, 10, 11 arrive as 0,
# 0.3, 0.7, 1: four different numbers, so nothing is lost. How many of the eight answers can be right?

# %%
for p in (1.0, 0.7, 0.5, 0.3):
    places = CASES @ [p, 1 - p]
    order = ", ".join(f"{a}{b} at {place:.1f}" for place, (a, b) in sorted(zip(places, CASES.tolist(), strict=True)))
    first, second = (evidence.best_cut(places, CASES[:, answer]) for answer in (0, 1))
    print(f"p_a = {p:.1f}: {order}; right at best: {first} of 4 first coins, {second} of 4 second coins")

# %% [markdown]
# Seven of eight at best, never all. With $p_a > p_b$ the order along the line is 00, 01, 10, 11: the first coin reads 0
# 0 1 1, and one cut is enough; the second reads 0 1 0 1, and no single cut will do. With $p_a < p_b$ it is the other
# way round. **A single head has to choose whom it serves.** Two heads need no such choice: one brings $a$, the other
# $b$.
#
# Let us train both kinds, with the same width 16 and the same number of weights: 1 × 16 columns, or 2 × 8.

# %%
seeds = range(8 if lesson.full else 3)
curves = {number: [trained(number, seed)[1] for seed in seeds] for number in (1, 2)}
lesson.show(figures.loss(curves, WIDTH, BOUND), "loss", "Training loss: one head gets stuck, two heads reach zero.")

# %% [markdown]
# One head stops at about $\tfrac12 \ln 2 = 0.35$ an answer: it answers one coin perfectly, and guesses the other. Where
# do the heads look? Each row below is one of the 30 questions.

# %%
maps = [*trained(1, 0)[0].weights(), *trained(2, 0)[0].weights()]
lesson.show(figures.weights(maps, FIRST, SECOND), "weights", "One head must choose; two heads share the work.")
figure = figures.segment(CASES, *evidence.on_the_segment(trained(1, 0)[0]))
lesson.show(
    figure, "segment", "One question, its four cases: one coin can be read off a straight line, the other cannot."
)

# %% [markdown]
# Nobody told the two heads to divide the work; "the first address" and "the second address" are what they found.
#
# ## The claim, with a bound
#
# **Claim.** Several heads let one layer follow several relations at once.
#
# To put this on trial we need more than "one head did not learn it in 200 steps". The argument with the cut gives it.
# Take a head that looks more at the second box, as the one in the picture does: $p_a \le p_b$. Along its line the four
# cases come in this order, and this is what the answer about the *first* coin should be:
#
# | case | 00 | 10 | 01 | 11 |
# |---|---|---|---|---|
# | wanted | 0 | 1 | 0 | 1 |
#
# A linear score only rises or only falls along the line. If it rises, look at 10 and 01: the first wants "1" and has
# the lower score. If it falls, look at 00 and 11: the second wants "1" and has the lower score. Either way two answers
# stand the wrong way round, and the best that can be done for them is one equal score in the middle. Both then cost
# what guessing costs, $\ln 2$. (In formulas: an answer with score $x$ on its right side costs $\ln(1 + e^{-x})$, and
# $\ln(1 + e^{-x}) + \ln(1 + e^{x}) \ge 2 \ln 2$ for every $x$.) For a head that looks more at the first box, exchange
# the coins.
#
# So the eight answers of the four cases cost at least $2 \ln 2$ together, **$\tfrac14 \ln 2 \approx 0.173$ an answer,
# and never are all eight right**. Nothing was assumed about width, weights or training.
#
# **What would refute it:** one head that does better in a single group of four cases, or two heads that do not get
# below the bound.
#
# **Experiment.** Train both from several seeds. Then ask every question about every possible row of boxes, so that the
# loss is exact and no sample is involved. And build a single head by hand that comes close to the bound.


# %%
@lesson.trial(
    "heads-more",
    "Several heads let one layer follow several relations at once.",
    controls=[faults.heads_tied, faults.head_in_two_halves, faults.question_ignored],
)
def heads_more(trial):
    losses, answers = {1: [], 2: []}, 2 * len(ROWS) * len(FIRST)
    for seed in seeds:
        mean, group_losses, group_right = evidence.examine(trained(1, seed)[0])
        losses[1].append(mean)
        text = f"one head, seed {seed}: {group_right.max()} right at most in {group_right.size} groups of eight answers"
        trial.check(group_right.max() <= 7, f"{text} (7 allowed); {group_right.sum():,} of {answers:,} right")
        # eight logarithms in double precision, each rounded to about 1e-16 of its size
        enough = group_losses.min() >= 8 * BOUND - 1e-12
        text = f"one head, seed {seed}: smallest loss of a group {group_losses.min():.4f}"
        trial.check(enough, f"{text} (2 ln 2 = {8 * BOUND:.4f} or more); mean loss {mean:.4f}")
        mean, _, group_right = evidence.examine(trained(2, seed)[0])
        losses[2].append(mean)
        text = f"two heads, seed {seed}: mean loss {mean:.1e} (below {BOUND:.4f})"
        trial.check(mean < BOUND, f"{text}; {group_right.sum():,} of {answers:,} right")

    close = evidence.best_single_head(1e-7) / BOUND - 1
    text = f"a single head built by hand is {close:.1e} above the bound (0 to 1e-3): it is sharp"
    trial.check(0 <= close < 1e-3, text)
    one, two = min(losses[1]), max(losses[2])
    text = f"{len(seeds)} seeds: one head at best {one:.3f}, the bound {BOUND:.3f}, two heads at worst {two:.1e}"
    return "proved" if two < BOUND <= one else "refuted", text


# %% [markdown]
# Proved. Two heads answer every question; one head of the same width, with as many weights, stays above a bound that
# holds for every single head there is.
#
# ## The condition
#
# The argument needs a *linear* read-out. A mixture of two coins in unequal parts does contain both (0, 0.3, 0.7, 1 are
# four different numbers), and a non-linear layer can take it apart. **Predict:** what happens if a ReLU layer stands
# between the single head and the read-out, as the feed-forward part does in a transformer?

# %%
loss, _, right = evidence.examine(trained(1, 0, 32)[0])
print(f"one head and a ReLU layer: loss {loss:.1e}, {right.sum():,} of {2 * len(ROWS) * len(FIRST):,} answers right")

# %% [markdown]
# It gets below the bound. So the honest form of the claim is: what several heads buy is that nothing has to be taken
# apart afterwards.
#
# ## A whole layer
#
# Now all parts are there, and we can put a *layer* of a transformer together (it is also called a block). It takes a
# row of vectors and returns a row of the same shape, in two steps. In the first, words look at one another: attention.
# In the second, the **feed-forward part** works on each word by itself. It goes up to a larger width $F$, sets what is
# negative to zero (ReLU), and comes down again:
#
# $$\mathrm{feed\text{-}forward}(x) = W_2 \max(0,\; W_1 x + b_1) + b_2 .$$
#
# Two things are done around each step. Its result is *added* to what went in; this is the **residual connection**. And
# a **layer norm** brings each vector to mean 0 and variance 1, then applies a scale and a shift that are learnt. That
# is all, and it fits into two lines:


# %%
def whole_layer(x, layer):
    """x (B, T, C) → (B, T, C)"""
    x = layer.norm1(x + layer.self_attn(x))  # every word looks at every other
    return layer.norm2(x + layer.linear2(F.relu(layer.linear1(x))))  # every word by itself


(layer,), x = evidence.layers(1), evidence.ten_words()
y = whole_layer(x, layer)
print(f"ten words of width 32 go in and {y.shape} comes out; from the engine's own layer it differs by", end=" ")
print(f"{np.abs(y.numpy() - layer(x).numpy()).max():.0e}")
lesson.show(
    figures.layer_tape(y, {"x": x}), "layer", "A layer, drawn by the engine. The long lines lead around each step."
)

# %% [markdown]
# In the picture, blue boxes are operations and orange ones are weights. Follow the line that leads from `x` around
# attention into the first `Add`, and the one around the feed-forward part into the second. A transformer is a stack of
# such layers, between an embedding (words to vectors) and an output head (vectors to scores of words).
#
# Why are the sums there? Take them out of a stack of 1, 6 and 24 untrained layers, and ask two things: how large is the
# slope that arrives at the words when one of size 1 starts at the output, and how different are the ten words after the
# last layer? **Predict** both for 24 layers without sums.

# %%
rows = [(depth, *evidence.with_and_without_sums(depth)) for depth in (1, 6, 24)]
heads = "layers", "slope at the words", "without sums", "difference of the words", "without sums"
print(table(heads, rows, right=range(5)))

# %% [markdown]
# Without the sums, attention mixes the words until all ten are *the same*: nobody could say any more which was which.
# And hardly anything is left of the slope that should teach the first layer. With the sums a word keeps what it was and
# only gains something, and slopes have a way down on which nothing weakens them.
#
# ## Questions to think about
#
# 1. Three boxes are asked for, and the layer has two heads. What is the best it can do with a linear read-out?
# 2. Two heads of width 8 did it. Would two heads of width 1? What must fit into the keys, and what into the values?
# 3. In trained language models many heads can be removed with little harm. How does that fit with this lesson?
# 4. `--break head-in-two-halves` gives a single head two softmaxes. Why does a check have to fail then?
#
# ## Further reading
#
# - Ashish Vaswani and others, *Attention Is All You Need*, 2017: section 3.2.2, and table 3 with other numbers of
#   heads.
# - Paul Michel, Omer Levy and Graham Neubig, *Are Sixteen Heads Really Better than One?*, 2019: taking heads out of
#   trained models.
# - Srinadh Bhojanapalli and others, *Low-Rank Bottleneck in Multi-head Attention Models*, 2020: what a head loses when
#   it gets too narrow.
#
# ## Exercises
#
# `minitransformer exercise split-heads` (cut and join, by hand), `minitransformer exercise attention-by-hand`, and
# `minitransformer exercise encoder-layer`: the layer above in plain NumPy, with the norm after the sum or before.

# %% tags=["plumbing"]
lesson.finish()
