# %% [markdown]
# # 1. Reverse mode, from nothing
#
# Training a network means asking one question millions of times: *if I nudged this number, how would the loss
# change?* For a model with 21 million numbers, nudging each in turn would take 21 million runs. Reverse-mode
# differentiation answers for all of them at once, for about the price of two runs. This lesson builds it in thirty
# lines, compares those with the engine, and then asks how we know that a derivative is right.
#
# Run it: `python lessons/01_autograd.py [--backend NAME] [--full]`. It exits non-zero if any check fails.

# %%
import argparse
import math
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import autograd.functional as F
import kernels
from autograd import Function, GradcheckError, Tensor, gradcheck, tape
from autograd.draw import draw

parser = argparse.ArgumentParser(description="Lesson 1: reverse mode, from nothing")
parser.add_argument("--backend", default=None, help="numpy, numba, emulated or cupy")
parser.add_argument("--full", action="store_true", help="more steps in the sweep")
options, _ = parser.parse_known_args()
if options.backend:
    kernels.use(options.backend)
FIGURES = Path("build/lessons")
FIGURES.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# ## A chain of small derivatives
#
# Any computation is a sequence of small steps whose derivatives everybody knows: sums, products, exponentials. The
# chain rule glues them together. Write $\bar{x}$ for $\partial \mathrm{loss} / \partial x$. If $y = a \cdot b$, then
#
# $$\bar{a} \mathrel{+}= \bar{y}\, b, \qquad \bar{b} \mathrel{+}= \bar{y}\, a.$$
#
# The $+=$ is the heart of the matter: a value that was used twice receives two contributions, and they add up. So
# each value has to wait until *everyone* who used it has reported back. Going through the steps in the opposite order
# of their computation guarantees that.
#
# Here is the whole idea for single numbers.


# %%
class Number:
    """A number that remembers which numbers it was made of, and how much each mattered."""

    def __init__(self, value, sources=()):
        self.value, self.sources, self.bar = value, sources, 0.0

    def __add__(self, other):
        return Number(self.value + other.value, [(self, 1.0), (other, 1.0)])

    def __mul__(self, other):
        return Number(self.value * other.value, [(self, other.value), (other, self.value)])

    def tanh(self):
        y = math.tanh(self.value)
        return Number(y, [(self, 1 - y * y)])

    def backward(self):
        order, seen = [], set()

        def visit(number):  # sources first, so that the reverse has everyone after its users
            if id(number) not in seen:
                seen.add(id(number))
                for source, _ in number.sources:
                    visit(source)
                order.append(number)

        visit(self)
        self.bar = 1.0
        for number in reversed(order):
            for source, slope in number.sources:
                source.bar += number.bar * slope


x, w, b = Number(0.5), Number(-1.2), Number(0.3)
loss = (x * w + b).tanh() * x  # x is used twice
loss.backward()
print(f"thirty lines:  d/dx = {x.bar:+.12f}   d/dw = {w.bar:+.12f}   d/db = {b.bar:+.12f}")

# %% [markdown]
# The engine's `Tensor` does the same with arrays in place of numbers, and walks the graph with a loop instead of the
# recursive `visit`, which would end at Python's recursion limit. The two must agree to the last digits.

# %%
tx, tw, tb = (Tensor(np.array(n.value), requires_grad=True) for n in (x, w, b))
result = (tx * tw + tb).tanh() * tx
result.backward(retain_graph=True)
print(f"the engine:    d/dx = {tx.grad.item():+.12f}   d/dw = {tw.grad.item():+.12f}   d/db = {tb.grad.item():+.12f}")
for ours, theirs in ((x, tx), (w, tw), (b, tb)):
    # two roundings a step, five steps: a few units in the last place
    assert abs(ours.bar - theirs.grad.item()) <= 10 * np.finfo(float).eps, "the engine and the thirty lines differ"

# %% [markdown]
# ## The tape, drawn
#
# What the engine recorded can be looked at. Boxes in blue computed something, boxes in orange are the values we asked
# derivatives for. Reading upwards from the result is exactly what `backward` does.

# %%
draw(result, FIGURES / "01_tape.svg", names={"x": tx, "w": tw, "b": tb, "loss": result})
print(f"the tape: {tape.depth(result)} steps deep, {tape.cost(result).flops} operations -> {FIGURES / '01_tape.svg'}")

# %% [markdown]
# ## How would we know that a derivative is right?
#
# By definition a derivative is a limit of differences, so compare with one:
# $D(h) = \frac{f(x+h) - f(x-h)}{2h}$. Two errors fight here. The *truncation* error comes from $h$ being finite and
# falls like $h^2$. The *rounding* error comes from subtracting two nearly equal numbers and grows like
# $\varepsilon / h$. In between lies a valley, and where its floor is decides how small a mistake we can ever see.
#
# Four ways to take differences, on $f(x) = e^{\sin 3x}$ at $x = 0.7$, whose derivative we know exactly:


# %%
def f(x, dtype):
    return np.exp(np.sin(dtype(3) * dtype(x)))


exact = 3 * math.cos(2.1) * math.exp(math.sin(2.1))


def one_sided(h, dtype):
    return float((f(dtype(0.7) + dtype(h), dtype) - f(dtype(0.7), dtype)) / dtype(h))


def central(h, dtype):
    return float((f(dtype(0.7) + dtype(h), dtype) - f(dtype(0.7) - dtype(h), dtype)) / dtype(2 * h))


def richardson(h, dtype):
    """Combines three central differences so that their errors of order h² and h⁴ cancel."""
    coarse, middle, fine = (central(h / n, dtype) for n in (1, 2, 4))
    first, second = (4 * middle - coarse) / 3, (4 * fine - middle) / 3
    return (16 * second - first) / 15


steps = np.logspace(-12, 0, 400 if options.full else 120)
methods = {
    "one-sided, float32": (one_sided, np.float32, "#D55E00", ":"),
    "central, float32": (central, np.float32, "#E69F00", "--"),
    "central, float64": (central, np.float64, "#0072B2", "-."),
    "Richardson, float64": (richardson, np.float64, "#009E73", "-"),
}
figure, axes = plt.subplots(figsize=(7.2, 4.4))
floors = {}
for name, (method, dtype, colour, style) in methods.items():
    h = np.array([h for h in steps if dtype is np.float64 or h > 1e-7])
    with np.errstate(all="ignore"):
        errors = np.array([abs(method(step, dtype) / exact - 1) for step in h])
    # a lucky cancellation can hit the answer at one step; the floor is what neighbouring steps agree on
    floors[name] = min(np.median(errors[i : i + 7]) for i in range(len(errors) - 7))
    axes.loglog(h, np.maximum(errors, 1e-17), style, color=colour, label=f"{name}: floor {floors[name]:.0e}", lw=1.8)
axes.axhline(1e-7, color="#555555", lw=1)
axes.text(1.01, 1e-7, "gradcheck\ndemands\n1e-7", transform=axes.get_yaxis_transform(), fontsize=9, va="center")
axes.set(xlabel="step h", ylabel="relative error of the difference", title="The valley: why a careless check is blind")
axes.legend(frameon=False, fontsize=9)
axes.spines[["top", "right"]].set_visible(False)
figure.tight_layout()
figure.savefig(FIGURES / "01_valley.png", dpi=160)
plt.close(figure)
for name, floor in floors.items():
    print(f"{name:22} can see mistakes larger than {floor:.0e}")
print(f"-> {FIGURES / '01_valley.png'}")
assert floors["Richardson, float64"] < 1e-11 < floors["central, float64"] < 1e-7 < floors["central, float32"]

# %% [markdown]
# In float32 even the best step leaves an error of some 1e-5, and a careless one 1e-2. That is why checks in single
# precision need tolerances like 1e-2, and why bugs hide behind them. In float64 with Richardson's combination the
# floor lies below 1e-11, and a wide range of steps comes near it, so that `gradcheck` can demand 1e-7 of every smooth
# function and still has four digits to spare.
#
# ## A mistake that a weak check accepts
#
# Layer norm's gradient has three terms. Suppose that somebody forgets one of them. A check of one element in float32
# with a tolerance of 1e-2 will often not notice; ours must.


# %%
class ForgetfulLayerNorm(Function):
    """Layer norm whose rule forgets that the mean depends on x."""

    def forward(self, x, weight, bias, eps):
        y, mean, rstd = self.kernels.layer_norm(x, weight, bias, eps)
        self.save(x, weight, mean, rstd)
        return y

    def backward(self, dy):
        x, weight, mean, rstd = self.saved
        n = (x - mean[:, None]) * rstd[:, None]
        dn = dy * weight
        dx = rstd[:, None] * (dn - n * (dn * n).mean(axis=1, keepdims=True))  # - mean(dn) is missing
        return dx, (dy * n).sum(axis=0), dy.sum(axis=0)


rng = np.random.default_rng(0)
rows, width = 4, 512
arrays = rng.standard_normal((rows, width)), rng.standard_normal(width), rng.standard_normal(width)


def passes_weak_check(rule, position):
    """One element, float32, one step, a tolerance of 1e-2."""
    x, weight, bias = (Tensor(a.astype("float32"), requires_grad=True) for a in arrays)
    upstream = rng.standard_normal((rows, width)).astype("float32")
    rule(x, weight, bias, 1e-5).backward(upstream)
    moved = [Tensor(arrays[0].astype("float32")) for _ in range(2)]
    moved[0].data[position] += 1e-2
    moved[1].data[position] -= 1e-2
    up, down = (float((rule(m, weight, bias, 1e-5).numpy() * upstream).sum()) for m in moved)
    return abs(x.grad.numpy()[position] - (up - down) / 2e-2) < 1e-2 * max(1.0, abs(up - down) / 2e-2)


tries = 200
fooled = sum(passes_weak_check(ForgetfulLayerNorm.apply, (i % rows, i * 7 % width)) for i in range(tries))
print(f"the weak check accepts the wrong rule in {fooled} of {tries} tries")

inputs = [Tensor(a, requires_grad=True) for a in arrays]
try:
    gradcheck(ForgetfulLayerNorm.apply, (*inputs, 1e-5))
except GradcheckError as error:
    print(f"gradcheck: {error}")
else:
    raise SystemExit("gradcheck accepted a wrong rule")
report = gradcheck(F.layer_norm, (*inputs, 1e-5))
print(f"the engine's own layer norm: worst error {report.worst_error:.0e} over {report.entries} directions")

# %% [markdown]
# ## What it costs
#
# A product of an $N \times C$ by a $C \times F$ matrix takes $2NCF$ operations; its two gradients take $2NCF$ each.
# Nearly all the work of a network is such products, so one backward pass costs about two forward passes, however many
# parameters there are. The tape can be asked:

# %%
x, weight = (Tensor(rng.standard_normal(shape), requires_grad=True) for shape in ((64, 128), (256, 128)))
y = F.linear(x, weight)
y.backward(np.ones(y.shape), retain_graph=True)
forward, both = tape.cost(y).flops, tape.cost(y, backward=True).flops
print(f"forward {forward:,} operations, backward {both - forward:,}: {(both - forward) / forward:.2f} times as many")
assert 1.9 < (both - forward) / forward <= 2.0
print("lesson 1: all checks passed")
