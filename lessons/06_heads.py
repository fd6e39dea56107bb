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

import numpy as np

import autograd.functional as F
from autograd import Tensor, no_grad, tape
from kernels.contract import CONTRACT
from lessons import faults
from lessons.figures import heads as figures
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


def milliseconds(layer, x):
    """The shortest of six runs."""
    stamps = [time.perf_counter()]
    with no_grad():
        for _ in range(6):
            layer(x)
            stamps.append(time.perf_counter())
    return 1e3 * min(np.diff(stamps))


# %%
@lesson.trial(
    "heads-free",
    "h heads of width d/h cost what one head of width d costs.",
    controls=[faults.bias_for_each_head, faults.every_head_projects_all, faults.heads_tied],
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
    n, d, heads = 128, 64, [1, 2, 4, 8, 16, 32, 64]
    layers = [layer_and_input(d, h, n, "float32") for h in heads]
    parts = [work(written_out(*each)) for each in layers]
    figure = figures.work(n, d, heads, parts, [milliseconds(*each) for each in layers])
    trial.show(figure, "work", "The products do not change with the number of heads; the softmax work does.")
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
# The argument about the segment can be looked at in a trained model: where it puts the four cases of one question.


# %%
def on_the_segment(model):
    """The coins (a, b) of the four cases, their places λ, and both scores of "1" against "0" (4, 2)."""
    a, b = FIRST[0], SECOND[0]
    rows = np.zeros((4, BOXES), dtype=int)
    rows[:, a], rows[:, b] = (0, 0, 1, 1), (0, 1, 0, 1)
    p = model.weights()[0, 0]
    place = (rows[:, a] * p[a] + rows[:, b] * p[b]) / (p[a] + p[b])
    with no_grad():
        scores = model(rows).numpy()[:, 0]
    return rows[:, [a, b]], place, scores[..., 1] - scores[..., 0]


# %%
@lesson.trial(
    "heads-more",
    "Several heads let one layer follow several relations at once.",
    controls=[faults.heads_tied, faults.head_in_two_halves, faults.question_ignored],
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
    curves = {heads: [trained(heads, seed)[1] for seed in range(seeds)] for heads in (1, 2)}
    trial.show(figures.loss(curves, WIDTH, BOUND), "loss", "One head stays above the bound, two heads pass it.")
    weights = [*trained(1, 0)[0].weights(), *trained(2, 0)[0].weights()]
    trial.show(figures.weights(weights, FIRST, SECOND), "weights", "One head must share its weights.")
    cases = on_the_segment(trained(1, 0)[0])
    trial.show(figures.segment(*cases), "segment", "Coins (a, b) on the segment of a trained single head.")
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
