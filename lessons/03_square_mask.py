# %% [markdown]
# # 3. The square mask
#
# A language model is asked at every position at once: *which word comes next?* The answer stands right beside it, one
# position to the right. If attention could look there, the model would learn to copy it, reach a loss of nearly zero,
# and be worthless, since at the moment of writing there is nothing to the right. The square mask forbids the look:
# before the softmax, the score of every later position is set to $-\infty$, and $e^{-\infty} = 0$.
#
# That is easily said. This lesson asks for proof: not "hardly any influence" but none at all, down to the last bit. It
# also settles a quarrel over whether a position may look at itself.
#
# Run it: `python lessons/03_square_mask.py [--backend NAME] [--full]`; add `--break mask-off` to see a check fail.

# %%
import math

import numpy as np

import autograd.functional as F
import kernels
from autograd import Tensor, no_grad
from lessons import faults
from lessons.faults.masks import masked_softmax, scores_of
from lessons.figures import square_mask as figures
from lessons.harness.trial import Lesson
from minitransformer import LanguageModel, Translator
from minitransformer.optim import Adam

lesson = Lesson(__file__)

# %% [markdown]
# ## Who influences whom: the Jacobian
#
# "Position $t$ depends on position $s$" means that some derivative $\partial\,\mathrm{out}_t /
# \partial\,\mathrm{in}_s$ is not zero. All of them together are the Jacobian, and the engine computes it exactly, one
# row for each backward pass.
#
# The inputs are whole numbers, which have no derivatives, but the word vectors behind them have. If each word occurs
# once, word $s$ at position $s$, then row $s$ of the embedding's gradient belongs to position $s$ alone. So we can ask
# the whole model, from the table to the scores, and nothing in between can be forgotten.


# %%
def jacobian(out, leaf, model):
    """d out[0, t, c] / d leaf.   out (1, T, V) → (T, V, *leaf.shape)"""
    rows = []
    for place in np.ndindex(out.shape[1:]):
        one = np.zeros(out.shape)
        one[0][place] = 1
        model.zero_grad()
        leaf.grad = None
        out.backward(one, retain_graph=True)
        rows.append(np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy())
    return np.array(rows).reshape(*out.shape[1:], *leaf.shape)


def language_model(depth, words, length, dtype="float64"):
    return LanguageModel(words, 16, 2, depth, 24, max_len=length, seed=depth, dtype=dtype)


def language_model_jacobian(depth, T):
    """Every score at t by every number of the vector at s.   → (T, V, T, C)"""
    model = language_model(depth, T, T)
    return jacobian(model(np.arange(T)[None]), model.base.embedding.weight, model)


# %% [markdown]
# ## Broken engines
#
# The first leaves the mask out. The second applies it *after* the softmax, a mistake found in several student reports:
# the forbidden weights are set to zero, but they have already taken part in the sum that the others were divided by.
# The third lets each position see one too many, the fourth not far enough. All are in `lessons/faults/masks.py`.

# %% [markdown]
# ## First trial: no influence from the future
#
# **Claim.** Setting the scores of later positions to $-\infty$ makes each position depend on itself and earlier ones
# only.
#
# **What would refute it.** One derivative towards a later position that is not exactly 0.0. One bit of an earlier
# output that changes when later words do. But also a position $s \le t$ without any influence on $t$: a model that sees
# nothing would pass the first two.
#
# **Experiment.** Whole language models with 1 to 4 layers, on every backend there is, in float64. The full Jacobian of
# a short text. Then 130 words, more than two of the tiles of 64 that the fast kernels work in: cut the text somewhere,
# replace every word behind the cut by another, and compare the outputs before it bit by bit, in both precisions.


# %%
def changed_bits(depth, dtype, T, cuts, words=11):
    """Outputs before a cut whose bits change with the words behind it; outputs compared; cuts without effect behind."""
    rng = np.random.default_rng(depth)
    model = language_model(depth, words, T, dtype)
    text = np.repeat(rng.integers(words, size=(1, T)), cuts, axis=0)
    cut = np.linspace(0, T - 2, cuts).astype(int)[:, None]
    other = np.where(np.arange(T) > cut, (text + rng.integers(1, words, text.shape)) % words, text)
    with no_grad():
        before, after = (model(ids).numpy() for ids in (text, other))
    same = (before.view(f"i{before.itemsize}") == after.view(f"i{before.itemsize}")).all(axis=2)
    past = np.arange(T) <= cut
    return int((~same & past).sum()), int(past.sum()), int((same | past).all(axis=1).sum())


# %% [markdown]
# And a picture: how strongly the scores at $t$ react to the word at $s$, on a logarithmic scale; exact zeros are white.


# %%
def show_jacobians(trial, T=10):
    sound = {f"{depth} layer{'s'[: depth > 1]}": language_model_jacobian(depth, T) for depth in (1, 2, 4)}
    broken = {}
    for fault in (faults.mask_off, faults.mask_after_softmax, faults.one_too_many):
        with faults.broken(fault):
            broken[fault.__name__.replace("_", " ")] = language_model_jacobian(2, T)
    caption = "White is exactly zero: above, nothing flows from the future; below, it does"
    trial.show(figures.jacobians(sound, broken), "jacobians", caption)


# %%
@lesson.trial(
    "mask-causal",
    "Setting scores of later positions to minus infinity makes each position depend on itself and earlier ones only.",
    controls=[faults.mask_off, faults.mask_after_softmax, faults.one_too_many, faults.short_sighted],
)
def mask_causal(trial):
    depths, zeros, alive = range(1, 5), 0, 0
    for name in kernels.available():
        # a GPU emulated on the CPU is slow, so it gets less to do
        T, length, cuts = (5, 70, 3) if name == "emulated" else (16 if lesson.full else 10, 130, 9)
        later, earlier = np.triu(np.ones((T, T), bool), 1), np.tril(np.ones((T, T), bool))
        with kernels.use(name):
            stacks = [language_model_jacobian(depth, T).transpose(0, 2, 1, 3) for depth in depths]
            bits = [changed_bits(depth, dtype, length, cuts) for depth in (1, 4) for dtype in ("float32", "float64")]
        leaks, total = sum(np.count_nonzero(J[later]) for J in stacks), sum(J[later].size for J in stacks)
        trial.check(leaks == 0, f"{name}: {leaks} of {total:,} slopes towards later positions are not 0.0 (0 expected)")
        dead = sum(int((~J[earlier].any(axis=(1, 2))).sum()) for J in stacks)
        pairs = int(earlier.sum()) * len(stacks)
        trial.check(dead == 0, f"{name}: {dead} of {pairs} pairs s <= t have no influence at all (0 expected)")
        changed, seen, without_effect = (sum(column) for column in zip(*bits, strict=True))
        trial.check(changed == 0, f"{name}: new words behind change {changed} of {seen:,} outputs before (0 expected)")
        trial.check(
            without_effect == 0,
            f"{name}: {without_effect} of {cuts * len(bits)} cuts change nothing behind (0 expected)",
        )
        zeros, alive = zeros + total, alive + pairs
    show_jacobians(trial)
    backends = ", ".join(kernels.available())
    return "proved", f"{zeros:,} slopes towards the future are exactly 0.0, {alive} pairs s <= t are not ({backends})"


# %% [markdown]
# Not one slope towards the future differs from zero, at any depth and on any backend, and every position up to $t$ has
# its say. The lower row shows what the mistakes look like. Masking after the softmax is the treacherous one: the values
# of later words are gone, but their keys still shift every weight through the common sum. The next trial trains such a
# model, and it learns to read the answer out of that sum.
#
# ## Second trial: may a position look at itself?
#
# **Claim.** The mask hides the diagonal as well: a position may not attend to itself, or it would cheat.
#
# **What would establish the opposite.** First, that such a mask leaves some row with nothing to look at. Second, that
# seeing oneself is no cheating: nothing about the word to be guessed enters.
#
# **Experiment.** *The empty row.* Hide the diagonal, and count. The first position sees no key at all; its softmax
# divides zero by zero. Those who write a large negative number in place of $-\infty$ do not even notice, and get
# something worse: all scores of that row are equally bad, so the first word looks at *everything*, the future included.
#
# *The shifted target.* The word at $t$ is the model's input there; its target is the word at $t+1$. So put every
# possible word at $t+1$, and see whether a bit of the scores at $t$ changes. If none does, then guessing a word drawn
# evenly from $V$ costs at least $\ln V$ on average, whatever the weights (Gibbs' inequality: no guess $p$ that does not
# know the word has $\frac1V \sum_w -\ln p_w < \ln V$). Training cannot get below; and if it does, somebody looked.
# Four models are trained on such noise: with the mask as it is; with a mask that begins one column too late; with one
# that comes after the softmax; and with targets that were *not* shifted, where the word to guess is the input itself.


# %%
WORDS, LENGTH = 4, 8


def train_on_noise(shifted):
    """A small model on evenly drawn words; → the model and its losses."""
    rng, steps = np.random.default_rng(0), 400 if lesson.full else 150
    model = LanguageModel(WORDS, 16, 2, 1, 32, max_len=LENGTH, seed=0, dtype="float64")
    optimizer, losses = Adam(model.parameters(), lr=1e-2), []
    for _ in range(steps):
        text = rng.integers(WORDS, size=(32, LENGTH + 1))
        loss = model.loss(text[:, :-1], text[:, 1:] if shifted else text[:, :-1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def guess_every_next_word(model, texts=16):
    """Puts every word w at t+1 in turn. → scores at t (texts, T-1, w, V), and the mean loss of guessing w there."""
    text = np.random.default_rng(1).integers(WORDS, size=(texts, LENGTH))
    t, w = np.arange(LENGTH - 1)[:, None, None], np.arange(WORDS)[:, None]
    tried = np.where(np.arange(LENGTH) == t + 1, w, text[:, None, None])  # (texts, T-1, w, T)
    with no_grad():
        log_p = F.log_softmax(model(tried.reshape(-1, LENGTH))).numpy()
    log_p = log_p.reshape(*tried.shape, WORDS)[:, np.arange(LENGTH - 1), :, np.arange(LENGTH - 1)].swapaxes(0, 1)
    return log_p, -log_p[..., np.arange(WORDS), np.arange(WORDS)].mean(axis=-1)


# %% [markdown]
# The broken engines of this trial: a mask that does hide the diagonal; the one that begins too late; and a softmax that
# makes up an answer for the empty row.


# %%
@lesson.trial(
    "mask-diagonal",
    "The mask hides the diagonal too: a position may not attend to itself.",
    controls=[faults.diagonal_hidden, faults.one_too_many, faults.empty_row_answered],
)
def mask_diagonal(trial):
    T = 6
    q, k = (Tensor(np.random.default_rng(i).standard_normal((1, 1, T, T))) for i in (0, 1))
    sound = F.attention(q, k, Tensor(np.eye(T)[None, None]), is_causal=True).numpy()[0, 0]  # unit values: the weights
    seen = int((np.diag(sound) > 0).sum())
    trial.check(seen == T, f"the engine's mask lets {seen} of {T} positions see themselves")
    trial.check(sound[0, 0] == 1.0, f"the first one has nothing else: its weight on itself is {sound[0, 0]} (1.0)")
    scores, behind = scores_of(q, k)
    with np.errstate(invalid="ignore"):
        strict = masked_softmax(scores, behind > 0).numpy()[0, 0]
    stand_in = masked_softmax(scores, behind > 0, -1e9).numpy()[0, 0]
    lost, fine = int(np.isnan(strict[0]).sum()), int(np.isfinite(strict[1:]).all(axis=1).sum())
    trial.check(
        lost == T and fine == T - 1,
        f"diagonal hidden: {lost} of {T} weights of row 0 are 0/0, {fine} of {T - 1} other rows are fine",
    )
    future = int((stand_in[0, 1:] > 0).sum())
    trial.check(future == T - 1, f"with -1e9 for -inf, row 0 looks at {future} of {T - 1} future positions")

    model, losses = train_on_noise(shifted=True)
    log_p, cost = guess_every_next_word(model)
    varied = int((log_p != log_p[:, :, :1]).any(axis=(2, 3)).sum())
    trial.check(varied == 0, f"the word at t+1 changes {varied} of {cost.size} predictions at t (0 expected)")
    floor = math.log(WORDS)
    # log-probabilities of a few nats, each rounded a few times: 64 eps is ample
    below = int((cost < floor - 64 * np.finfo(float).eps).sum())
    trial.check(below == 0, f"{below} of {cost.size} trained guesses cost less than ln {WORDS} (0 expected)")
    curves = {"mask as it is, next word as target": losses}
    for name, fault in (
        ("mask one column too late", faults.one_too_many),
        ("mask after the softmax", faults.mask_after_softmax),
    ):
        with faults.broken(fault):
            leaky, curves[name] = train_on_noise(shifted=True)
            cheated = int((guess_every_next_word(leaky)[1] < floor / 2).sum())
        trial.check(cheated > cost.size // 2, f"{name}: {cheated} of {cost.size} guesses cost less than half of it")
    curves["target not shifted: the input itself"] = copied = train_on_noise(shifted=False)[1]
    trial.check(copied[-1] < floor / 10, f"targets not shifted: copying oneself ends at a loss of {copied[-1]:.3f}")
    shown = {
        "the engine's mask": sound,
        "diagonal hidden": strict,
        "diagonal hidden,\n-1e9 for $-\\infty$": stand_in,
    }
    caption = "Attention weights; blank is exactly zero. Without the diagonal the first row is empty"
    trial.show(figures.masks(shown), "diagonal", caption)
    caption = "Noise cannot be predicted: whoever gets below ln V has seen the answer"
    trial.show(figures.noise(curves, WORDS), "noise", caption)
    return "refuted", (
        f"without the diagonal row 0 has nothing to see ({lost} weights are 0/0); the word to be guessed changes no "
        f"bit of {cost.size} predictions, none of which beats ln {WORDS}"
    )


# %% [markdown]
# Both arguments hold, so the claim falls. The word at $t$ is not the answer but the last word of the question; hiding
# it from attention would cost information and gain no honesty. The intuition behind the claim fits another
# arrangement, targets that are *not shifted*: there the input is the answer, and copying it is cheating indeed. (The
# models that peek stop near $\frac{1}{8}\ln 4 = 0.17$, for an honest reason: of their eight targets the last one
# stands behind the end of the input, where even they cannot look.)
#
# ## Third trial: the translator's two views
#
# **Claim.** The decoder sees the previous target words and the whole source sentence.
#
# **What would refute it.** A slope towards a later target word that is not exactly 0.0; or a missing one towards an
# earlier target word, towards any position of the encoder's output, or from there to any source word.
#
# **Experiment.** Three Jacobians. The chain source, memory, scores is taken in two steps, because one step alone would
# hide a mistake in the other: if the encoder mixes everything, even a decoder that sees half of the memory depends on
# every source word. Padding is tried too: what stands behind the end of the sentence must count for exactly nothing.


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
    S, T = (11, 9) if lesson.full else (7, 6)
    model = Translator(S, T, 16, 2, 2, 2, 24, max_len=S, seed=1, dtype="float64")
    source, target = np.arange(S)[None], np.arange(T)[None]
    words, later = model.target_embedding.weight, np.triu(np.ones((T, T), bool), 1)

    own = jacobian(model(source, target), words, model).transpose(0, 2, 1, 3)  # (T, T, V, C)
    leaks, dead = np.count_nonzero(own[later]), int((~own[~later].any(axis=(1, 2))).sum())
    trial.check(
        leaks == 0, f"{leaks} of {own[later].size:,} slopes towards later target words are not 0.0 (0 expected)"
    )
    trial.check(dead == 0, f"{dead} of {(~later).sum()} pairs of target words s <= t have no influence (0 expected)")

    memory = model.encode(source)
    reading = jacobian(memory, model.source_embedding.weight, model).transpose(0, 2, 1, 3)
    blind = int((~reading.any(axis=(2, 3))).sum())
    trial.check(blind == 0, f"encoder: {blind} of {S * S} pairs of source positions have no influence (0 expected)")
    leaf = Tensor(memory.numpy(), requires_grad=True)
    looking = jacobian(model.head(model.decode(target, leaf)), leaf, model)[:, :, 0].transpose(0, 2, 1, 3)
    blind = int((~looking.any(axis=(2, 3))).sum())
    trial.check(blind == 0, f"decoder: {blind} of {T * S} pairs of target and memory have no influence (0 expected)")

    out = model(source, target, source_lengths=np.array([S - 2]))
    padded = jacobian(out, model.source_embedding.weight, model).transpose(2, 0, 1, 3)
    real, padding = int((padded[: S - 2] == 0).all(axis=(2, 3)).sum()), np.count_nonzero(padded[S - 2 :])
    trial.check(padding == 0, f"{padding} of {padded[S - 2 :].size:,} slopes towards padding are not 0.0 (0 expected)")
    trial.check(
        real == 0, f"{real} of {(S - 2) * T} pairs of real source words and outputs have no influence (0 expected)"
    )
    trial.show(
        figures.translator(reading, looking, own),
        "translator",
        "Who influences whom in a translator; white is exactly zero",
    )
    return "proved", (
        f"{own[later].size:,} slopes towards later target words are exactly 0.0; all {(~later).sum()} pairs s <= t, "
        f"all {T * S} of outputs and memory and all {S * S} of memory and source have influence"
    )


# %% [markdown]
# The staircase on the target side, and full rectangles on the source side: nothing is hidden of what is known, nothing
# is known of what is still to be written. The mask of the first trial is the whole difference between an encoder and a
# decoder.

# %%
lesson.finish()
