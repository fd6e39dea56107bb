# %% [markdown]
# # 6. Why several heads
#
# Every transformer splits its attention into heads: instead of one attention of width $d$, $h$ of them of width $d/h$
# side by side. Two reasons are given. It costs nothing, and it lets a layer look at several places at once. Both can
# be tested: the first by counting, the second by a task that one head provably cannot do, and two heads can.
#
# Run it: `python lessons/06_heads.py [--backend NAME] [--full] [--break CONTROL]`.

# %%
import itertools
import math
import time

import matplotlib.pyplot as plt
import numpy as np

import autograd.functional as F
from autograd import Tensor, no_grad, tape
from kernels.contract import CONTRACT
from lessons.harness import style
from lessons.harness.trial import Lesson
from minitransformer.app.tables import table
from minitransformer.layers import Embedding, Linear, MultiheadAttention
from minitransformer.module import Init, Module
from minitransformer.optim import Adam

lesson = Lesson(__file__)

# %% [markdown]
# ## What heads cost
#
# **Claim.** $h$ heads of width $d/h$ cost what one head of width $d$ costs.
#
# **What would refute it:** a parameter more or less, or an operation more or less, for some $h$ that divides $d$.
#
# **Experiment.** Build the engine's layer for every $h$ that divides $d$, and count its weights. Then run it twice: as
# it is, with attention in one fused kernel, and written out in matrix products and a softmax, so that the tape shows
# the parts apart. Both must give the same numbers.


# %%
def work(result):
    """Operations on the tape, apart for each kernel."""
    flops = {}
    for node in tape.functions(result):
        for name, arguments in node.kernels.calls[: node.forward_calls]:
            flops[name] = flops.get(name, 0) + CONTRACT[name].cost(*arguments).flops
    return flops


def layer_and_input(d, heads, n, dtype="float64"):
    x = np.random.default_rng(0).standard_normal((1, n, d)).astype(dtype)
    return MultiheadAttention(d, heads, init=Init(0, dtype)), Tensor(x, requires_grad=True)


def written_out(layer, x):
    """The layer's formula, one kernel for each operation."""
    q, k, v = layer._project(x, 0, 3)
    p = F.softmax(q @ k.swapaxes(2, 3) * q.shape[-1] ** -0.5)
    return layer.out_proj((p @ v).transpose(0, 2, 1, 3).reshape(x.shape))


def draw_work():
    n, d = 128, 64
    heads = [1, 2, 4, 8, 16, 32, 64]
    layers = [layer_and_input(d, h, n, "float32") for h in heads]
    parts = [work(written_out(*each)) for each in layers]
    products = np.array([part["linear"] + part["matmul"] for part in parts]) / 1e6
    others = np.array([part["softmax"] + part["multiply"] for part in parts]) / 1e6
    figure, (counts, times) = plt.subplots(1, 2, figsize=(9.2, 3.8))
    names = [str(h) for h in heads]
    counts.bar(names, products, color=style.BLUE, label="matrix products")
    counts.bar(names, others, bottom=products, color=style.ORANGE, hatch="//", ec="white", label="softmax and scaling")
    counts.set(xlabel="heads h", ylabel="million operations", title=f"Counted (n = {n}, d = {d})")
    counts.set_ylim(0, 1.25 * (products + others).max())
    counts.legend(loc="upper left")
    measured = []
    with no_grad():
        for layer, x in layers:
            stamps = [time.perf_counter()]
            for _ in range(6):
                layer(x)
                stamps.append(time.perf_counter())
            measured.append(1e3 * min(np.diff(stamps)))
    times.bar(names, measured, color=style.GREY)
    times.set(xlabel="heads h", ylabel="milliseconds", title="Measured here, fused kernel")
    return figure


def bias_for_each_head(engine):
    "every head brings d weights of its own"

    def greedy(init):
        def more(self, embed_dim, num_heads, *rest, **options):
            init(self, embed_dim, num_heads, *rest, **options)
            self.more = Init().constant(0, num_heads, embed_dim)

        return more

    engine.replace(MultiheadAttention, "__init__", greedy)


def every_head_projects_all(engine):
    "each head computes the projections of all heads and keeps its own: the same numbers, for more work"

    def wasteful(project):
        def apart(self, *arguments):
            copies = [project(self, *arguments) for _ in range(self.num_heads)]
            return [
                F.concatenate([c[:, h : h + 1] for h, c in enumerate(q)], axis=1) for q in zip(*copies, strict=True)
            ]

        return apart

    engine.replace(MultiheadAttention, "_project", wasteful)


def one_softmax_for_all(engine):
    "all heads use the weights of the first"

    def shared(_attention):
        def attend(q, k, v, **_options):
            return F.softmax(q[:, :1] @ k[:, :1].swapaxes(2, 3) * q.shape[-1] ** -0.5) @ v

        return attend

    engine.replace(F, "attention", shared)


# %%
@lesson.trial(
    "heads-free",
    "h heads of width d/h cost what one head of width d costs.",
    controls=[bias_for_each_head, every_head_projects_all, one_softmax_for_all],
)
def heads_free(trial):
    n, widths = 20, (48, 60, 64, 210) if lesson.full else (48, 60)
    cases = [(d, h) for d in widths for h in range(1, d + 1) if d % h == 0]
    counted = {case: layer_and_input(*case, 1)[0].num_parameters() for case in cases}
    equal = sum(counted[d, h] == counted[d, 1] == 4 * d * d + 4 * d for d, h in cases)
    trial.check(equal == len(cases), f"{equal} of {len(cases)} layers have exactly 4d² + 4d weights, whatever h is")

    fused, apart, worst = {}, {}, 0.0
    for d, h in cases:
        layer, x = layer_and_input(d, h, n)
        y, z = layer(x), written_out(layer, x)
        fused[d, h], apart[d, h] = work(y), work(z)
        worst = max(worst, np.abs(y.numpy() - z.numpy()).max() / np.abs(z.numpy()).max())
    # both sum at most d + n products in another order: a few roundings each, far below (d + n) of them
    bound = (max(widths) + n) * np.finfo(float).eps
    trial.check(worst < bound, f"fused and written out differ by {worst:.1e} of the largest value (below {bound:.1e})")
    for name in ("linear", "matmul"):
        equal = sum(apart[d, h][name] == apart[d, 1][name] for d, h in cases)
        trial.check(
            equal == len(cases), f"{equal} of {len(cases)} layers do as many {name} operations as with one head"
        )
    equal = sum(fused[d, h]["linear"] == apart[d, h]["linear"] for d, h in cases)
    trial.check(equal == len(cases), f"{equal} of {len(cases)} fused layers do as many linear operations, too")
    grown = sum(apart[d, h]["softmax"] == h * apart[d, 1]["softmax"] for d, h in cases)
    trial.check(grown == len(cases), f"{grown} of {len(cases)} layers do h times the softmax work of one head")
    added = sum(fused[d, h]["attention"] - fused[d, 1]["attention"] == (h - 1) * (4 * n * n + 2 * n) for d, h in cases)
    trial.check(added == len(cases), f"{added} of {len(cases)} fused kernels do (h - 1)(4n² + 2n) operations more")
    rows = [(h, f"{apart[48, h]['matmul']:,}", f"{apart[48, h]['softmax']:,}") for d, h in cases if d == 48]
    trial.note(table(("heads (d = 48)", "matrix products", "softmax"), rows, right=(0, 1, 2)))
    trial.show(draw_work(), "work", "The products do not change with the number of heads; the softmax work does.")
    evidence = f"weights and products equal for {len(cases)} pairs (d, h); the softmax work is h times as much"
    return "sharpened" if grown else "proved", evidence


# %% [markdown]
# Weights and matrix products are exactly the same for every $h$. The softmax is not: each head has $n^2$ weights of its
# own, so its work is $h n^2$, a share of about $1/D$ of the products with $D = d/h$ the width of a head. At $D = 64$
# nobody notices; at $D = 1$ the softmax is as much work as the products it serves.
#
# ## What heads buy
#
# **Claim.** Several heads let one layer follow several relations at once.
#
# **The task.** Six boxes, each with an address, hold a coin each: heads or tails, 0 or 1. A question names two
# addresses $a \ne b$, and both contents are to be told, first that of $a$, then that of $b$. Keys are made of addresses
# and values of contents, as in a dictionary; the read-out is linear.
#
# **Why one head cannot.** It returns one mixture $o = \sum_s p_s v_s$, with weights that depend on the question only.
# Fix everything but the two coins asked for. Then $o$ lies on a *segment*, at the point $\lambda$, the share of 1s:
#
# | coins $a, b$ | 0, 0 | 0, 1 | 1, 0 | 1, 1 |
# |---|---|---|---|---|
# | $\lambda$ | 0 | $p_b / (p_a + p_b)$ | $p_a / (p_a + p_b)$ | 1 |
#
# The score of "1" against "0" is a linear function of $o$, so it only rises or only falls along the segment. The
# first answer must order the four points as 00, 01 | 10, 11, hence $p_b < p_a$. The second must order them as
# 00, 10 | 01, 11, hence $p_a < p_b$. Both cannot be.
#
# **The bound.** Say $p_b \le p_a$; then the second answer is in trouble. Let $g(\lambda)$ be its score, and
# $\ell(x) = \log(1 + e^{-x})$ the loss of an answer whose score is $x$ on the right side. If $g$ rises, the cases 01
# and 10 cost $\ell(g(\lambda_{01})) + \ell(-g(\lambda_{10}))$. Here $g(\lambda_{01}) \le g(\lambda_{10})$, so that is
# at least $\ell(x) + \ell(-x) \ge 2 \log 2$. If $g$ falls, the same holds for the cases 11 and 00. So the eight
# answers of the four cases cost at least $2 \log 2$ together: **$\tfrac14 \log 2 \approx 0.173$ an answer, and never
# are all eight right.** Nothing was assumed about width, weights or training.
#
# **What would refute it:** one head that does better in a single group of four, or two heads that do not get below.
#
# **Experiment.** Train both, with the same total width, from several seeds; then ask every question about every
# possible row of boxes, so that the loss is exact and no sample is involved.

# %%
BOXES, WIDTH, STEPS = 6, 16, 200
BOUND = math.log(2) / 4
ROWS = np.array(list(itertools.product((0, 1), repeat=BOXES)))  # every possible content (64, 6)
FIRST, SECOND = np.array(list(itertools.permutations(range(BOXES), 2))).T  # every question (30)


class Lookup(Module):
    """One attention over a dictionary, and a linear read-out of two answers.

    unpack  width of a ReLU layer in front of the read-out; 0 for none"""

    def __init__(self, heads, seed, unpack=0):
        init = Init(seed, "float64")
        self.heads = heads
        self.address, self.first, self.second = (Embedding(BOXES, WIDTH, init=init) for _ in range(3))
        self.content = Embedding(2, WIDTH, init=init)
        self.query, self.key, self.value, self.out = (Linear(WIDTH, WIDTH, init=init) for _ in range(4))
        self.unpack = Linear(WIDTH, unpack, init=init) if unpack else None
        self.answers = Linear(unpack or WIDTH, 4, init=init)

    def split(self, x):
        """(B, T, C) → (B, H, T, D)"""
        return x.reshape(*x.shape[:2], self.heads, WIDTH // self.heads).transpose(0, 2, 1, 3)

    def queries_and_keys(self, rows):
        q = self.query((self.first(FIRST) + self.second(SECOND)) * 10)  # embeddings start small
        k = self.key(self.address(np.arange(BOXES)) * 10)
        return (self.split(x.reshape(1, *x.shape).expand(rows, *x.shape)) for x in (q, k))

    def forward(self, boxes):
        """boxes (B, 6) of 0 and 1 → scores (B, questions, 2 answers, 2 contents)"""
        values = self.split(self.value(self.content(boxes) * 10))
        mixed = F.attention(*self.queries_and_keys(len(boxes)), values)
        mixed = self.out(mixed.transpose(0, 2, 1, 3).reshape(len(boxes), len(FIRST), WIDTH))
        if self.unpack is not None:
            mixed = F.relu(self.unpack(mixed))
        return self.answers(mixed).reshape(len(boxes), len(FIRST), 2, 2)

    def weights(self):
        """Who looks where.   → (H, questions, boxes)"""
        q, k = self.queries_and_keys(1)
        return F.softmax(q @ k.swapaxes(2, 3) * q.shape[-1] ** -0.5).numpy()[0]


def right_answers(boxes):
    return np.stack([boxes[:, FIRST], boxes[:, SECOND]], axis=2)


@lesson.remember
def trained(heads, seed, unpack=0):
    """The model, and its loss before each step."""
    model, random, curve = Lookup(heads, seed, unpack), np.random.default_rng(seed), []
    optimizer = Adam(model.parameters(), lr=1e-2)
    for _ in range(STEPS * (2 if unpack else 1)):
        boxes = random.integers(0, 2, (32, BOXES))
        loss = F.cross_entropy(model(boxes), right_answers(boxes))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    return model, curve


def examine(model):
    """Over all questions and rows: the mean loss, and for every group of four its loss and its right answers."""
    with no_grad():
        scores = model(ROWS)
        losses = -F.log_softmax(scores).numpy()
    answers = right_answers(ROWS)
    losses = np.take_along_axis(losses, answers[..., None], axis=-1)[..., 0]
    right = scores.numpy().argmax(axis=-1) == answers
    grid = (2,) * BOXES + (len(FIRST), 2)  # one axis a box: a group of four is a sum over two of them
    groups = [
        [kind.reshape(grid)[..., q, :].sum(axis=(FIRST[q], SECOND[q], -1)) for q in range(len(FIRST))]
        for kind in (losses, right.astype(int))
    ]
    return losses.mean(), np.array(groups[0]), np.array(groups[1])


def best_single_head(delta):
    """The loss of a single head with weights 1/2 + delta and 1/2 - delta, and steep read-outs chosen by hand."""
    places = np.array([0, 0.5 - delta, 0.5 + delta, 1]) - 0.5
    scores = np.stack([places / delta**2, places / delta**0.5])  # the first answer; the second, less steep
    logits = np.stack([-scores, scores], axis=-1) / 2
    return F.cross_entropy(Tensor(logits), np.array([[0, 0, 1, 1], [0, 1, 0, 1]])).item()


# %% [markdown]
# Three pictures for it: the loss during training, the weights of the heads, and the argument about the segment, drawn
# from the numbers of a trained model.


# %%
def draw_curves(seeds):
    figure, axes = plt.subplots()
    for heads, colour, dashes in ((1, style.RED, "--"), (2, style.BLUE, "-")):
        for seed in range(seeds):
            label = f"{heads} head{'s' * (heads > 1)} of width {WIDTH // heads}, {seeds} seeds" if seed == 0 else None
            axes.plot(trained(heads, seed)[1], color=colour, ls=dashes, lw=1.3, label=label)
    axes.axhline(BOUND, color=style.GREY, lw=1.2, ls=":")
    axes.text(STEPS, BOUND, f"(log 2)/4 = {BOUND:.3f}: no single head gets below ", ha="right", va="bottom")
    axes.set(
        xlabel="training step", ylabel="loss of an answer", title="Two things to fetch, one layer", ylim=(-0.02, 0.8)
    )
    axes.legend()
    return figure


def draw_weights(one, two):
    maps = [("the only head", one.weights()[0])] + [(f"head {h + 1} of 2", w) for h, w in enumerate(two.weights())]
    figure, all_axes = plt.subplots(1, 3, figsize=(7.6, 5.6), sharey=True)
    for axes, (title, weights) in zip(all_axes, maps, strict=True):
        image = axes.imshow(weights, cmap="Greys", vmin=0, vmax=1, aspect="auto")
        axes.plot(FIRST, range(len(FIRST)), "o", color=style.BLUE, ms=4, label="asked first")
        axes.plot(SECOND, range(len(SECOND)), "^", color=style.ORANGE, ms=4, label="asked second")
        axes.set(title=title, xlabel="box", xticks=range(BOXES))
    all_axes[0].set_ylabel("question")
    figure.colorbar(image, ax=all_axes, label="attention weight", shrink=0.6)
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2)
    return figure


def draw_segment(model):
    """The four cases of one question: where the only head puts them, and the two scores there."""
    a, b = FIRST[0], SECOND[0]
    rows = np.zeros((4, BOXES), dtype=int)
    rows[:, a], rows[:, b] = (0, 0, 1, 1), (0, 1, 0, 1)
    p = model.weights()[0, 0]
    place = (rows[:, a] * p[a] + rows[:, b] * p[b]) / (p[a] + p[b])
    with no_grad():
        scores = model(rows).numpy()[:, 0]
    figure, axes = plt.subplots(figsize=(7.2, 3.8))
    for answer, colour, mark, name in ((0, style.BLUE, "o", "first"), (1, style.ORANGE, "^", "second")):
        score, one = scores[:, answer, 1] - scores[:, answer, 0], rows[:, (a, b)[answer]] == 1
        order = np.argsort(place)
        axes.plot(place[order], score[order], color=colour, ls="-", lw=1.2)
        axes.plot(place[one], score[one], mark, color=colour, ms=9, label=f"{name} answer, should be above 0")
        axes.plot(
            place[~one], score[~one], mark, mec=colour, mfc="white", ms=9, label=f"{name} answer, should be below"
        )
    for x, row in zip(place, rows, strict=True):
        axes.annotate(f"{row[a]}{row[b]}", (x, 1.02), xycoords=("data", "axes fraction"), ha="center", fontsize=11)
    axes.axhline(0, color=style.GREY, lw=1)
    axes.set(xlabel="place on the segment λ", ylabel='score of "1" against "0"')
    axes.legend(fontsize=8.5, loc="upper left")
    return figure


def heads_tied(engine):
    "all heads look where the first one looks"

    def tied(x):
        return F.concatenate([x[:, :1]] * x.shape[1], axis=1)

    engine.replace(F, "attention", lambda attention: lambda q, k, v, **_: attention(tied(q), tied(k), v))


def head_in_two_halves(engine):
    "a single head has a softmax for each half of its width"

    def halves(attention):
        def split(x):
            return x.reshape(*x.shape[:1], x.shape[2], 2, -1).transpose(0, 2, 1, 3)

        def attend(q, k, v, **options):
            if q.shape[1] > 1:
                return attention(q, k, v, **options)
            return attention(split(q), split(k), split(v)).transpose(0, 2, 1, 3).reshape(q.shape)

        return attend

    engine.replace(F, "attention", halves)


def question_ignored(engine):
    "attention does not look at its queries: all weights are equal"
    engine.replace(F, "attention", lambda attention: lambda q, k, v, **_: attention(q * 0, k, v))


# %%
@lesson.trial(
    "heads-more",
    "Several heads let one layer follow several relations at once.",
    controls=[heads_tied, head_in_two_halves, question_ignored],
)
def heads_more(trial):
    seeds, losses = 8 if lesson.full else 3, {1: [], 2: []}
    answers = 2 * len(ROWS) * len(FIRST)
    for seed in range(seeds):
        mean, group_losses, group_right = examine(trained(1, seed)[0])
        losses[1].append(mean)
        text = f"one head, seed {seed}: {group_right.max()} right at most in {group_right.size} groups of eight answers"
        trial.check(group_right.max() <= 7, f"{text} (7 allowed); {group_right.sum():,} of {answers:,} right")
        # eight logarithms in double precision, each rounded to about 1e-16 of its size
        enough = group_losses.min() >= 8 * BOUND - 1e-12
        text = f"one head, seed {seed}: smallest loss of a group {group_losses.min():.4f}"
        trial.check(enough, f"{text} (2 log 2 = {8 * BOUND:.4f} or more); mean loss {mean:.4f}")
        mean, _, group_right = examine(trained(2, seed)[0])
        losses[2].append(mean)
        text = f"two heads, seed {seed}: mean loss {mean:.1e} (below {BOUND:.4f})"
        trial.check(mean < BOUND, f"{text}; {group_right.sum():,} of {answers:,} right")

    close = best_single_head(1e-7) / BOUND - 1
    trial.check(
        0 <= close < 1e-3, f"a single head built by hand is {close:.1e} above the bound (0 to 1e-3): it is sharp"
    )
    unpacked, _, right = examine(trained(1, 0, 32)[0])
    text = f"one head with a ReLU layer before the read-out: loss {unpacked:.1e}, {right.sum():,} of {answers:,} right"
    trial.note(f"{text}: the argument needs a linear read-out")
    trial.show(draw_curves(seeds), "loss", "One head stays above the bound, two heads pass it.")
    trial.show(draw_weights(trained(1, 0)[0], trained(2, 0)[0]), "weights", "One head must share its weights.")
    trial.show(draw_segment(trained(1, 0)[0]), "segment", "Coins (a, b) on the segment of a trained single head.")
    one, two = min(losses[1]), max(losses[2])
    evidence = f"{seeds} seeds: one head at best {one:.3f}, the bound {BOUND:.3f}, two heads at worst {two:.1e}"
    return "proved" if two < BOUND <= one else "refuted", evidence


# %% [markdown]
# Two heads answer every question; one head of the same width, with as many weights, stays above a bound that holds for
# every single head there is. The heads share the work as the claim says: one follows "the first address", the other
# "the second".
#
# The condition matters. A mixture of two coins in *unequal* parts does contain both, and a non-linear layer behind it
# can take it apart: with a ReLU layer in front of the read-out the single head gets below the bound. What several
# heads buy is that nothing has to be taken apart.

# %%
lesson.finish()
