# %% [markdown]
# # 2. Attention, from its definition
#
# "The dog lost its red ball." Whose ball? You looked back at *dog* to understand *its*, and ahead to *ball* to know
# what is *red*. A transformer does the same, with one formula. Nothing else in it carries anything from one word to
# another, so whoever has understood this formula has understood the heart of the machine.
#
# **At the end you can say**
# - what queries, keys and values are, on an example small enough for pencil and paper;
# - what shape each matrix has, and what *self*-attention means;
# - what the $\sqrt D$ in the formula is for, and what happens without it;
# - (at a second reading) how one can get an exact derivative out of code that knows nothing of derivatives.
#
# **Time:** 25 minutes to read, five seconds to run (at the very first run up to a minute more). **Before you start:**
# products of matrices, and lesson 1 for the word *gradient*. Run it with `python lessons/02_attention.py`; add `--break
# scale-off` to see a check fail.

# %% tags=["plumbing"]
import cmath
import itertools
import math

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons import faults
from lessons.evidence import attention as evidence
from lessons.figures import attention as figures
from lessons.harness.trial import Lesson
from lessons.measuring import of_rounding

lesson = Lesson(__file__)

# %% [markdown]
# ## Words that ask
# Each word offers a description of itself, its *key*. Ours are written by hand and have four entries, which we can
# read: *a thing? an animal? an action? a colour?* A dog is a thing (in grammar) and an animal.

# %%
words = ["the", "dog", "lost", "its", "red", "ball"]
thing, animal, action, colour = np.eye(4)
nothing = np.zeros(4)
keys = np.array([nothing, thing + animal, action, nothing, colour, thing])
print("dog", keys[1], "  lost", keys[2], "  ball", keys[5])

# %% [markdown]
# And each word asks a question, its *query*, in the same language. *Its* looks for an animal, to whom the ball may
# belong. How well a key fits a query is told by their dot product, the *score*, here divided by $\sqrt 4 = 2$; why,
# we shall see below. The 6 says how much *its* cares.

# %%
its = 6 * animal
scores = keys @ its / math.sqrt(4)
print("   ".join(f"{word} {score:.0f}" for word, score in zip(words, scores, strict=True)))

# %% [markdown]
# *Dog* fits with 3, the others do not fit at all. Now make *weights* out of scores: take $e$ to each, so that all are
# positive, and divide by their sum, so that they sum to one. This is the *softmax*. By hand: $e^3 \approx 20.1$, $e^0 =
# 1$ for the five others, so the sum is 25.1 and *dog* gets $20.1 / 25.1 = 0.80$. (With a 2 in place of the 6 it would
# get 0.35, with a 12 it would get 0.99. Try it.)

# %%
weights = np.exp(scores) / np.exp(scores).sum()
print("   ".join(f"{word} {weight:.2f}" for word, weight in zip(words, weights, strict=True)))

# %% [markdown]
# ## Everybody asks at once
# The other words have questions too. *The* looks for a thing, *dog* for an action, *lost* for the things that took
# part, *ball* for a colour. *Red* looks for a thing that is *not* an animal, so its query has a negative entry. Before
# you run the cell: which word gets the largest weight of *red*? And how will *lost* treat two things that fit equally
# well?

# %%
queries = np.array([2 * thing, 4 * action, 6 * thing, its, 4 * thing - 4 * animal, 6 * colour])
scores = queries @ keys.T / math.sqrt(4)
weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
caption = "One row for each word that asks; each row sums to one. Two things that fit equally well share the weight."
lesson.show(figures.sentence(words, weights, row=words.index("its")), "sentence", caption)

# %% [markdown]
# *Red* finds the ball, *lost* divides its attention between dog and ball, and *its* looks at the dog. In a trained
# model nobody writes such vectors: queries and keys are computed from the words by two matrices, and training finds the
# matrices. The reading of the table is the same.
#
# ## What a word brings home
# So far words have only looked. What they bring home are *values*, one for each word: the answer to a query is the
# average of all values, weighted by the row of weights. Let a word simply hand out its own description (`values =
# keys`). What does *its* know afterwards?

# %%
values = keys
out = weights @ values
print("thing {:.2f}   animal {:.2f}   action {:.2f}   colour {:.2f}".format(*out[words.index("its")]))

# %% [markdown]
# *Its* had no meaning of its own (its key is zero); now it carries *a thing, an animal*. That is what attention is for:
# a word leaves with something of the words it looked at.
#
# ## Where queries, keys and values come from
# We wrote them by hand. A model computes them. Each word enters as a vector of width $C$ (its *embedding*: a row of a
# table with one row for each word, found by training). The vectors of a sentence are the rows of a matrix $X$, and
# three matrices of weights make all the rest:
#
# $$\begin{aligned} Q &= X W_Q, \\ K &= X W_K, \\ V &= X W_V . \end{aligned}$$
#
# Training finds the numbers in $W_Q$, $W_K$ and $W_V$, by the slopes of lesson 1. Here they are random, so only the
# shapes mean anything. Which shape must $W_Q$ have if words have width 8 and queries width 4?

# %%
X = np.random.default_rng(0).standard_normal((6, 8))  # six words of width C = 8
W_Q, W_K, W_V = np.random.default_rng(1).standard_normal((3, 8, 4))  # each from width C = 8 to width D = 4
Q, K, V = X @ W_Q, X @ W_K, X @ W_V
print(f"X {X.shape} times W_Q {W_Q.shape} is Q {Q.shape}; likewise K {K.shape} and V {V.shape}")

# %% [markdown]
# ## The formula
# We have written it already, line by line. Let a sequence $y$ of $T$ words look at a sequence $x$ of $S$ words. The
# queries $Q_y$ form a $T \times D$ matrix, keys $K_x$ and values $V_x$ are $S \times D$. Then
#
# $$\mathrm{attention}(y \mid x) = \mathrm{softmax}\!\left(\frac{Q_y K_x^\top}{\sqrt D}\right) V_x
# \quad\in\ \mathbb{R}^{T \times D},$$
#
# where the softmax is taken along each row. (These letters stay the same in the engine and in the lessons; lessons 5
# and 7 try claims in their authors' letters, and say so.) When $y$ is $x$ itself, as in our sentence, it is called
# *self-attention*. A translator also lets the words of one language look at those of the other; then $T \ne S$. What
# shape does the result have if three words look at six? Decide, then compare with the picture.

# %%
some = [3, 4, 5]  # its, red, ball
entries = ["thing", "animal", "action", "colour"]
names = [words[i] for i in some], words, entries
tables = queries[some], keys, values, weights[some], out[some]
caption = "Three words look at six. The result has a row for each word that asks, and the width of a value."
lesson.show(figures.shapes(*names, *tables, row=0), "shapes", caption)

# %% [markdown]
# ## The same without a matrix
# A product of matrices is many loops in one sign. Here are the loops: one number at a time, and nothing but Python.
# Compare each line with the steps above: scores, powers of $e$, weights, the average of the values.


# %%
def by_definition(q, k, v, exp=math.exp):
    """Attention of T words over S words. q: T lists of D numbers; k, v: S lists of D numbers; result: like q"""
    D, result = len(q[0]), []
    for query in q:
        scores = [sum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(D) for key in k]
        powers = [exp(score) for score in scores]
        total = sum(powers)
        weights = [power / total for power in powers]
        result.append([sum(w * value[c] for w, value in zip(weights, v, strict=True)) for c in range(D)])
    return result


loop = np.array(by_definition(queries.tolist(), keys.tolist(), values.tolist()))
print(f"loops and matrices: {out.size} numbers, largest difference {np.abs(loop - out).max():.1e}")

# %% [markdown]
# The numbers are the same, up to rounding. This loop shares nothing with the engine, neither a matrix nor a line of
# code. That makes it a good judge: the trial at the end of this lesson will ask it what is right.
#
# ## Does the engine compute this?
# `F.attention` is what our models call. Its fast versions never store the table of weights and work in pieces of 64
# keys. It takes arrays of four axes (sentences, heads, words, entries), so our matrices get two axes in front. (Heads
# are the subject of lesson 6; here there is one.)

# %%
engine = F.attention(*(Tensor(array[None, None]) for array in (queries, keys, values))).numpy()[0, 0]
print(f"engine and matrices: {out.size} numbers, largest difference {np.abs(engine - out).max():.1e}")

# %% [markdown]
# Equal up to rounding, on this example. One piece of the formula is still unexplained.
#
# ## What the $\sqrt D$ is for
# Suppose that, before training, entries of queries and keys are like random numbers with mean 0 and variance 1. A score
# is then a sum of $D$ such products, and its variance is $D$: the wider the vectors, the further apart the scores. The
# softmax turns differences into *ratios*, so what will the largest of 64 weights be, on average, at a width of 256,
# without the root? And with it? Even weights would be 0.02 each.

# %%
D = 256
draw = np.random.default_rng(D).standard_normal
products = draw((256, D)) @ draw((64, D)).T  # 256 queries, 64 keys
for name, s in (("without the root", products), ("with it", products / math.sqrt(D))):
    p = np.exp(s) / np.exp(s).sum(axis=1, keepdims=True)
    print(f"width {D}, {name}: the largest weight of a query is {p.max(axis=1).mean():.2f} on average")

# %% [markdown]
# Now the same at other widths too, with the engine's own weights. Where does one key first get more than half?

# %%
WIDTHS, KEYS = [1, 4, 16, 64, 256], 64
raw, scaled = evidence.entropies(WIDTHS, KEYS, scale=1.0), evidence.entropies(WIDTHS, KEYS)
for D, (_, without), (_, with_root) in zip(WIDTHS, raw, scaled, strict=True):
    print(f"width {D:3}: largest of {KEYS} weights {without:.2f} without the root, {with_root:.2f} with it")

# %% [markdown]
# Without the root one key takes nearly everything before anything has been learned. That is bad for learning: the slope
# of a weight $p$ for its own score is $p(1-p)$, which is nearly zero when $p$ is nearly 1. Divided by $\sqrt D$, scores
# have variance 1 whatever the width. In the picture, *entropy* measures how evenly a query spreads its weights: $\ln 64
# = 4.2$ when all are equal, 0 when one key takes all. (Its unit is the *nat*, because the logarithm is the natural one;
# one nat is 1.44 bits.)

# %%
caption = "Without the root the scores spread with the width, the weights become uneven, and one key takes all."
lesson.show(figures.root_of_d(evidence.root_panels(WIDTHS, KEYS), WIDTHS, KEYS), "root_of_d", caption)

# %% [markdown]
# ## An exact derivative for free
# *You may skip this section at first reading and go on to the trial: it is for those who wonder how gradients are
# checked, and needs complex numbers.* Since models are trained, the *gradients* of attention have to be right as well.
# For them there is a beautiful trick. Give the input a tiny *imaginary* part $ih$. Taylor's series says $f(x + ih) =
# f(x) + ih f'(x) - \tfrac{1}{2} h^2 f''(x) - \dots$, so the imaginary part of the result, divided by $h$, is the
# derivative. In lesson 1 a small step was ruined by subtracting two nearly equal numbers. Here nothing is subtracted.
# What will happen with a step of $10^{-200}$, on the function of lesson 1?

# %%
exact = 3 * math.cos(2.1) * math.exp(math.sin(2.1))
for h in (1e-2, 1e-8, 1e-200):
    slope = cmath.exp(cmath.sin(3 * complex(0.7, h))).imag / h
    print(f"step {h:.0e}: {slope:.15f}, exactly {exact:.15f}")

# %% [markdown]
# The steps 1e-8 and 1e-200 are right up to the rounding of the last digit: no step is too small. With `exp=cmath.exp`
# the loop of `by_definition` works with complex numbers too, so it can be asked for every slope of attention without
# knowing a single derivative rule.
#
# ## The trial
# (A *trial* tests a claim on this engine. Then it is run again on engines that were broken on purpose, its *controls*:
# on each of them a check has to fail, or the trial proves nothing.)
#
# **Claim.** What *this engine* calls attention of $y$ over $x$ is the formula above, of shape $T \times D$;
# self-attention is the case $y = x$.
#
# **What would refute it.** One number, of the output or of a gradient, further from that of `by_definition`, the loop
# above, than rounding explains.
# A wrong shape. Self-attention on $x$ that differs from attention of $x$ over a copy of $x$. Scores whose variance
# depends on the width.
#
# **Three experiments.**
# - Five sizes with ones and primes among them: values and gradients against the loop.
# - The layer that models use, with its three matrices. It has two heads: each gets half of the columns.
# - The variance of scores, not sampled but counted: over *all* $2^D$ queries of signs $\pm 1$ it must be exactly $D$,
#   and 1 after the division.
#
# **Six broken engines:** no scale; a wrong scale; a softmax along the wrong axis; keys in place of values; a derivative
# rule that forgets a term; heads that copy the first one. (The next cell is this experiment as code; you may skip it.)


# %%
@lesson.trial(
    "attention-shape",
    "What this engine calls attention of y over x is softmax(Q_y K_xᵀ / √D) V_x, of shape T × D; "
    "self-attention is the case y = x.",
    controls=[
        faults.scale_off,
        faults.scale_by_d,
        faults.softmax_over_queries,
        faults.keys_as_values,
        faults.rule_without_sum,
        faults.heads_tied,
    ],
)
def attention_shape(trial):
    shapes, sizes, values, gradients = evidence.compare_with_the_loop(by_definition, lesson.full)
    trial.check(shapes == sizes, f"{shapes} of {sizes} outputs have shape T × D")
    for what, off in (("values", values), ("gradients", gradients)):
        text = f"{what} differ from the loop's by {off.largest:.0e} at most, {of_rounding(off.of_bound)}"
        trial.check(off.of_bound <= 1, text)
    layer, differ, size = evidence.compare_the_layer(by_definition)
    for name, off in layer.items():
        trial.check(off.of_bound <= 1, f"the layer, {name}: off from the loop by {of_rounding(off.of_bound)}")
    trial.check(differ == 0, f"{differ} of {size} numbers differ between self-attention and x over x")
    widths = range(1, 15 if lesson.full else 11)
    for expected, power, options in (("1 with the root", 0, {}), ("D without it", 1, {"scale": 1.0})):
        off = evidence.variance_off(widths, power, **options)
        text = f"variance of scores, all 2^D queries, D = 1 ... {widths[-1]}: {expected}"
        trial.check(off <= 1, f"{text}, off by {of_rounding(off)}")
    lost = [math.log(KEYS) - entropy for entropy, _ in evidence.entropies(WIDTHS, KEYS)]
    text = (
        f"with the root the weights lose {min(lost):.2f} to {max(lost):.2f} nats of ln {KEYS} (0.25 to 0.75 expected)"
    )
    trial.check(max(abs(nats - 0.5) for nats in lost) < 0.25, text)
    entropy = [nats for nats, _ in evidence.entropies(WIDTHS, KEYS, scale=1.0)]
    falling = all(later < earlier for earlier, later in itertools.pairwise(entropy))
    trial.check(falling, f"without it the entropy goes {' > '.join(f'{nats:.2f}' for nats in entropy)}")
    return "proved", (
        f"values agree with the definition to {values.largest:.0e} and gradients to {gradients.largest:.0e}, which is "
        "rounding; self-attention equals x over x bit for bit; the root keeps the variance of scores at 1"
    )


# %% [markdown]
# The engine computes the definition. Values and gradients differ from the loop's by a small part of what rounding
# allows, while the broken engines are off by $10^{13}$ times the bound. And the root is no ornament.
#
# **Fine print.** What may rounding do? A sum of $n$ terms is off by at most $n \varepsilon$ times the sum of their
# sizes, with $\varepsilon \approx 2 \cdot 10^{-16}$; `lessons/evidence/attention.py` sends that through the formula.
# For scores of variance 1, theory expects that the weights over $S$ keys lose about half a nat of the entropy $\ln S$
# of equal weights; the check allows half of that in either direction. Without the root the entropy has to fall whenever
# the width grows fourfold.
#
# ## Questions to think about
# 1. Add the same number to all scores of a row. What changes? What has that to do with $e^{1000}$, which no computer
#    can hold?
# 2. Swap two words of the sentence, with their keys and values. What happens to the answer that *its* gets? (Lesson 4.)
# 3. Our keys know four properties, so $D$ is 4. How many words with clearly different keys fit into 64 dimensions?
# 4. *Lost* looks for two different words. Why might one want two sets of weights instead of one? (Lesson 6.)
# 5. How does the table of weights grow with the length of the text, and how can an engine avoid storing it? (Lesson 9.)
#
# ## Further reading
# - A. Vaswani and others, *Attention Is All You Need* (2017): the formula, with a footnote on the root, in section
#   3.2.1.
# - D. Bahdanau, K. Cho, Y. Bengio, *Neural Machine Translation by Jointly Learning to Align and Translate* (2015):
#   where attention comes from; its tables of weights show which words were translated by which.
# - W. Squire, G. Trapp, *Using Complex Variables to Estimate Derivatives of Real Functions* (1998): the trick with
#   $ih$, in three pages.
#
# ## Exercises
# `minitransformer exercise attention-by-hand` and `cross-attention` belong to this lesson; `bug-scale` has the root
# wrong.

# %%
lesson.finish()
