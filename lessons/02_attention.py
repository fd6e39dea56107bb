# %% [markdown]
# # 2. Attention, from its definition
#
# A sentence is a row of vectors, one for each word. To understand a word one has to look at others: the verb of a
# pronoun, the noun of an adjective. Attention is how a transformer looks. Each word asks a question (its *query*),
# each word offers a description of itself (its *key*) and something to take away (its *value*). A query is compared
# with all keys, and the answer is the average of the values, weighted by how well their keys fit. Nothing else in the
# network carries anything from one position to another, so everything that follows rests on this one formula.
#
# Run it: `python lessons/02_attention.py [--backend NAME] [--full]`; add `--break scale-off` to see a check fail.

# %%
import cmath
import itertools
import math

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons import faults
from lessons.figures import attention as figures
from lessons.harness.trial import Lesson
from minitransformer.layers import MultiheadAttention
from minitransformer.module import Init

lesson = Lesson(__file__)
EPS = np.finfo(np.float64).eps

# %% [markdown]
# ## The formula
#
# Let a sequence $y$ of $n_y$ words look at a sequence $x$ of $n_x$ words. Queries $Q_y$ are an $n_y \times d$ matrix,
# keys $K_x$ and values $V_x$ are $n_x \times d$. Then
#
# $$\mathrm{attention}(y \mid x) = \mathrm{softmax}\!\left(\frac{Q_y K_x^\top}{\sqrt d}\right) V_x
# \quad\in\ \mathbb{R}^{n_y \times d},$$
#
# where the softmax $e^{s_j} / \sum_i e^{s_i}$ is taken along each row: one row for each query, which sums to one. When
# $y$ is $x$ itself, this is called *self-attention*.
#
# Below, the same thing without any library: one number at a time, no matrices, no trick against overflow. It is slow
# and it is plainly the definition. It works with complex numbers, and in a moment we shall see why.


# %%
def by_definition(q, k, v):
    """q (n_y, d); k, v (n_x, d), lists of lists → (n_y, d)"""
    d, result = len(q[0]), []
    for query in q:
        scores = [sum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(d) for key in k]
        powers = [cmath.exp(score) for score in scores]
        total = sum(powers)
        result.append([sum(p / total * value[c] for p, value in zip(powers, v, strict=True)) for c in range(d)])
    return result


# %% [markdown]
# ## An exact derivative for free
#
# The gradients must be right as well, and for them we want a judge who shares nothing with the engine's derivative
# rules. Give one input a tiny *imaginary* part: $f(x + ih) = f(x) + ih f'(x) - \tfrac{1}{2} h^2 f''(x) - \dots$ The
# imaginary part of the result, divided by $h$, is the derivative. Nothing is subtracted, so nothing cancels: with
# $h = 10^{-200}$ the next term of the series is lost below the smallest number there is, and the derivative comes out
# to the last digits.


# %%
def slopes_by_definition(arrays, upstream, h=1e-200):
    """d Σ upstream · attention(q, k, v) by every entry of q, k and v."""
    slopes = [np.zeros(array.shape) for array in arrays]
    for which, array in enumerate(arrays):
        for place in np.ndindex(array.shape):
            nudged = [a.astype(complex) for a in arrays]
            nudged[which][place] += 1j * h
            out = np.array(by_definition(*(a.tolist() for a in nudged)))
            slopes[which][place] = (upstream * out).sum().imag / h
    return slopes


# %% [markdown]
# ## How far apart may two right answers be?
#
# Both sides round. Let $u = \varepsilon/2$ be half a unit in the last place, and $S$ the largest $\sum_c |q_c k_c| /
# \sqrt d$. A score is a sum of $d$ products, scaled and shifted by the row's maximum or its logarithmic sum: it is off
# by at most $(d+3)\,u\,S$, and so is that shift. The exponential turns an absolute error into a relative one. Two sums
# over $n_x$ keys add $2 n_x u$, and a few more units (16 is generous) cover exponentials, logarithm and division.
# Engine and loop may err in opposite directions, which doubles it:
#
# $$|\Delta\,\mathrm{out}| \le \varepsilon\,K \max|v|, \qquad K = 2(d+3)\,S + 2 n_x + 16.$$
#
# For gradients the same relative error $\varepsilon K$, with $2(n_y + d)$ more for their longer sums, meets these
# magnitudes, where $A$ is the largest $\sum_c |\bar o_c v_c|$ and the weights of a row sum to one:
# $|\bar q| \le 2A \max|k| / \sqrt d$, $|\bar k| \le 2A\, n_y \max|q| / \sqrt d$, $|\bar v| \le n_y \max|\bar o|$.


# %%
def allowed(q, k, v, upstream):
    """The bounds above: for the output, and for the gradients of q, k, v."""
    (n_y, d), n_x = q.shape, len(k)
    q, k, v, upstream = (np.abs(a) for a in (q, k, v, upstream))
    K = 2 * (d + 3) * (q @ k.T).max() / math.sqrt(d) + 2 * n_x + 16
    A = (upstream @ v.T).max()
    largest = 2 * A * k.max() / math.sqrt(d), 2 * A * n_y * q.max() / math.sqrt(d), n_y * upstream.max()
    return EPS * K * v.max(), [EPS * (K + 2 * (n_y + d)) * size for size in largest]


# %% [markdown]
# Now the comparison: sizes with ones and primes, and 67 keys, more than the 64 that the fast kernels take at a time.


# %%
def compare_with_the_loop(trial):
    rng = np.random.default_rng(2)
    sizes = [(1, 1, 1), (1, 7, 3), (5, 1, 8), (7, 5, 4), (3, 67, 8)] + [(67, 130, 16), (13, 13, 32)] * lesson.full
    shapes, values, gradients = [], [], []
    for n_y, n_x, d in sizes:
        arrays = [rng.standard_normal(shape) for shape in ((n_y, d), (n_x, d), (n_x, d))]
        upstream = rng.standard_normal((n_y, d))
        inputs = [Tensor(a[None, None], requires_grad=True) for a in arrays]  # one sequence, one head
        out = F.attention(*inputs)
        out.backward(upstream[None, None])
        shapes.append(out.shape[2:] == (n_y, d))
        bound, bounds = allowed(*arrays, upstream)
        loop = np.array(by_definition(*(a.tolist() for a in arrays))).real
        values.append(np.abs(out.numpy()[0, 0] - loop).max() / bound)
        if n_x * d < 200 or (lesson.full and n_x < 100):  # the complex loop runs once for every input number
            slopes = slopes_by_definition(arrays, upstream)
            triples = zip(inputs, slopes, bounds, strict=True)
            gradients += [np.abs(t.grad.numpy()[0, 0] - s).max() / b for t, s, b in triples]
    trial.check(all(shapes), f"{sum(shapes)} of {len(sizes)} outputs have shape n_y x d")
    trial.check(max(values) <= 1, f"values differ from the loop's by {max(values):.2g} of the rounding bound at most")
    trial.check(max(gradients) <= 1, f"gradients differ by {max(gradients):.2g} of the rounding bound at most")
    return max(values), max(gradients)


# %% [markdown]
# ## The layer
#
# The models use attention inside a layer that first makes queries, keys and values from the word vectors by three
# matrices, and gives each of $H$ *heads* its own $C/H$ columns of them. To compare it with the loop under the same
# bound, its weights and inputs are small multiples of 1/4: such sums are exact in floating point, in any order, so that
# only attention itself rounds. Looking at oneself must then give the same bits as looking at a stranger who happens to
# be equal.


# %%
def compare_the_layer(trial):
    C, H, rng = 8, 2, np.random.default_rng(3)
    layer = MultiheadAttention(C, H, init=Init(0, "float64"))
    quarters = {"in_proj_weight": (3 * C, C), "in_proj_bias": (3 * C,)}
    state = {name: rng.integers(-1, 2, shape) / 4 for name, shape in quarters.items()}
    layer.load_state_dict(state | {"out_proj.weight": np.eye(C), "out_proj.bias": np.zeros(C)})
    y, x = (rng.integers(-2, 3, (n, C)).astype(float) for n in (5, 7))

    def heads_by_definition(y, x):
        w, b = state["in_proj_weight"], state["in_proj_bias"]
        q, k, v = (s @ w[i * C : (i + 1) * C].T + b[i * C : (i + 1) * C] for i, s in enumerate((y, x, x)))
        columns = [slice(h * C // H, (h + 1) * C // H) for h in range(H)]
        parts = [by_definition(q[:, c].tolist(), k[:, c].tolist(), v[:, c].tolist()) for c in columns]
        bound = max(allowed(q[:, c], k[:, c], v[:, c], q[:, c])[0] for c in columns)
        return np.concatenate(parts, axis=1).real, bound

    for name, a, b in (("y over x", y, x), ("x over x", x, x)):
        loop, bound = heads_by_definition(a, b)
        off = np.abs(layer(Tensor(a[None]), Tensor(b[None])).numpy()[0] - loop).max() / bound
        trial.check(off <= 1, f"the layer, {name}, {H} heads: {off:.2g} of the rounding bound away from the loop")
    itself, stranger = layer(Tensor(x[None])).numpy(), layer(Tensor(x[None]), Tensor(x[None])).numpy()
    differ = int((itself != stranger).sum())
    trial.check(differ == 0, f"{differ} of {itself.size} numbers differ between self-attention and x over x")


# %% [markdown]
# ## What the $\sqrt d$ is for
#
# Suppose that the entries of queries and keys are independent, with mean 0 and variance 1. A score without the root is
# a sum of $d$ products, each of variance 1, so its variance is $d$. The softmax of numbers that lie $\sqrt d$ apart is
# nearly one-hot: the largest score takes all, and since the derivative of a weight $p$ by its own score is $p(1-p)$,
# hardly any gradient comes back. Divided by $\sqrt d$ the scores have variance 1, whatever the width.
#
# Variance can be *counted* rather than sampled: take as queries all $2^d$ vectors of signs, each once. Against the
# key $(1, \dots, 1)$ their mean score is 0, and the mean of the squares is exactly $d$. To read a score out of the
# engine, let there be a second key, the zero vector: the logarithm of the two weights' ratio is the score.
#
# To see weights at all, choose the values well: if the values are the unit vectors, the output *is* the weights.


# %%
def weights(q, k, **options):
    """The engine's attention weights (n_y, n_x), read through values that are unit vectors, d of them at a time."""
    (n, d), parts = k.shape, -(-len(k) // k.shape[1])
    units = np.eye(n, parts * d).reshape(n, parts, 1, d).transpose(1, 2, 0, 3)
    q, k = (np.repeat(a[None, None], parts, axis=0) for a in (q, k))
    out = F.attention(Tensor(q), Tensor(k), Tensor(units), **options).numpy()  # (parts, 1, n_y, d)
    return out[:, 0].transpose(1, 0, 2).reshape(q.shape[2], -1)[:, :n]


def variance_of_scores(d, **options):
    """Mean square of the scores of all 2^d sign vectors, and the largest error that rounding explains."""
    signs = 1.0 - 2.0 * (np.arange(2**d)[:, None] >> np.arange(d) & 1)
    p = weights(signs, np.stack([np.ones(d), np.zeros(d)]), **options)
    scores = np.log(p[:, 0] / p[:, 1])
    top = np.abs(scores).max()  # weights are off by εK in relation, so scores by εK, and squares by 2 top εK
    return (scores**2).mean(), 2 * top * EPS * (2 * (d + 3) * top + 20)


def entropies(d, n=64, queries=256, **options):
    """Mean entropy of the weights, in nats, and the mean of the largest weight, for normally distributed vectors."""
    draw = np.random.default_rng(d).standard_normal
    p = weights(draw((queries, d)), draw((n, d)), **options)
    return -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1).mean(), p.max(axis=1).mean()


# %% [markdown]
# For normally distributed scores of variance 1 theory expects that the weights over $n$ keys lose about half a nat of
# the $\ln n$ that equal weights would have. The check allows half of that in either direction, at every width. Without
# the root the entropy must fall each time the width grows fourfold.


# %%
WIDTHS, KEYS = [1, 4, 16, 64, 256], 64  # the GPU kernels take heads up to 256 wide


def check_the_root(trial):
    counted = range(1, 15 if lesson.full else 11)
    for what, options, power in (("divided by the root of d", {}, 0), ("left as they are", {"scale": 1.0}, 1)):
        measured = [(d**power, *variance_of_scores(d, **options)) for d in counted]
        off = max(abs(variance - expected) / bound for expected, variance, bound in measured)
        trial.check(
            off <= 1,
            f"scores {what}, all 2^d queries, d = 1 ... {counted[-1]}: "
            f"their variance differs from {'d' if power else '1'} by {off:.2g} of the rounding bound at most",
        )
    scaled, raw = ([entropies(d, KEYS, **o) for d in WIDTHS] for o in ({}, {"scale": 1.0}))
    lost = [math.log(KEYS) - entropy for entropy, _ in scaled]
    trial.check(
        max(abs(nats - 0.5) for nats in lost) < 0.25,
        f"with the root the weights lose {min(lost):.2f} to {max(lost):.2f} nats of ln {KEYS} (0.25 to 0.75 expected)",
    )
    fallen = [entropy for entropy, _ in raw]
    trial.check(
        all(later < earlier for earlier, later in itertools.pairwise(fallen)),
        f"without it the entropy goes {' > '.join(f'{nats:.2f}' for nats in fallen)}",
    )
    trial.note(
        f"mean largest of {KEYS} weights at d = {WIDTHS[-1]}: {scaled[-1][1]:.2f} with, {raw[-1][1]:.2f} without"
    )
    draw = np.random.default_rng(1).standard_normal
    q, k = draw((1, 256)), draw((KEYS, 256))
    panels = {
        label: ([variance_of_scores(d, **o)[0] for d in range(1, 11)], entropy, np.sort(weights(q, k, **o)[0])[::-1])
        for label, o, (entropy, _) in (
            ("without the root", {"scale": 1.0}, zip(*raw, strict=True)),
            (r"divided by $\sqrt{d}$", {}, zip(*scaled, strict=True)),
        )
    }
    caption = "Without the root the scores spread with the width, and one key takes all"
    trial.show(figures.root_of_d(panels, WIDTHS, KEYS), "root_of_d", caption)


# %% [markdown]
# And a picture of what the shapes are.


# %%
def show_the_shapes(trial):
    rng = np.random.default_rng(5)
    q, k, v = rng.standard_normal((4, 3)), rng.standard_normal((6, 3)), rng.standard_normal((6, 3))
    out = F.attention(*(Tensor(a[None, None]) for a in (q, k, v))).numpy()[0, 0]
    figure = figures.shapes(q, k, v, weights(q, k), out)
    trial.show(figure, "shapes", "Four queries look at six words: each row of weights sums to one")


# %% [markdown]
# ## The trial
#
# **Claim.** Attention of $y$ over $x$ is the formula above, of shape $n_y \times d$; self-attention is the case
# $y = x$.
#
# **What would refute it.** One entry of the output or of a gradient that lies further from the loop's than rounding
# explains; a wrong shape; a layer that looks at itself differently than at an equal stranger.
#
# **Experiment.** The loop, the layer and the root of $d$, as prepared above.
#
# A check that cannot fail proves nothing. So there are six engines with one mistake each (`lessons/faults`); under each
# the trial has to fail.


# %%
@lesson.trial(
    "attention-shape",
    "Attention of y over x is softmax(Q_y K_x^T / sqrt(d)) V_x, of shape n_y x d; self-attention is the case y = x.",
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
    values, gradients = compare_with_the_loop(trial)
    compare_the_layer(trial)
    check_the_root(trial)
    show_the_shapes(trial)
    return "proved", (
        f"values within {values:.1%} and gradients within {gradients:.1%} of the rounding bound of the loop's; "
        "self-attention equals x over x bit for bit; the root keeps the variance of scores at 1"
    )


# %% [markdown]
# The engine computes the definition: values and gradients differ from the loop's by a small part of what rounding
# allows, while each broken engine is off by a factor of some $10^{13}$. And the root is no ornament: without it, at a
# width of 256, the best of 64 keys takes nine tenths of the weight before anything has been learned, and where a
# weight is nearly 1 the gradient $p(1-p)$ is nearly 0.

# %%
lesson.finish()
