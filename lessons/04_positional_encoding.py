# %% [markdown]
# # 4. Where a word stands
#
# "The dog bites the man" and "the man bites the dog" hold the same words. Attention, as lesson 2 defines it, compares
# each word with every other and averages; an average does not know in which order its terms came. So somebody has to
# tell the network where each word stands. The usual answer is a fixed table of waves, added to the word vectors. Is it
# really needed? Why added, and why waves? Four claims, and two of them turn out to be half of the truth.
#
# Run it: `python lessons/04_positional_encoding.py [--backend NAME] [--full]`; add `--break sine-only` to see a check
# fail.

# %%
import math

import numpy as np

import autograd.functional as F
from autograd import Tensor, no_grad
from lessons import faults
from lessons.faults.positions import random_numbers, sine_table, unpaired_table
from lessons.figures import positional_encoding as figures
from lessons.harness.trial import Lesson
from minitransformer import Bert, Classifier, LanguageModel, positions
from minitransformer.optim import Adam
from minitransformer.positions import Positions

lesson = Lesson(__file__)
EPS = np.finfo(np.float64).eps

# %% [markdown]
# ## First trial: blind without it?
#
# **Claim.** Without positional encoding a transformer cannot see the order of its words.
#
# Take a stack with *full* attention, where everybody sees everybody, and shuffle the words. Each word finds the same
# company as before, in another order, so it computes the same result; the results come out shuffled like the words, and
# nothing else changes. This is called permutation equivariance. In exact arithmetic it is exact. In floating point the
# sums over keys are taken in another order, and that is all: by the count of lesson 2 attention may move by at most
# $\varepsilon \left(2(d+3) S + 2n + 16\right) \max|v|$, with $S$ the largest $\sum_c |q_c k_c| / \sqrt d$.
#
# How much a whole stack makes of such roundings, the stack can tell us itself. Run it in float32 and in float64: the
# difference $E$ shows what roundings of relative size $2^{-24}$ amount to. Float64 rounds $2^{29}$ times finer. Two
# runs are compared, and one maximum is taken for another, so we allow $32 \cdot 2^{-29} E$.
#
# Now the *causal* mask. Word $t$ sees the words up to $t$. Shuffling changes who has seen whom, and that is order! One
# layer does not help the last word: it sees all the others, as a bag. But in a second layer it looks at words which
# know what came before *them*.
#
# **What would refute the claim** is thus a model without any encoding that solves a task which needs order.
# **What would refute our correction** is an unmasked stack without encoding that reacts to order by more than rounding.


# %%
def without_encoding(model):
    """Zeros in place of the waves."""
    for part in model.modules():
        if isinstance(part, Positions):
            part.weight = Tensor(np.zeros(part.weight.shape, dtype=part.weight.dtype))
    return model


def full_attention(depth, words, length, dtype="float64"):
    return Bert(words, 16, 2, depth, 32, length, seed=depth, positions="sinusoidal", dtype=dtype)


def causal(depth, words, length, dtype="float64"):
    return Classifier(words, 16, 2, depth, 32, max_len=length, seed=depth, dtype=dtype)


def word_scores(model, ids):
    with no_grad():
        return model(ids, np.zeros_like(ids))[0].numpy()


def class_scores(model, ids):
    with no_grad():
        return model(ids).numpy()


# %% [markdown]
# The task: somewhere among filler words stand one *a* and one *b*. Which came first? At both ends stands a marker, from
# which the models read their answer. Every test sentence has a twin in which *a* and *b* have changed places, and whose
# right answer is the opposite. Whoever is blind to order gives both twins the same answer, and is right exactly once.


# %%
FILLERS, A, B, MARKER, PLACES = 4, 4, 5, 6, 7


def sentences(places, rng):
    """places (n, 2): where a and b stand → ids (n, 9), labels (n): whether a comes first"""
    ids = rng.integers(FILLERS, size=(len(places), PLACES))
    rows = np.arange(len(places))
    ids[rows, places[:, 0]], ids[rows, places[:, 1]] = A, B
    return np.pad(ids, ((0, 0), (1, 1)), constant_values=MARKER), (places[:, 0] < places[:, 1]).astype(int)


def twins(rounds=8):
    """Sentences with a and b at every two places, and the same ones with a and b exchanged."""
    pairs = np.array([(i, j) for i in range(PLACES) for j in range(PLACES) if i != j] * rounds)
    ids, labels = sentences(pairs, np.random.default_rng(1))
    return ids, np.where(ids == A, B, np.where(ids == B, A, ids)), labels


def answers(model, ids):
    """Scores for "a first" and "b first" (n, 2), a Tensor."""
    return model(ids, np.zeros_like(ids))[1] if isinstance(model, Bert) else model(ids)


def train_on_order(model):
    """→ how many of the test sentences and their twins are answered rightly, and how many there are"""
    rng, optimizer = np.random.default_rng(0), Adam(model.parameters(), lr=5e-3)
    for _ in range(600 if lesson.full else 200):
        ids, labels = sentences(rng.permuted(np.tile(np.arange(PLACES), (64, 1)), axis=1)[:, :2], rng)
        optimizer.zero_grad()
        F.cross_entropy(answers(model, ids), labels).backward()
        optimizer.step()
    ids, exchanged, labels = twins()
    with no_grad():
        right = [
            (answers(model, i).numpy().argmax(axis=1) == y).sum() for i, y in ((ids, labels), (exchanged, 1 - labels))
        ]
    return int(sum(right)), 2 * len(ids)


# %% [markdown]
# The broken engines for this trial: one whose attention prefers early keys, so that order enters where it should not;
# one whose waves cannot be turned off, one whose waves never arrive, and one without the mask.


# %%
def attention_moves(rng, n=33, d=8):
    """How far shuffling keys and values moves attention, in units of the bound."""
    q, k, v = (rng.standard_normal((n, d)) for _ in range(3))
    order = rng.permutation(n)
    one, other = (
        F.attention(*(Tensor(a[None, None]) for a in x)).numpy() for x in ((q, k, v), (q, k[order], v[order]))
    )
    S = (np.abs(q) @ np.abs(k).T).max() / math.sqrt(d)
    return np.abs(one - other).max() / (EPS * (2 * (d + 3) * S + 2 * n + 16) * np.abs(v).max())


def stack_moves(scores, build, depth, rng, shuffle, encoded=False, words=9, T=12):
    """How far shuffling the words moves the shuffled results, in units of what rounding explains."""
    exact, coarse = (build(depth, words, T, dtype) for dtype in ("float64", "float32"))
    if not encoded:
        exact, coarse = without_encoding(exact), without_encoding(coarse)
    ids = rng.integers(words, size=(8, T))
    order = shuffle(T)
    before, after = scores(exact, ids), scores(exact, ids[:, order])
    before = before[:, order] if before.ndim == 3 else before
    return np.abs(after - before).max() / (32 * 2.0**-29 * np.abs(scores(coarse, ids) - scores(exact, ids)).max())


# %%
@lesson.trial(
    "pe-needed",
    "Without positional encoding a transformer cannot see the order of its words.",
    controls=[faults.early_keys_preferred, faults.encoding_stays, faults.encoding_off, faults.mask_off],
)
def pe_needed(trial):
    rng = np.random.default_rng(4)
    tries = 50 if lesson.full else 10
    moved = max(attention_moves(rng) for _ in range(tries))
    trial.check(moved <= 1, f"shuffled keys move attention by {moved:.2g} of the rounding bound ({tries} orders)")
    every, first = (lambda T: rng.permutation(T)), (lambda T: np.append(rng.permutation(T - 1), T - 1))
    full = [stack_moves(word_scores, full_attention, depth, rng, every) for depth in (1, 2, 3, 4)]
    trial.check(max(full) <= 1, f"full attention, 1 to 4 layers: shuffling moves it by {max(full):.2g} of the bound")
    told = stack_moves(word_scores, full_attention, 2, rng, every, encoded=True)
    trial.check(told > 1e4, f"the same with the waves: {told:.1e} times the bound (over 1e4 expected)")
    one, two = (stack_moves(class_scores, causal, depth, rng, first) for depth in (1, 2))
    trial.check(one <= 1, f"causal, 1 layer: the order of earlier words moves the last by {one:.2g} of the bound")
    trial.check(two > 1e4, f"causal, 2 layers: {two:.1e} times the bound (over 1e4 expected)")
    words, T = MARKER + 1, PLACES + 2
    results = {
        "full attention, no encoding, 2 layers": train_on_order(without_encoding(full_attention(2, words, T))),
        "full attention, waves, 2 layers": train_on_order(full_attention(2, words, T)),
        "causal, no encoding, 1 layer": train_on_order(without_encoding(causal(1, words, T))),
        "causal, no encoding, 2 layers": train_on_order(without_encoding(causal(2, words, T))),
    }
    blind, seeing, bag, causal_right = (right for right, _ in results.values())
    asked = results["causal, no encoding, 2 layers"][1]
    for name, right in (("full attention", blind), ("causal, 1 layer", bag)):
        trial.check(2 * right == asked, f"trained without encoding, {name}: {right} of {asked} right (half expected)")
    trial.check(seeing > 0.95 * asked, f"trained with the waves, full attention: {seeing} of {asked} right")
    trial.check(
        causal_right > 0.95 * asked, f"trained without encoding, causal, 2 layers: {causal_right} of {asked} right"
    )
    caption = "Four trained models: waves or a causal mask with two layers make order visible"
    trial.show(figures.order(results), "order", caption)
    return "sharpened", (
        f"true of full attention (moved by {max(full):.2g} of rounding, {blind} of {asked} right); "
        f"a causal mask lets order in from the second layer on: {causal_right} of {asked} right without any encoding"
    )


# %% [markdown]
# So the claim needs a condition: *with full attention* (BERT, or a translator's encoder) the stack is blind, and no
# training helps. A causal stack of two layers or more can find out the order by itself. It may still be easier for it
# to be told.
#
# ## Second trial: added, or appended?
#
# **Claim.** The encoding has the width of the word vectors and is added to them. (Some say: appended.)
#
# **What would refute it.** An input to the first layer that is wider than the word vectors, or longer than the text, or
# that is not the sum to the last bit; a parameter count that depends on the encoding.
#
# **Experiment.** Look. The engine's input to the first layer is compared with the sum computed here, bit by bit. Then
# count parameters with tables of two lengths, and compare with a formula that has no term for positions.
#
# By the way, adding is less different from appending than it sounds. A matrix applied to a sum is the same matrix
# applied to both parts: $W(x + p) = [\,W\;\;W\,]\begin{bmatrix}x \\ p\end{bmatrix}$. Appending would allow two
# different matrices, at twice the width, and for the first layer's projections at twice the parameters. We check the
# identity on small whole numbers, where arithmetic is exact.


# %%
@lesson.trial(
    "pe-added",
    "The encoding has the embedding's width and is added (not appended).",
    controls=[faults.encoding_appended, faults.encoding_multiplied, faults.positions_learned],
)
def pe_added(trial):
    V, C, T, L, rng = 11, 24, 9, 2, np.random.default_rng(6)
    model, longer = (LanguageModel(V, C, 2, L, 32, max_len=n, dtype="float64") for n in (T, 50 * T))
    ids = rng.integers(V, size=(3, T))
    vectors = model.base.embedding(ids).numpy()
    trial.check(vectors.shape == (3, T, C), f"{T} words of width {C} enter the first layer as {vectors.shape[1:]}")
    layer = 3 * C * C + 3 * C + C * C + C + (C * 32 + 32) + (32 * C + C) + 4 * C
    formula = V * C + L * layer + C * V + V
    counts = model.num_parameters(), longer.num_parameters()
    trial.check(
        counts == (formula, formula),
        f"{counts[0]:,} parameters with {T} positions, {counts[1]:,} with {50 * T}; words, layers, head: {formula:,}",
    )
    table = positions.positional_encoding(T, C)
    differ = int((vectors != model.base.embedding.weight.numpy()[ids] * math.sqrt(C) + table).sum())
    trial.check(differ == 0, f"{differ} of {vectors.size} input numbers differ from word + wave (0 expected)")
    W, x, p = (rng.integers(-9, 10, shape).astype(float) for shape in ((5, C), (7, C), (7, C)))
    summed, beside = (
        F.linear(*map(Tensor, pair)).numpy() for pair in ((x + p, W), (np.hstack([x, p]), np.hstack([W, W])))
    )
    equal = int((summed == beside).sum())
    trial.check(equal == summed.size, f"W(x + p) = [W W][x; p] in {equal} of {summed.size} entries, exactly")
    wider = 3 * C * 2 * C - 3 * C * C
    return "proved", (
        f"all {vectors.size} inputs are word + wave to the last bit, width stays {C}, the encoding has 0 parameters; "
        f"appended, the first projections alone would need {wider:,} more"
    )


# %% [markdown]
# Added, then; "appended" is refuted by the width. The sum can still be taken apart, because words and waves tend to
# live in different directions of a space with hundreds of them, and the projections are free to read either.
#
# ## Third trial: a step is a rotation
#
# The table holds, for each position $p$, pairs of columns $\sin(\omega_i p), \cos(\omega_i p)$, with
# $\omega_i = 10000^{-2i/C}$ from 1 down to nearly 1/10000.
#
# **Claim.** For every shift $k$ there is *one* matrix $M_k$ with $PE(p+k) = M_k\, PE(p)$ for all positions $p$.
#
# The addition theorems say what it must be. A pair of columns is a hand of a clock, and $k$ steps turn it by
# $\omega_i k$, from wherever it stands:
#
# $$\begin{bmatrix}\sin \omega(p+k) \\ \cos \omega(p+k)\end{bmatrix} = \begin{bmatrix}\cos \omega k & \sin \omega k \\
# -\sin \omega k & \cos \omega k\end{bmatrix} \begin{bmatrix}\sin \omega p \\ \cos \omega p\end{bmatrix}.$$
#
# Rotations form a group: $M_a M_b = M_{a+b}$, $M_{-k} = M_k^\top = M_k^{-1}$. And rotations keep angles, so the dot
# product $PE(p) \cdot PE(q) = \sum_i \cos \omega_i (p-q)$ knows only the distance. A query can ask for "three words
# back" with one matrix, at every position.
#
# **What would refute it.** A residual above what rounding explains. An angle $\omega p$ is off by $u\,\omega p$ (with
# $u = \varepsilon/2$), a sine or cosine by two $u$ more; both enter $M_k PE(p)$, the sum of two products rounds again.
# Added up: $\varepsilon\,(1.25\,\omega (p + k) + 6)$ for each entry. And to be sure that a small residual means
# something: tables without this structure, for which *no* matrix does it. The best one there is comes from least
# squares.


# %%
def frequencies(C):
    return 1 / 10000.0 ** (np.arange(0, C, 2) / C)


def rotation(k, C):
    """M_k (C, C)"""
    M, i = np.zeros((C, C)), np.arange(0, C, 2)
    angle = k / 10000.0 ** (i / C)
    M[i, i] = M[i + 1, i + 1] = np.cos(angle)
    M[i, i + 1], M[i + 1, i] = np.sin(angle), -np.sin(angle)
    return M


def rounding(steps, C):
    """The bound above, for each column.   steps: p + k"""
    return EPS * (1.25 * steps * np.repeat(frequencies(C), 2) + 6)


def best_matrix(table, k):
    """Of all matrices the one that maps position p to p + k best, and the root mean square of what remains."""
    M = np.linalg.lstsq(table[:-k], table[k:], rcond=None)[0].T
    return M, np.sqrt(((table[:-k] @ M.T - table[k:]) ** 2).mean())


# %% [markdown]
# The wrong tables: sines of as many frequencies but no cosines; a random table; and a mistake that is met in real code,
# where sine and cosine of a pair have different frequencies because the exponent counts columns instead of pairs.


# %%
@lesson.trial(
    "pe-linear",
    "For every k there is one matrix M_k with PE(pos + k) = M_k PE(pos) for all pos.",
    controls=[faults.sine_only, faults.random_table, faults.waves_unpaired],
)
def pe_linear(trial):
    n, C = 2048, 8
    table, shifts = positions.positional_encoding(n, C), (1, 2, 5, 17, 100, 512)
    fits = {k: best_matrix(table, k) for k in shifts}
    # the table's own rounding, and lstsq's, which is backward stable
    left = max(rms for _, rms in fits.values()) / (rounding(n, C).max() + n * EPS)
    trial.check(left <= 1, f"{n} positions, width {C}: the best matrix leaves {left:.2g} of the rounding bound")
    smallest = np.linalg.svd(table[: n - 512], compute_uv=False)[-1]
    bound = (np.linalg.norm(rounding(n, C)) * math.sqrt(n) + n * EPS * math.sqrt(n * C)) / smallest
    off = max(np.abs(M - rotation(k, C)).max() for k, (M, _) in fits.items()) / bound
    trial.check(off <= 1, f"and it is the rotation: {off:.2g} of the bound away for k = {', '.join(map(str, shifts))}")
    others = {"sines only": sine_table(n, C), "random": random_numbers(n, C), "unpaired": unpaired_table(n, C)}
    least = {name: min(best_matrix(other, k)[1] for k in shifts) for name, other in others.items()}
    trial.check(
        min(least.values()) > 0.1,
        "no matrix shifts the others: at best "
        + ", ".join(f"{name} {rms:.2f}" for name, rms in least.items())
        + " rms",
    )

    n, C = (1024, 200) if lesson.full else (256, 64)
    table, model = positions.positional_encoding(n, C), LanguageModel(5, C, 2, 1, 8, max_len=n, dtype="float64")
    same = int((model.base.embedding.positions.weight.numpy() == table).sum())
    trial.check(same == table.size, f"{same} of {table.size} numbers are those that the models add")
    steps = np.arange(n)[:, None]
    worst = max(
        (np.abs(table[k:] - table[: n - k] @ rotation(k, C).T) / rounding(steps[k:], C)).max() for k in range(n)
    )
    back = max(
        (np.abs(table[: n - k] - table[k:] @ rotation(-k, C).T) / rounding(steps[k:] + k, C)).max() for k in range(n)
    )
    pairs = n * n
    trial.check(
        max(worst, back) <= 1, f"M_k PE(p) = PE(p + k) for {pairs:,} pairs: {max(worst, back):.2g} of the bound at most"
    )
    step = n // 36
    M = [rotation(k, C) for k in range(0, n, step)]
    orthogonal = max(np.abs(m @ m.T - np.eye(C)).max() for m in M) / (6 * EPS)
    trial.check(orthogonal <= 1, f"M_k is orthogonal to {orthogonal:.2g} of the bound")
    mirrored = all((rotation(-k, C) == rotation(k, C).T).all() for k in range(n))
    trial.check(mirrored, f"M_(-k) is the transpose of M_k {'to the last bit' if mirrored else 'NOT everywhere'}")
    joined = max(
        (np.abs(a @ b - rotation(step * (i + j), C)) / rounding(step * (i + j), C)[:, None]).max()
        for i, a in enumerate(M) for j, b in enumerate(M)
    )  # fmt: skip
    trial.check(joined <= 1, f"M_a M_b = M_(a+b) for {len(M) ** 2} pairs: {joined:.2g} of the bound at most")
    products = table @ table.T
    spread = max(np.ptp(np.diagonal(products, k)) for k in range(n))
    # both entries of each product are off by their angles, and a sum of C terms of total size C/2 rounds
    toeplitz = 2 * EPS * (2 * n * frequencies(C).sum() + 2.5 * C + C * C / 4)
    trial.check(spread <= toeplitz, f"PE(p) PE(q) varies by {spread:.1e} at fixed p - q ({toeplitz:.1e} allowed)")
    tables = {"engine's table": positions.positional_encoding(n, 8)} | {k: other[:n] for k, other in others.items()}
    shifts = np.unique(np.geomspace(1, 128, 20).astype(int))
    remains = {name: [best_matrix(other, k)[1] for k in shifts] for name, other in tables.items()}
    caption = "The waves; their dot products, which know distances only; and what a matrix cannot shift"
    trial.show(figures.waves(table, products, shifts, remains), "waves", caption)
    return "proved", (
        f"M_k PE(p) = PE(p+k) for {pairs:,} pairs to {max(worst, back):.2g} of the rounding bound; least squares finds "
        f"M_k by itself; without cosines the best matrix is off by {least['sines only']:.2f}"
    )


# %% [markdown]
# One matrix for each shift, whatever the position; found by calculation and, without being told, by least squares from
# the engine's own table. (Least squares needs positions enough to tell the slow waves apart. At width 64 with 512
# positions the slowest ones are nearly straight lines, and many matrices do equally well; that is why the fit used
# eight columns and 2,048 positions.)
#
# ## Fourth trial: different, and how different
#
# **Claim.** Different positions get distinguishable codes, and alternating sine and cosine makes them more contrasted.
#
# **What would refute it.** Two positions with the same code; or a table without alternation that is just as contrasted.
#
# **Experiment.** The distances of all pairs of positions, at the size of the first lab's model. Then three other
# tables of the same width. *Halves*: first all sines, then all cosines: no alternation, yet only the names of the
# columns have changed. Distances are summed exactly (`math.fsum` rounds once, at the end, so order cannot matter) and
# must agree to the last bit. *Sines only*: half of each clock hand. A sine alone cannot tell a hand that rises from
# one that falls, and near its extremes it hardly moves: how well two neighbours can be told apart should then depend
# on where they stand.


# %%
def halves(table):
    """All sines first, then all cosines."""
    return np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1)


def exact_distances(table):
    """Squared distances of all pairs, each a sum that is rounded once."""
    return np.array([math.fsum((a - b) ** 2) for i, a in enumerate(table) for b in table[:i]])


# %%
@lesson.trial(
    "pe-distinct",
    "Different positions get distinguishable codes, and alternating sine and cosine makes them more contrasted.",
    controls=[faults.positions_repeat, faults.sine_only, faults.random_table],
)
def pe_distinct(trial):
    n, C = (2000, 512) if lesson.full else (512, 200)
    table = positions.positional_encoding(n, C)
    square = (table**2).sum(axis=1)
    distances = np.sqrt(np.maximum(square[:, None] + square - 2 * table @ table.T, 0)[np.triu_indices(n, 1)])
    nearest = distances.min()
    # squares and products are sums of C terms of total size C/2: the root of their rounding is what 0 may look like
    noise = math.sqrt(2 * EPS * C * C)
    trial.check(
        nearest > 1e3 * noise, f"closest of {len(distances):,} pairs: {nearest:.3f} apart (rounding: {noise:.0e})"
    )
    steps, sines = (np.linalg.norm(np.diff(t, axis=0), axis=1) for t in (table, sine_table(n, C)))
    expected = math.sqrt((4 * np.sin(frequencies(C) / 2) ** 2).sum())
    # each entry of a difference is off by its two angles, so the norm by the norm of that
    bound = np.linalg.norm(2 * rounding(n, C))
    trial.check(
        np.abs(steps - expected).max() <= bound,
        f"neighbours: {steps.min():.6f} to {steps.max():.6f} apart, {expected:.6f} by theory, wherever they stand",
    )
    trial.check(
        sines.min() < steps.min() and sines.max() > 1.3 * sines.min(),
        f"sines only, same width: {sines.min():.3f} to {sines.max():.3f} apart, at worst closer than {steps.min():.3f}",
    )
    small = positions.positional_encoding(96, 32)
    one, other = exact_distances(small), exact_distances(halves(small))
    equal = int((one == other).sum())
    trial.check(
        equal == len(one), f"halves instead of alternation: {equal} of {len(one)} distances equal to the last bit"
    )
    clock = positions.positional_encoding(23, 2)
    near, far = abs(clock[22, 0] - clock[0, 0]), np.linalg.norm(clock[22] - clock[0])
    trial.check(
        near < 0.01 and far > 1.99, f"positions 0 and 22 on one hand: sine {near:.4f} apart, with cosine {far:.4f}"
    )
    tables = {"sine and cosine": positions.positional_encoding(160, 16), "sines only": sine_table(160, 16)}
    gaps = {name: np.linalg.norm(np.diff(table, axis=0), axis=1) for name, table in tables.items()}
    caption = "Only pairs separate neighbours evenly; by its sine alone 22 could be 0"
    trial.show(figures.neighbours(gaps, clock, width=16), "neighbours", caption)
    return "sharpened", (
        f"closest of {len(distances):,} pairs {nearest:.3f} apart; alternation changes none of {equal} distances; what "
        f"matters is that a sine has its cosine: without, neighbours lie {sines.min():.2f} to {sines.max():.2f} apart"
    )


# %% [markdown]
# Codes differ, and by a margin. But alternation has nothing to do with it: it is a way of numbering the columns, and
# the first matrix of the network does not care about numbers. What matters is that each sine has *its* cosine: then
# every neighbour is exactly as far away as every other, here and anywhere, and a step looks the same all along the
# text.

# %%
lesson.finish()
