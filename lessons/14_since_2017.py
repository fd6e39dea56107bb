# %% [markdown]
# # 14. Since 2017
#
# Open the code of a language model of today and compare it with the paper that started it all. The plan is the same:
# words become vectors, attention mixes them, a feed-forward layer works on each, and so on a few dozen times. But four
# parts were exchanged. Positions are no longer added. The norm has lost its mean, and has moved. The feed-forward layer
# has a gate. Several heads share their keys. Why just these? Six claims.
#
# **At the end you can say**
# - how a rotation tells attention the distance of two words, and why adding a code does not;
# - why weights from elsewhere sometimes have to be sorted before they work;
# - what RMSNorm leaves out, and what it keeps;
# - where the strange factor 2/3 in today's configurations comes from;
# - what is saved by sharing keys, and what is not;
# - what the place of the norm does to gradients, and what it does not.
#
# **Time:** 30 minutes to read, ten seconds to run (at the very first run up to two minutes). **Before you start:**
# lesson 4 (the matrix that shifts positions), lessons 6 and 7 (heads, and counting parameters). Run it with `python
# lessons/14_since_2017.py`; `--break rotary-added` runs it on a *control*, an engine that was broken on purpose: there
# a check has to fail.

# %% tags=["plumbing"]
import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons import faults
from lessons.evidence import since_2017 as evidence
from lessons.figures import since_2017 as figures
from lessons.harness.trial import Lesson
from lessons.measuring import of_rounding
from minitransformer import positional_encoding

lesson = Lesson(__file__)
rng = np.random.default_rng(14)

# %% [markdown]
# ## Turning instead of adding
# Lesson 4 found one matrix $M_k$ for every shift $k$: it turns each pair of columns by an angle that grows with $k$,
# and moves every code of a position $k$ places on. In 2017 the *codes* were added to the words. The newer way,
# *rotary positions* or *RoPE* (Su and others, 2021), forgets the codes and keeps the *matrix*: a query at place $t$ and
# a key at place $s$ are turned themselves, each by its own place.
#
# By hand, with two columns and an angle of one radian a place: the vector $(1, 0)$ at place 2 becomes $(\cos 2, \sin 2)
# = (-0.42, 0.91)$. Its length is still 1.

# %%
print(evidence.turned(np.array([[1.0, 0.0]]), np.array([2])).round(2))

# %% [markdown]
# Now take one query and one key, and let them stand at all places of a text in turn. Their score is a product of two
# turned vectors. If both move three places on, both are turned by the same further angle. What happens to the product?
# Look at the picture before you read on.

# %%
q, k = rng.standard_normal((2, 16))
scores = evidence.score_table(q, k, 40)
codes = positional_encoding(40, 16)
caption = "Left: along each diagonal the colour is one. Right: the same query and key with codes added; it is not."
lesson.show(figures.score_tables(scores, (q + codes) @ (k + codes).T), "scores", caption)

# %% [markdown]
# Angles between vectors do not care how far both are turned. So the score knows how far apart query and key are, and
# nothing else. With added codes there are four products, word with word, word with code, code with word and code with
# code, and only the last one is a matter of distance.
#
# ## First trial: nothing but the distance
# **Claim.** With rotary positions a score depends on $t - s$ only.
#
# **What would refute it.** A score that moves by more than rounding when a whole text begins later; or turning that is
# not the $M_k$ of lesson 4. (It is $M_p$ transposed: our pairs are (left, right), theirs were (sine, cosine).) A score
# that is the same at all distances would satisfy the words and mean nothing.
#
# **Experiment.** One query and key at all pairs of 200 places. Then a model of three layers: whatever each layer is
# given, its scores are computed as if the text began at word 0 and at word 1,000. The same with a model whose codes are
# added. (The next cell is this experiment as code; you may skip it.)


# %%
@lesson.trial(
    "rotary-relative",
    "With rotary positions the score of a query at t and a key at s depends on t - s only.",
    controls=[faults.rotary_off, faults.rotary_added, faults.rotary_squared],
)
def rotary_relative(trial):
    apart = evidence.apart_from_the_matrix(1000)
    trial.check(apart < 1e-12, f"turned by the engine and by the matrix of lesson 4, vectors differ by {apart:.0e}")
    spread, bound, by_distance = evidence.scores_by_distance(q, k, 200)
    trial.check(spread <= bound, f"at equal distance scores differ by {spread:.0e}, rounding allows {bound:.0e}")
    trial.check(by_distance > 1, f"over 200 distances they range over {by_distance:.1f} (more than 1 expected)")
    turned, added = (evidence.moved_scores(kind, 1000) for kind in ("rotary", "sinusoidal"))
    worst, least = max(move for move, _ in turned), min(share for _, share in added)
    trial.check(worst <= 1, f"a text that begins 1,000 words later moves scores by {of_rounding(worst)}, all layers")
    trial.check(least > 0.01, f"with added codes by {least:.0%} of the largest score, and more (over 1 % expected)")
    seen = f"1,000 words later, the scores of 3 layers move by {of_rounding(worst)}"
    return "proved", f"{seen}; with added codes by at least {least:.0%} of the largest score"


# %% [markdown]
# Proved. A model may still learn to prefer certain places (a causal mask shows where a text begins, as lesson 4 found).
# But the scores alone cannot.
#
# ## Two ways to pair columns
# Which columns make a pair? Lesson 4 takes neighbours, 0 with 1, 2 with 3. Much code found on the web takes column $i$
# and column $i + D/2$: the first half is paired with the second. For a head of 8:

# %%
print("neighbours pair:", [(2 * i, 2 * i + 1) for i in range(4)], " halves pair:", [(i, i + 4) for i in range(4)])
print("halves, sorted so that partners are neighbours:", evidence.halves_beside_each_other(8))

# %% [markdown]
# Does it matter? Not to a model that learns: a column has no meaning before training. But weights that were *trained*
# with one layout know which column turns how fast. Load them into the other, and every query is turned at the wrong
# speed. No shape is wrong, no error is raised. The text is merely strange.
#
# **Claim.** The two layouts are one permutation of columns apart, so weights can be converted.
#
# **What would refute it.** Scores that differ after the rows of the query and key matrices were sorted. And if
# *unsorted* weights gave the same scores too, the check could not see anything.


# %%
@lesson.trial(
    "rotary-layout",
    "The two layouts of rotary positions are one permutation of the columns apart, so weights convert.",
    controls=[faults.layout_ignored, faults.rows_left_alone, faults.rows_of_one_head],
)
def rotary_layout(trial):
    apart = evidence.sorted_before_or_after(16)
    trial.check(apart < 4e-15, f"sorting columns before or after turning: {apart:.0e} apart")
    theirs, ours, mixed, bound = evidence.scores_by_layout()
    worst, wrong = (np.abs(ours - theirs) / bound).max(), (np.abs(mixed - theirs) > 1e-3).mean()
    trial.check(worst <= 1, f"converted weights: {theirs.size} scores of 3 heads differ by {of_rounding(worst)}")
    trial.check(wrong > 0.8, f"weights that were not converted: {wrong:.0%} of the scores are wrong")
    return "proved", f"{theirs.size} scores agree after sorting the rows; without it {wrong:.0%} of them are wrong"


# %% [markdown]
# The tenth that is right are the scores of a word with itself: at distance 0, both are turned alike, whatever the
# layout. This is why such a mistake passes a quick look at a text of one word.
#
# ## A norm without the mean
# Layer norm takes the mean off, then divides by the standard deviation. RMSNorm (Zhang and Sennrich, 2019) does the
# second step only, with the root of the mean square: $y = x / \sqrt{\text{mean}(x^2)}$, times a weight. Three numbers,
# 3, 4 and 5: their mean is 4, their mean square 50/3, its root 4.08.

# %%
three, ones = Tensor(np.array([[3.0, 4.0, 5.0]])), Tensor(np.ones(3))
print("layer norm:", F.layer_norm(three, ones, Tensor(np.zeros(3)), 1e-12).numpy().round(2))
print("RMS norm:  ", F.rms_norm(three, ones, 1e-12).numpy().round(2))

# %% [markdown]
# Quite different. On which vectors would they agree? And what happens to both if the vector is multiplied by 8?
#
# **Claim.** RMSNorm is layer norm without the mean, and the rest remains.
#
# **What would refute it.** Vectors of mean 0 on which they differ; a vector with a mean on which they agree; an answer
# that changes when $x$ is scaled.


# %%
@lesson.trial(
    "rms-enough",
    "RMSNorm leaves out the mean only: where the mean is 0 it is layer norm, and scale still does not matter.",
    controls=[faults.rms_takes_the_mean_off, faults.rms_without_root, faults.rms_of_the_sum],
)
def rms_enough(trial):
    apart, rms_moved, layer_moved, equal, along = evidence.two_norms(rng)
    trial.check(apart < 1e-14, f"mean taken off by hand, both norms agree to {apart:.0e} of the largest value")
    trial.check(rms_moved > 0.1, f"a constant added to all columns changes RMS norm by {rms_moved:.0%} of it")
    trial.check(layer_moved < 1e-13, f"and layer norm by {layer_moved:.0e}")
    trial.check(equal == 1, f"8 x instead of x: {equal:.0%} of the results are the same to the last bit")
    trial.check(along < 1e-12, f"so no gradient points along x: {along:.0e} of its size does")
    return "proved", f"equal to {apart:.0e} where the mean is 0; blind to scale bit by bit; not blind to the mean"


# %% [markdown]
# (Scaling by 8 with `eps` scaled by 64 is exact in binary, so that not a single bit may change.) Whether a network
# *needs* the mean taken off is another question. Those who trained large ones found that it does not.
#
# ## A gate, and where 2/3 comes from
# A feed-forward layer has two matrices: up to width $F$, and down again (lesson 6). A gated one (Shazeer, 2020) has
# three. What goes up is multiplied, number by number ($\odot$), by a gate:
#
# $$W_2\,\bigl(\mathrm{silu}(W_1 x) \odot W_3 x\bigr), \qquad \mathrm{silu}(x) = x\,\sigma(x) = \frac{x}{1 + e^{-x}} .$$

# %%
line = np.linspace(-6, 6, 121)
values = [f(Tensor(line)).numpy() for f in (F.relu, F.silu)]
lesson.show(figures.gates(line, *values), "gates", "SiLU follows ReLU, but it is smooth, and a little below 0.")

# %% [markdown]
# Three matrices cost more than two. A fair comparison makes the layer narrower. How narrow? Two matrices of $C \times
# F$ against three of $C \times F'$: $2CF = 3CF'$, so $F' = \tfrac23 F$.
#
# **Claim.** A gated layer of width $\tfrac23 F$ has the parameters and the operations of a plain one of width $F$.
# **What would refute it:** one weight, or one operation of the products, more or less.


# %%
@lesson.trial(
    "gate-count",
    "A gated feed-forward layer of width 2/3 F has the parameters and operations of a plain one of width F.",
    controls=[faults.gate_is_up, faults.gate_with_bias],
)
def gate_count(trial):
    for width in (96, 192, 768):
        parameters, products, extra = evidence.plain_and_gated(width)
        trial.check(len(set(parameters)) == 1, f"F = {width}: {parameters[0]:,} and {parameters[1]:,} parameters")
        trial.check(
            len(set(products)) == 1, f"{products[0]:,} and {products[1]:,} operations in the products of 7 rows"
        )
        trial.check(extra == 2 * 7 * width * 2 // 3, f"the fused layer adds {extra:,} for activation and gate, no more")
    more = evidence.gated_biases(96)
    trial.check(more == 96 // 3, f"with biases the gated layer has {more} parameters more for F = 96, which is F/3")
    return (
        "sharpened",
        f"equal to the last weight without biases, for 3 widths; with biases F/3 more ({more} for F = 96)",
    )


# %% [markdown]
# Models round $\tfrac23 F$ to something their machines like. Llama 2 has $C = 4096$, and $\tfrac23 \cdot 4C = 10922.7$
# became 11,008, the next multiple of 256.
#
# ## Heads that share their keys
# A model that writes keeps the keys and values of all words so far (lesson 11). With long texts this cache outgrows
# everything else. So let the $H$ heads of queries share $G$ heads of keys and values, $H/G$ each (Ainslie and others,
# 2023). What becomes smaller: the cache, the arithmetic of attention, or both?
#
# **Claim.** The cache falls by $H/G$ exactly; the operations stay.
#
# **What would refute it.** A byte of the cache more, an operation of attention less; or a result that is not that of
# ordinary heads whose keys are copies.


# %%
@lesson.trial(
    "kv-heads",
    "With G key-value heads for H heads the cache falls by H/G exactly, while the operations of attention stay.",
    controls=[faults.cache_for_every_head, faults.keys_written_out, faults.groups_dealt_out],
)
def kv_heads(trial):
    heads, groups = 8, (8, 4, 2, 1)
    found = [evidence.cache_and_attention(g) for g in groups]
    kept, operations, read, apart = (list(column) for column in zip(*found, strict=True))
    # a mean of 20 values of size 1, exponentials accurate to a few units: far below 1e-13
    trial.check(max(apart) < 1e-13, f"the same results as with copied keys, to {max(apart):.0e}")
    expected = [kept[0] * g // heads for g in groups]
    trial.check(kept == expected, f"cache: {', '.join(f'{n:,}' for n in kept)} bytes for G = 8, 4, 2, 1")
    by_hand = 3 * 2 * 2 * 8 * 64 * 8 * 8  # layers, keys and values, rows, G, places, D, bytes a number
    trial.check(kept[0] == by_hand, f"for G = 8 the cache has {kept[0]:,} bytes, by hand {by_hand:,}")
    trial.check(len(set(operations)) == 1, f"operations of one attention: {operations[0]:,} for every G")
    reading = [8 * (2560 + 640 * g) for g in groups]  # queries; keys and values of G heads
    trial.check(read == reading, f"bytes that attention reads: {', '.join(f'{n:,}' for n in read)}")
    trial.show(figures.cache(heads, groups, kept, read), "cache", "Sharing saves memory and reading, not arithmetic.")
    return (
        "proved",
        f"{kept[0]:,} bytes fall to {kept[-1]:,} with G = 1, exactly 8 times less; {operations[0]:,} operations",
    )


# %% [markdown]
# Reading is the point. When a model writes one word at a time, every key is read for a handful of products, and the
# machine waits for memory (lesson 8). Fewer keys to read means less waiting, for the same arithmetic.
#
# ## Where the norm stands
# In 2017 the norm stood after the sum: $\text{norm}(x + f(x))$. Today it stands before the layer: $x +
# f(\text{norm}(x))$. The reason one reads: with the norm after, gradients *vanish* on their way down to the first
# layer, and deep models cannot start to learn. Let us look at untrained models of 1 to 32 layers, and at the gradient
# in their first and last feed-forward layers. What do you expect for 32 layers?
#
# **Claim.** With the norm after, the gradient of the first layer vanishes with depth; with the norm before it does not.
# **What would refute it:** a first layer whose gradient is no smaller in a deep model.


# %%
@lesson.trial(
    "norm-place",
    "With the norm after the sum, the first layer's gradient vanishes with depth; with the norm before, it does not.",
    controls=[faults.norm_always_after, faults.way_around_lost, faults.norm_off],
)
def norm_place(trial):
    depths, seeds = (1, 2, 4, 8, 16, 32), range(6 if lesson.full else 2)
    after, before = (evidence.gradients_by_depth(first, depths, seeds) for first in (False, True))
    trial.note(evidence.gradient_table(depths, after, before))
    (a_first, a_last), (b_first, b_last) = after[-1] / after[0], before[-1] / before[0]
    trial.check(a_first > 0.5, f"norm after, first layer: 32 layers leave {a_first:.2f} of it (over 0.5 expected)")
    trial.check(0.5 < b_first < 2, f"norm before, first layer: {b_first:.2f} (between 0.5 and 2 expected)")
    trial.check(0.5 < a_last < 2, f"norm after, last layer: {a_last:.2f} (between 0.5 and 2 expected)")
    trial.check(b_last < 0.5, f"norm before, last layer: {b_last:.2f} (below 0.5 expected)")
    caption = "Nothing vanishes at the first layer. With the norm before, it is the last layer that calms down."
    trial.show(figures.gradients(np.array(depths), after, before), "gradients", caption)
    first = f"32 layers leave the first one {a_first:.2f} (norm after) and {b_first:.2f} (before) of its gradient"
    return "refuted", f"before training, {first}; what falls is the last layer's with the norm before, to {b_last:.2f}"


# %% [markdown]
# The run contradicts the story, at least for these models at the start. Nothing vanishes on the way down: the sum lets
# gradients pass, wherever the norm stands. The difference is at the *top*. With the norm after, the last layer gets a
# gradient of full size however deep the model is; with the norm before, the vector grows with every layer that adds to
# it, the last norm divides by its length, and the gradient falls with the depth. That is what Xiong and others (2020)
# computed; they see in it the reason why the model of 2017 needs a warm-up of its learning rate.
#
# **Fine print.** The bound for scores is derived in `lessons/evidence/since_2017.py`. Gradients are those of `linear1`,
# width 64, geometric mean over two seeds (six with `--full`). We also tried width 32, and weights two and four times as
# large. With the norm before, the last layer calmed down every time. With the norm after, the first layer kept between
# 0.3 and 1.4 of its gradient, in no order: smaller at times, never vanishing. What happens *during* training, this
# trial does not say.
#
# ## Questions to think about
# 1. A causal mask and rotary positions: can the last word still find out how long the text is?
# 2. Why are values not turned? What would attention return if they were?
# 3. RMSNorm keeps the mean. Which layer before it could remove the mean, if a network wanted that?
# 4. With $G = 1$ all heads read the same keys. What is left that makes the heads different?
#
# ## Further reading
# - Su and others, *RoFormer*, 2021: rotary positions, with the proof we replaced by a run.
# - Zhang and Sennrich, *Root mean square layer normalization*, 2019: short, with the question whether the mean matters.
# - Shazeer, *GLU variants improve transformer*, 2020: three pages; read the last sentence.
# - Ainslie and others, *GQA*, 2023: how a trained model is converted to fewer key-value heads.
# - Xiong and others, *On layer normalization in the transformer architecture*, 2020: the gradients of our last trial.
#
# ## Exercises
# `minitransformer exercise rotary` and `relative-score`: turn vectors yourself, and let a judge look at the scores.

# %%
lesson.finish()
