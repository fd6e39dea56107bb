# %% [markdown]
# # 4. Where a word stands
#
# "The dog bites the man" and "the man bites the dog" hold the same words, and one of them makes the newspaper.
# Attention compares each word with every other and takes an average; an average does not know in which order its
# terms came. So somebody has to tell the network where each word stands. The usual way is a table of waves, added
# to each word's vector (its *embedding*). Is it really needed? Why added, and why waves? Four claims, and two of
# them turn out to be only half true.
#
# **At the end you can say**
# - which transformers cannot see order at all, and which find it out by themselves;
# - how the code of a position is made, and compute one by hand;
# - why one matrix can move every position three steps on;
# - what sines and cosines in pairs are good for (and that their order is not).
#
# **Time:** 30 minutes to read, ten seconds to run (at the very first run a minute more). **Before you start:**
# lessons 2 and 3; sines, cosines and rotations. Run it with `python lessons/04_positional_encoding.py`; `--break
# sine-only` runs it on a *control*, an engine that was broken on purpose: there a check has to fail.

# %% tags=["plumbing"]
import math

import numpy as np

import autograd.functional as F
from lessons import faults
from lessons.evidence import positional_encoding as evidence
from lessons.figures import positional_encoding as figures
from lessons.harness.trial import Lesson
from minitransformer import Classifier, LanguageModel, positions
from minitransformer.optim import Adam

lesson = Lesson(__file__)

# %% [markdown]
# ## The same words in another order
# Here are our two sentences, and a small model with full attention, once without and once with codes for
# positions. Does it compute the same for the word *bites* in both?

# %%
sentences = np.array([[0, 1, 2, 0, 3], [0, 3, 2, 0, 1]])  # the dog bites the man; the man bites the dog
model = evidence.full_attention(depth=2, words=4, length=5)
one, other = evidence.word_scores(model, sentences)
print(f"with positions, the two results for 'bites' differ by {np.abs(one[2] - other[2]).max():.0e}")
one, other = evidence.word_scores(evidence.without_encoding(model), sentences)
print(f"without positions, they differ by {np.abs(one[2] - other[2]).max():.0e}")

# %% [markdown]
# Without positions the difference is rounding, or nothing at all. For this model there is no difference between
# the dog's news and the man's. The reason is simple: *bites* finds the same company as before, in another order,
# and sums do not care about order.
#
# ## The table of waves
# The code of position $p$ is made of pairs $\sin(\omega_i p), \cos(\omega_i p)$ with frequencies that fall from 1 to
# nearly 1/10000: $\omega_i = 10000^{-2i/C}$ for a width of $C$. With a width of 4 there are two frequencies, 1 and
# 1/100. So position 2 has the code $(\sin 2, \cos 2, \sin 0.02, \cos 0.02)$. With a pocket calculator: $(0.91, -0.42,
# 0.02, 1.00)$. In code, `stack` and `reshape` put each cosine behind its sine. The result is printed as in the picture
# below, one column for each position: four that we make here, and beside them the same four from the engine.

# %%
p, i = np.arange(4)[:, None], np.arange(2)
angles = p / 10000 ** (2 * i / 4)  # a row for each position, a column for each frequency
table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(4, 4)
print(np.hstack([table.T, positions.positional_encoding(4, 4).T]).round(2))
caption = "Every position has its own column of colours. Fast waves tell neighbours apart, slow ones tell the region."
lesson.show(figures.waves(positions.positional_encoding(100, 64)), "waves", caption)

# %% [markdown]
# It is like writing numbers: the last digit changes at every step, the digit before it more slowly. Here the "digits"
# are hands of clocks that turn at different speeds. From entry 40 on the table hardly changes over these 100 positions.
# It is not useless: those hands turn once in 2,000 to 47,000 words, like the leading digits of a long number.
#
# ## First trial: blind without it?
# **Claim.** Without positional encoding a transformer cannot see the order of its words.
#
# With full attention we have just seen it. But a language model has the *causal* mask of lesson 3: word $t$ sees
# only the words up to $t$. So each word has seen different company, depending on where it stands. Could that be
# enough to find out the order? In the first layer the last word sees all the others, as an unordered bag. In the
# second layer it looks at words that know what came before *them*. What do you expect of one layer, and of two?
#
# To find out we need a task that cannot be solved without order. Among filler words stand one *a* and one *b*:
# which came first? Every test sentence has a twin with *a* and *b* exchanged. Here are two pairs of twins, with
# `|` at both ends. With full attention the answer is read at the first `|`, with a causal mask at the last.

# %%
print(evidence.some_twins())

# %% [markdown]
# Whoever is blind to order gives both twins the same answer, and is right in exactly half of the cases. Now train a
# model on the task: with a causal mask, two layers, and zeros in place of the waves. It is the loop of lesson 1 with
# arrays: a loss, its slopes, and a step downhill (*Adam* chooses how far; `cross_entropy` is large where the right
# answer gets a low score). How many of the 672 test sentences will it get right? Guessing gives 336.


# %%
def train(model):
    rng, optimizer = np.random.default_rng(0), Adam(model.parameters(), lr=5e-3)
    for _ in range(600 if lesson.full else 200):
        ids, a_first = evidence.random_sentences(64, rng)
        loss = F.cross_entropy(evidence.answers(model, ids), a_first)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return evidence.examine(model)  # right answers, and how many questions there were


two = Classifier(vocab_size=7, d_model=16, n_heads=2, n_layers=2, d_ff=32, max_len=9, seed=2, dtype="float64")
print("without any encoding: {} of {} right".format(*train(evidence.without_encoding(two))))

# %% [markdown]
# It sees the order, and nobody told it. Our suspicion: with a mask, one layer is blind, and two can see.
#
# **What would refute the claim** is a model without any encoding that solves this task: here is one. **What would
# refute our suspicion** is a model without mask and encoding, or with a mask and a single layer, that reacts to order
# by more than rounding.
#
# **Experiment.** Shuffle the words, and see whether results move. Then train four models with the loop above: with full
# attention, without and with the waves; and with a causal mask and no waves, of one layer and of two. (The next cell is
# this experiment as code; you may skip it.)


# %%
@lesson.trial(
    "pe-needed",
    "Without positional encoding a transformer cannot see the order of its words.",
    controls=[faults.early_keys_preferred, faults.encoding_stays, faults.encoding_off, faults.mask_off],
)
def pe_needed(trial):
    for check in evidence.shuffling(lesson.full):
        trial.check(*check)
    trained = evidence.train_four(train)
    for name, (sees, right, asked) in trained.items():
        text = f"trained, {name}: {right} of {asked} right ({'over 95 %' if sees else 'exactly half'} expected)"
        trial.check(right > 0.95 * asked if sees else 2 * right == asked, text)
    caption = "Waves, or a causal mask with two layers, make order visible. The other two guess."
    trial.show(figures.order({name: counts for name, (_, *counts) in trained.items()}), "order", caption)
    blind, right = (trained[f"{name}, no encoding, 2 layers"][1] for name in ("full attention", "causal"))
    return "sharpened", (
        f"true of full attention ({blind} of {asked} right, which is guessing); a causal mask lets order in from the "
        f"second layer on: {right} of {asked} right without any encoding"
    )


# %% [markdown]
# So the claim needs a condition: *with full attention* (BERT, or a translator's encoder) the model is blind, and no
# training helps. A causal model of two layers or more finds out the order by itself. Being told may still be easier.
#
# ## Second trial: added, or appended?
# **Claim.** The encoding has the embedding's width and is added (not appended).
#
# One often reads that the code is "attached" to the word. Let us look at what enters the first layer, for words of
# width 24. If codes were appended, what would the last of the three numbers be?

# %%
V, C, T, L = 11, 24, 9, 2
ids = np.random.default_rng(6).integers(V, size=(3, T))
model = LanguageModel(V, C, 2, L, 32, max_len=T, dtype="float64")
print("three texts of nine words enter the first layer as", model.base.embedding(ids).shape)

# %% [markdown]
# Is nothing lost by adding? Less than it seems. A matrix applied to a sum is the same matrix applied to both parts:
# $W(x + p) = [\,W\;\;W\,]\begin{bmatrix}x \\ p\end{bmatrix}$. Appending would allow two *different* matrices, for twice
# the width. Words and waves live in a space of hundreds of dimensions, where there is room for both.
#
# **What would refute the claim.** An input that is wider than the word vectors or that is not the sum, to the last
# bit; a number of parameters that depends on the number of positions.


# %%
@lesson.trial(
    "pe-added",
    "The encoding has the embedding's width and is added (not appended).",
    controls=[faults.encoding_appended, faults.encoding_multiplied, faults.positions_learned],
)
def pe_added(trial):
    model, longer = (LanguageModel(V, C, 2, L, 32, max_len=n, dtype="float64") for n in (T, 50 * T))
    vectors = model.base.embedding(ids).numpy()
    trial.check(vectors.shape == (3, T, C), f"{T} words of width {C} enter the first layer as {vectors.shape[1:]}")
    counts, formula = (model.num_parameters(), longer.num_parameters()), evidence.parameters_by_formula(V, C, L, 32)
    text = f"{counts[0]:,} parameters with {T} positions, {counts[1]:,} with {50 * T}; words, layers, head: {formula:,}"
    trial.check(counts == (formula, formula), text)
    expected = model.base.embedding.weight.numpy()[ids] * math.sqrt(C) + positions.positional_encoding(T, C)
    differ = int((vectors != expected).sum())
    trial.check(differ == 0, f"{differ} of {vectors.size} input numbers differ from word + wave (0 expected)")
    trial.check(*evidence.sum_or_beside(C))
    trial.note(evidence.sizes_of_words_and_waves(model))
    return "proved", (
        f"all {vectors.size} inputs are word + wave to the last bit, the width stays {C}, the encoding has 0 "
        f"parameters; appended, the first projections alone would need {3 * C * C:,} more"
    )


# %% [markdown]
# Added, then. (The word vectors begin small, and are multiplied by $\sqrt C$ first, so that the waves do not drown
# them: the note above has the numbers.) Mind what was proved: this is what *our program* does, and that nothing
# needs to be lost by it. Whether adding is the *best* choice, the trial does not say; lesson 14 meets a rival that
# neither adds nor appends.
#
# ## The matrix that shifts by three
# Why waves, and not simply the numbers 0, 1, 2, ...? A pair of sine and cosine is the hand of a clock, and three
# positions further the hand is turned by an angle of $3\omega$, *from wherever it stands*. Turning is a matrix:
#
# $$\begin{bmatrix}\sin \omega(p+k) \\ \cos \omega(p+k)\end{bmatrix} = \begin{bmatrix}\cos \omega k & \sin \omega k \\
# -\sin \omega k & \cos \omega k\end{bmatrix} \begin{bmatrix}\sin \omega p \\ \cos \omega p\end{bmatrix}.$$
#
# These are the addition theorems from school. One such block for each frequency makes the matrix $M_k$. Let it
# move position 5 and position 40. Where should they arrive?

# %%
table, M = positions.positional_encoding(60, 6), evidence.rotation(3, 6)
for p in (5, 40):
    print(f"M_3 PE({p}) = {(M @ table[p]).round(3)}, PE({p + 3}) = {table[p + 3].round(3)}")
hands = {w: (5 * w, 8 * w) for w in evidence.frequencies(6)[:2].round(3)}
caption = "The matrix has a block for each frequency; each turns its own hand, here from position 5 to position 8."
lesson.show(figures.shift_matrix(M, 3, 5, hands), "matrix", caption)

# %% [markdown]
# So a query can ask for "three words back" with one and the same matrix everywhere in the text. Let the query at $p$ be
# $M_{-3}\,PE(p)$ and the key at $q$ be $PE(q)$. At which $q$ is their score the largest, for $p = 20$ and for $p = 60$?

# %%
codes, back = positions.positional_encoding(80, 64), evidence.rotation(-3, 64)
scores = {p: codes @ (back @ codes[p]) for p in (20, 60)}
print(*(f"from p = {p} the best key is at {int(score.argmax())}" for p, score in scores.items()), sep="\n")
caption = "One matrix for all positions: each query looks three words back."
lesson.show(figures.three_back(scores, 3), "three_back", caption)

# %% [markdown]
# And since rotations keep angles, the similarity of two codes depends on nothing but their distance: $PE(p) \cdot
# PE(q) = \sum_i \cos \omega_i (p-q)$.

# %%
caption = "Seen from position 64 or from 128, the picture is the same: codes are compared by their distance."
lesson.show(figures.products(positions.positional_encoding(256, 64)), "products", caption)

# %% [markdown]
# Is that a special gift of these waves? Take other tables and look for a matrix that shifts them; the best there
# is comes from least squares. *Sines only* has as many frequencies and no cosines. *Unpaired* is a mistake from
# real code: sine and cosine of a pair have different frequencies. Will the best matrix do?

# %%
panels = {}
for name, other in {"the waves": positions.positional_encoding(2048, 8), **evidence.other_tables()}.items():
    best, error = evidence.best_matrix(other, 3)
    panels[name] = other[3:100, 2], (other[:97] @ best.T)[:, 2], error  # entry 2: a sine of frequency 0.1, or random
caption = "The best matrix that shifts by three: perfect for the waves, off for sines alone, hopeless for random codes."
lesson.show(figures.shifts(3, panels), "shifts", caption)

# %% [markdown]
# Each dot is what the best matrix makes of position $p$; it should lie on the line. For the waves it does, up to
# rounding. (The error above each panel is the root mean square over all entries and 2,045 positions.) A sine alone
# does not say whether it is rising or falling, so three steps later it may be here or there; its cosine tells. Of
# random codes nothing can be foretold.
#
# ## Third trial: one matrix for each shift
# **Claim.** For every $k$ there is one matrix $M_k$ with $PE(p + k) = M_k\,PE(p)$ for all $p$.
#
# **What would refute it.** An error above what rounding explains, at any position and any shift. And to be sure
# that a small error means something: a table without this structure that some matrix shifts just as well.


# %%
@lesson.trial(
    "pe-linear",
    "For every k there is one matrix M_k with PE(pos + k) = M_k PE(pos) for all pos.",
    controls=[faults.sine_only, faults.random_table, faults.waves_unpaired],
)
def pe_linear(trial):
    n, C = (1024, 200) if lesson.full else (256, 64)
    for check in evidence.fitted_matrices() + evidence.shifted_by_rotation(n, C) + evidence.laws_of_rotations(n, C):
        trial.check(*check)
    least = evidence.left_by_others()
    text = ", ".join(f"{name} {rms:.2f}" for name, rms in least.items())
    trial.check(min(least.values()) > 0.1, f"no matrix shifts the others: error at best {text}, at the shifts above")
    return "proved", (
        f"M_k PE(p) = PE(p+k) for all {n * n:,} pairs, up to rounding; least squares finds the same M_k by itself; "
        f"without cosines the best matrix is off by {least['sines only']:.2f}"
    )


# %% [markdown]
# One matrix for each shift, whatever the position: found by calculation and, without being told, by least squares.
#
# **Fine print.** What rounding explains is derived in `lessons/evidence/positional_encoding.py`. Least squares was
# given 2,048 positions of width 8. With fewer of them the slowest waves are nearly straight lines, and many
# matrices do equally well.
#
# ## Fourth trial: different, and how different
# **Claim.** Different positions get distinguishable codes, and alternating sine and cosine makes them more contrasted.
#
# **What would refute it.** Two positions with the same code; or a table without alternation that is just as contrasted.
#
# **Experiment.** Distances of all pairs of positions. Then put *all sines first, then all cosines*: no
# alternation, but the same numbers in other columns. Will the distances be smaller? Then sines only: near its top
# a sine hardly moves, so how well can neighbours be told apart?


# %%
@lesson.trial(
    "pe-distinct",
    "Different positions get distinguishable codes, and alternating sine and cosine makes them more contrasted.",
    controls=[faults.positions_repeat, faults.sine_only, faults.random_table],
)
def pe_distinct(trial):
    n, C = (2000, 512) if lesson.full else (512, 200)
    nearest, pairs, noise = evidence.closest_pair(n, C)
    trial.check(nearest > 1e3 * noise, f"closest of {pairs:,} pairs: {nearest:.3f} apart (rounding: {noise:.0e})")
    steps, sines = (evidence.steps_of(t) for t in (positions.positional_encoding(n, C), evidence.sine_table(n, C)))
    clock = positions.positional_encoding(23, 2)  # the fastest pair alone: one hand of a clock
    for check in evidence.neighbours(steps, sines, clock, n, C):
        trial.check(*check)
    equal, of = evidence.distances_without_alternation()
    trial.check(equal == of, f"halves instead of alternation: {equal} of {of} distances equal to the last bit")
    gaps = {"sine and cosine": steps[:160], "sines only": sines[:160]}
    caption = "Only pairs of sine and cosine keep all neighbours equally far apart."
    trial.show(figures.neighbours(gaps, clock, width=C), "neighbours", caption)
    return "sharpened", (
        f"closest of {pairs:,} pairs {nearest:.3f} apart; alternation changes none of {equal} distances; what matters "
        f"is that a sine has its cosine: without, neighbours lie {sines.min():.2f} to {sines.max():.2f} apart"
    )


# %% [markdown]
# Codes differ, and by a margin. But alternation has nothing to do with it: it is a way of numbering the columns.
# What matters is that each sine has *its* cosine. Then every neighbour is exactly as far away as every other.
#
# ## Questions to think about
# 1. Why not add the position itself, 0, 1, 2, ... 500, in one entry of the vector? What would it do to the word?
# 2. Codes go on for ever, but a model was trained on texts of 512 words. What may go wrong at position 600?
# 3. In $PE(p) \cdot PE(q)$ the sign of $p - q$ does not matter. How can a model still tell "before" from "after"?
# 4. A causal model can count by itself. How might its second layer find out that it stands at position 7?
#
# ## Further reading
# - A. Vaswani and others, *Attention Is All You Need* (2017), section 3.5: the waves, and the remark on linear shifts.
# - A. Haviv and others, *Transformer Language Models without Positional Encodings Still Learn Positional
#   Information* (2022): our first trial with large models.
# - J. Su and others, *RoFormer: Enhanced Transformer with Rotary Position Embedding* (2021): turns queries and
#   keys themselves.
#
# ## Exercises
# `minitransformer exercise position-table`, `shift-matrix` and `relative-score` belong to this lesson; then try
# `bug-position`.

# %%
lesson.finish()
