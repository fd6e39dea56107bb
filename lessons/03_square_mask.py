# %% [markdown]
# # 3. The square mask
#
# A language model learns by guessing the next word, at every position of a text at once. But the answer
# stands right beside the question, one position to the right. If attention could look there, the model
# would learn to copy: a loss of nearly zero, and worthless, since at the moment of writing there is
# nothing to the right. One triangle of $-\infty$ prevents it. We shall not be content with "hardly any
# influence"; we want none, down to the last bit.
#
# **At the end you can say**
# - what the mask does to a row of attention weights, and why it has to come *before* the softmax;
# - how to ask a model which words an output depends on;
# - whether a position may look at itself, and how to defend your answer;
# - what the decoder of a translator sees, and what it does not.
#
# **Time:** 25 minutes to read, half a minute to run (at the very first run a minute or two more).
# **Before you start:** lesson 2. Run it with `python lessons/03_square_mask.py`; `--break mask-off` runs
# it on a *control*, an engine that was broken on purpose: there a check has to fail.

# %% tags=["plumbing"]
import math

import numpy as np

import kernels
from autograd import no_grad
from lessons import faults
from lessons.evidence import square_mask as evidence
from lessons.figures import square_mask as figures
from lessons.harness.trial import Lesson

lesson = Lesson(__file__)

# %% [markdown]
# ## The question and its answer
# Here is what a language model is trained on. Each position is one exam question.

# %%
words = ["the", "dog", "lost", "its", "red", "ball"]
for t in range(len(words) - 1):
    print(f"position {t}: given {' '.join(words[: t + 1]):20} guess {words[t + 1]}")

# %% [markdown]
# All questions are put in one go: the model gets the six words and answers everywhere at once. That is
# what makes training fast. It is also the danger: at position 1 the word *lost*, which has to be guessed,
# is part of the input.
#
# ## A triangle of minus infinity
# Take the scores that the words of this sentence gave each other in lesson 2. Every score that looks
# ahead is replaced by $-\infty$; then comes the softmax as always. Since $e^{-\infty} = 0$, such a word
# gets no weight at all, and it does not enter the sum either. (What is hidden is a triangle. The table it
# lies in is a square, as many rows as columns, and PyTorch calls it a *square* mask; most people say
# *causal* mask.)
#
# By hand, for *lost* at position 2: it scores *the* 0, *dog* 3, itself 0, and *ball* 3. Without the mask
# *dog* and *ball* share the weight, 0.45 each. What remains for *dog* when *ball* is out of sight?
# Compute it: $e^3 \approx 20.1$.

# %%
scores = np.array([  # a row for each word that looks, a column for each that is looked at
    [0, 1, 0, 0, 0, 1], [0, 0, 2, 0, 0, 0], [0, 3, 0, 0, 0, 3],  # the, dog, lost
    [0, 3, 0, 0, 0, 0], [0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 3, 0],  # its, red, ball
])  # fmt: skip


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


ahead = np.triu(np.ones((6, 6), bool), 1)  # True above the diagonal
masked = np.where(ahead, -np.inf, scores)
print("lost looks at:", "   ".join(f"{w} {p:.2f}" for w, p in zip(words, softmax(masked)[2], strict=True)))
caption = "Blank is exactly zero. What the later words lose is shared by the earlier ones: each row still sums to one."
lesson.show(figures.sentence(words, softmax(scores), softmax(masked)), "sentence", caption)

# %% [markdown]
# $20.1 / (20.1 + 1 + 1) = 0.91$. Look at *red*: it was looking for its ball, which lies in the future.
# Now it spreads its attention evenly over what it can see.
#
# ## Who influences whom?
# One layer of attention obeys the triangle; does a whole model, with several layers and everything
# between them? Try it: replace *its* by *my* and see at which positions the guesses change. Which ones do
# you expect? And which without a mask?

# %%
text, other = np.array([[0, 1, 2, 3, 4, 5], [0, 1, 2, 6, 4, 5]])  # word 6 is "my"
model = evidence.language_model(depth=2, words=7, length=6)


def guesses_that_change():
    with no_grad():
        before, after = model(np.stack([text, other])).numpy()
    return "   ".join(
        f"{w}: {'changes' if (a != b).any() else 'same'}" for w, a, b in zip(words, before, after, strict=True)
    )


print("with the mask:  ", guesses_that_change())
with faults.broken(faults.mask_off):
    print("without a mask: ", guesses_that_change())

# %% [markdown]
# Everything before the changed word stays the same, bit for bit. (`faults.broken` breaks the engine for a
# moment; we use it to see what mistakes look like.)
#
# One word is one example. Slopes tell it for all: the guess at $t$ depends on the word at $s$ if some
# derivative $\partial\,\mathrm{out}_t / \partial\,\mathrm{in}_s$ is not zero. All of them together are
# the *Jacobian*, and one backward pass gives one row of it.
#
# The picture below shows it for models of 1, 2 and 4 layers. Below them are three engines with a mistake
# in the mask. One of them was found in several student projects: the weights are set to zero *after* the
# softmax. The forbidden words get no weight there either, so what could be wrong? Look for it before you
# read on. (The broken models have two layers: a mask that is one column too late leaks one column in
# each, two together.)

# %%
sound = {f"{depth} layer{'s'[: depth > 1]}": evidence.language_model_jacobian(depth, 10) for depth in (1, 2, 4)}
mistakes = {"no mask": faults.mask_off, "mask after the softmax": faults.mask_after_softmax}
mistakes["mask one column too late"] = faults.one_too_many
leaking = {}
for name, fault in mistakes.items():
    with faults.broken(fault):
        leaking[name] = evidence.language_model_jacobian(2, 10)
caption = "Above: nothing flows from the future, however deep the model. Below: it does."
lesson.show(figures.jacobians(sound, leaking), "jacobians", caption)

# %% [markdown]
# The mask after the softmax leaks: the values of later words are gone, but their scores are still in the
# sum that every weight was divided by. The leak is weak, and we shall see below that a model learns to
# use it.
#
# ## First trial: no influence from the future
# **Claim.** Setting the scores of later positions to $-\infty$ makes each position depend on itself and
# earlier ones only.
#
# **What would refute it.** One slope towards a later position that is not exactly 0.0. One bit of an
# earlier guess that changes when later words do. But also an earlier word without any influence: a model
# that sees nothing would pass the first two.
#
# **Experiment.** Language models with 1 to 4 layers, on every backend there is: NumPy, Numba, and CUDA on
# a graphics card or in our emulator of one. First all slopes of a short text. Then 130 words: cut the
# text somewhere, replace every word behind the cut, and compare the guesses before it bit by bit, in both
# precisions. Besides the three mistakes above, an engine is tried that sees not far enough. (The next
# cell is this experiment as code; you may skip it.)


# %%
@lesson.trial(
    "mask-causal",
    "Setting scores of later positions to minus infinity makes each position depend on itself and earlier ones only.",
    controls=[faults.mask_off, faults.mask_after_softmax, faults.one_too_many, faults.short_sighted],
)
def mask_causal(trial):
    slopes, pairs = 0, 0
    for name in kernels.available():
        seen = evidence.influence(name, lesson.full)
        for wrong, of, what in (
            (seen.leaks, seen.slopes, "slopes towards later positions are exactly 0.0"),
            (seen.dead, seen.pairs, "pairs s <= t have influence"),
            (seen.changed, seen.outputs, "guesses before a cut keep every bit when the words behind it change"),
            (seen.idle, seen.cuts, "cuts change some guess behind them"),
        ):
            trial.check(wrong == 0, f"{name}: {of - wrong:,} of {of:,} {what} (all expected)")
        slopes, pairs = slopes + seen.slopes, pairs + seen.pairs
    backends = ", ".join(kernels.available())
    return (
        "proved",
        f"all {slopes:,} slopes to the future are exactly 0.0, all {pairs} pairs s <= t have influence ({backends})",
    )


# %% [markdown]
# Not one slope towards the future differs from zero, at any depth and on any backend, and every earlier
# word has its say.
#
# ## May a position look at itself?
# In the triangle above the diagonal stays: *dog* may look at *dog*. Some say that it must not, or the
# model would cheat. What do you think?
#
# Let us take the diagonal away and look at the first row, the one of *the*. What will its weights be?

# %%
with np.errstate(invalid="ignore"):
    print("first row without the diagonal:", softmax(np.where(ahead | np.eye(6, dtype=bool), -np.inf, scores))[0])

# %% [markdown]
# Zero divided by zero: the first word has nothing to look at. Many programs write a large negative number
# like $-10^9$ for $-\infty$, and do not even notice. They get something worse: all scores of that row are
# equally bad, so the first word looks at *everything*, the future included.

# %%
titles = "the engine's mask", "diagonal hidden", "diagonal hidden,\n-1e9 for minus infinity"
caption = "Attention weights of six positions; blank is exactly zero. Without the diagonal the first row breaks."
lesson.show(figures.masks(dict(zip(titles, evidence.masks(), strict=True))), "diagonal", caption)

# %% [markdown]
# So much for the mask. Is it cheating? The word at $t$ is the *last word of the question*; the answer is
# the word at $t+1$. There is a test that no cheat survives: **noise**. Draw words evenly out of four.
# Whoever does not know the next word cannot get below a loss of $\ln 4 \approx 1.39$ on average, whatever
# its weights (Gibbs' inequality). Whoever gets below has looked.
#
# ## Second trial: the diagonal
# **Claim.** The mask hides the diagonal too: a position may not attend to itself.
#
# **What would establish the opposite.** First, that such a mask leaves a row with nothing to look at.
# Second, that seeing oneself is no cheating: nothing of the word to be guessed enters.
#
# **Experiment.** Count the weights. Then train four models on noise: one with the mask as it is, one with
# a mask that begins a column too late, one with the mask after the softmax, and one whose targets are
# *not shifted*, so that the word to guess is the input itself. Which ones will get below $\ln 4$? For the
# trained sound model, put every possible word at $t+1$, and see whether a bit of the guess at $t$
# changes.


# %%
@lesson.trial(
    "mask-diagonal",
    "The mask hides the diagonal too: a position may not attend to itself.",
    controls=[faults.diagonal_hidden, faults.one_too_many, faults.empty_row_answered],
)
def mask_diagonal(trial):
    sound, strict, stand_in = evidence.masks()
    own, lost, future = np.diag(sound), (~np.isfinite(strict)).sum(axis=1), int((stand_in[0, 1:] > 0).sum())
    trial.check((own > 0).all(), f"the engine's mask lets {(own > 0).sum()} of 6 positions see themselves")
    trial.check(own[0] == 1.0, f"the first one has nothing else: its weight on itself is {own[0]} (1.0)")
    trial.check(lost[0] == 6 and not lost[1:].any(), f"diagonal hidden: {lost[0]} of 6 weights of row 0 are 0/0")
    trial.check(future == 5, f"with -1e9 for minus infinity, row 0 looks at {future} of 5 future positions")

    model, losses = evidence.train_on_noise(shifted=True, full=lesson.full)
    varied, cost = evidence.guess_every_next_word(model)
    trial.check(varied == 0, f"the word at t+1 changes {varied} of {cost.size} guesses at t (0 expected)")
    floor = math.log(evidence.WORDS)
    below = int((cost < floor - evidence.SLACK).sum())
    trial.check(below == 0, f"{below} of {cost.size} trained guesses cost less than ln 4 (0 expected)")
    curves = {"mask as it is": losses}
    for name in ("mask one column too late", "mask after the softmax"):
        with faults.broken(mistakes[name]):
            leaky, curves[name] = evidence.train_on_noise(shifted=True, full=lesson.full)
            cheated = int((evidence.guess_every_next_word(leaky)[1] < floor / 2).sum())
        trial.check(cheated > cost.size // 2, f"{name}: {cheated} of {cost.size} guesses cost less than half of ln 4")
    _, copied = evidence.train_on_noise(shifted=False, full=lesson.full)
    trial.check(copied[-1] < floor / 10, f"targets not shifted: copying ends at a loss of {copied[-1]:.3f}")
    curves["targets not shifted"] = copied
    caption = "Noise cannot be predicted: whoever gets below ln 4 has seen the answer."
    trial.show(figures.noise(curves, evidence.WORDS), "noise", caption)
    return "refuted", (
        f"without the diagonal the first row has nothing to see (all 6 weights are 0/0); the word to be guessed "
        f"changes no bit of {cost.size} guesses, none of which beats ln 4"
    )


# %% [markdown]
# Refuted: the sound model sees itself at every position and never gets below $\ln 4$. Hiding the diagonal
# would cost information and gain no honesty. The intuition behind the claim fits another arrangement,
# targets that are *not shifted*: there the input is the answer, and copying it is cheating indeed. (The
# two models that peek stop near $\frac{1}{8}\ln 4 = 0.17$, for an honest reason: the last of their eight
# targets stands behind the end of the input, where even they cannot look.)
#
# ## Third trial: the translator's two views
# A translator has two halves. The *encoder* reads the whole source sentence; all of it is known, so
# nothing is hidden. The *decoder* writes the target, word by word, and looks at two things: at what it
# has written, with the mask, and at the encoder's output, without one.
#
# **Claim.** The decoder sees the previous target words and the whole source.
#
# **What would refute it.** A slope towards a later target word that is not exactly 0.0; or a missing one,
# towards an earlier target word, towards any position of the encoder's output, or from there to any
# source word.
#
# **Experiment.** Again all slopes. The way from the source to the guess is taken in two steps, since a
# thorough encoder would hide a decoder that reads only half. *Padding*, which fills short sentences up to
# a common length, must count for exactly nothing. Before you look: what will the three pictures be, full
# squares or triangles?


# %%
@lesson.trial(
    "decoder-mask",
    "The decoder sees the previous target words and the whole source.",
    controls=[
        faults.mask_off,
        faults.mask_after_softmax,
        faults.encoder_masked,
        faults.cross_masked,
        faults.cross_off,
        faults.padding_seen,
    ],
)
def decoder_mask(trial):
    source, target = evidence.SENTENCES[lesson.full]
    S, T = len(source), len(target)
    own, reading, looking, padded = evidence.translator_influence(S, T)
    later, real, padding = np.triu(np.ones((T, T), bool), 1), padded[: S - 2], padded[S - 2 :]
    leaks, dead = np.count_nonzero(own[later]), int((~own[~later].any(axis=(1, 2))).sum())
    for wrong, of, what in (
        (leaks, own[later].size, "slopes towards later target words are exactly 0.0"),
        (dead, (~later).sum(), "pairs of target words s <= t have influence"),
        (evidence.blind_pairs(reading), S * S, "pairs of source positions have influence in the encoder"),
        (evidence.blind_pairs(looking), T * S, "pairs of guess and encoder's output have influence"),
        (np.count_nonzero(padding), padding.size, "slopes towards padding are exactly 0.0"),
        (evidence.blind_pairs(real), (S - 2) * T, "pairs of real source words and guesses have influence"),
    ):
        trial.check(wrong == 0, f"{of - wrong:,} of {of:,} {what} (all expected)")
    caption = "Who influences whom in a translator: everything is read of the source, nothing of the words to come."
    trial.show(figures.translator(source, target, reading, looking, own), "translator", caption)
    return "proved", (
        f"{own[later].size:,} slopes towards later target words are exactly 0.0; all {(~later).sum()} pairs s <= t, "
        f"all {T * S} of guess and encoder's output and all {S * S} of the encoder have influence"
    )


# %% [markdown]
# A triangle on the target's side, full rectangles on the source's: nothing is hidden of what is known,
# and nothing is known of what is still to be written.
#
# ## Questions to think about
# 1. Why does the softmax have to come after the mask, and not before? Say it in one sentence, with the
#    word *sum*.
# 2. At the moment of writing there are no later words to hide. Is the mask needed then?
# 3. With the mask, half of the table of weights is zero. Could an engine save that half of the work? What
#    would be hard about it?
# 4. You are given a trained model and no source code. How would you find out whether it peeks?
#
# ## Further reading
# - A. Vaswani and others, *Attention Is All You Need* (2017), section 3.2.3: the three uses of attention
#   in a translator.
# - A. Radford and others, *Improving Language Understanding by Generative Pre-Training* (2018): the
#   decoder alone, with this mask, as a language model.
# - A. Rush and others, *The Annotated Transformer* (2018): the same mask, in PyTorch, with a picture of
#   the triangle.
#
# ## Exercises
# `minitransformer exercise causal-mask` and `padding-mask` belong to this lesson; `bug-mask` hides one of
# the mistakes above.

# %%
lesson.finish()
