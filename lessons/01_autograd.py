# %% [markdown]
# # 1. Reverse mode, from nothing
#
# Training a network means asking one question millions of times: *if I nudged this number, how would the loss
# change?* For a model with 21 million numbers, nudging each in turn would take 21 million runs. Reverse-mode
# differentiation answers for all of them at once, for about the price of two runs. This lesson builds it in thirty
# lines, compares those with the engine, asks how we know that a derivative is right, and counts what it costs.
#
# Every lesson puts claims on trial. A trial computes its verdict on the sound engine. Then it runs again on engines
# that were broken on purpose, its *negative controls*: if its checks did not fail there, they would prove nothing.

# %%
import math
import tempfile
from pathlib import Path

import numpy as np

import autograd.functional as F
from autograd import Function, GradcheckError, Tensor, draw, gradcheck, tape
from lessons import faults
from lessons.figures import autograd as figures
from lessons.harness.trial import Lesson
from minitransformer.config import Config
from minitransformer.layers import EncoderLayer
from minitransformer.module import Init

lesson = Lesson(__file__)

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
        self.value, self.sources, self.bar = value, sources, 0

    def __add__(self, other):
        return Number(self.value + other.value, [(self, 1), (other, 1)])

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
        self.bar = 1
        for number in reversed(order):
            for source, slope in number.sources:
                source.bar += number.bar * slope


x, w, b = Number(0.5), Number(-1.2), Number(0.3)
loss = (x * w + b).tanh() * x  # x is used twice
loss.backward()
print(f"d/dx = {x.bar:+.12f}   d/dw = {w.bar:+.12f}   d/db = {b.bar:+.12f}")

# %% [markdown]
# The engine's `Tensor` does the same with arrays in place of numbers, and walks the graph with a loop instead of the
# recursive `visit`, which would end at Python's recursion limit.
#
# **Claim.** One walk backwards through the steps gives the derivative by every input.
#
# **What would refute it.** One wrong derivative. To see it without any tolerance, take programs of sums and products of
# small integers: their derivatives are integers too, Python computes them without rounding, and a float64 holds them
# exactly up to $2^{53}$.
#
# **Experiment.** Random programs, each step of which picks any two earlier values, so that values are used again and
# again. Then a chain that is far longer than Python's recursion limit.


# %%
def random_program(rng, leaves, steps=14):
    """Combines the leaves in random sums and products; the same choices whatever the leaves are made of."""
    values = list(leaves)
    for _ in range(steps):
        one, other = (values[i] for i in rng.integers(0, len(values), 2))
        values.append(one * other if rng.random() < 0.4 else one + other)
    return values[-1]


def derivatives_of_program(seed):
    """What exact integers say, and what the engine says."""
    start = np.random.default_rng(seed).integers(-3, 4, 5)
    numbers = [Number(int(value)) for value in start]
    tensors = [Tensor(np.array(float(value)), requires_grad=True) for value in start]
    exact = random_program(np.random.default_rng(seed), numbers)
    result = random_program(np.random.default_rng(seed), tensors)
    exact.backward()
    result.backward()
    return [n.bar for n in numbers], [0 if t.grad is None else t.grad.item() for t in tensors]


# %% [markdown]
# Three ways to get this wrong, all of them met in practice, are the broken engines (`lessons/faults/derivatives.py`): a
# second contribution replaces the first; a value passes its gradient on too early; half of the product rule is missing.


# %%
@lesson.trial(
    "reverse-mode",
    "One walk backwards through the steps of a computation gives its derivative by every input.",
    controls=[faults.last_word_counts, faults.impatient_backward, faults.half_a_product_rule],
)
def reverse_mode(trial):
    pairs = [derivatives_of_program(seed) for seed in range(2000 if lesson.full else 300)]
    kept = [(exact, engine) for exact, engine in pairs if max(map(abs, exact)) < 2**53]
    wrong = sum(e != g for exact, engine in kept for e, g in zip(exact, engine, strict=True))
    count, largest = sum(len(exact) for exact, _ in kept), max(abs(e) for exact, _ in kept for e in exact)
    trial.check(
        wrong == 0, f"{wrong} of {count} integer derivatives differ from the engine's (0 expected; up to {largest:,})"
    )
    tx, tw, tb = (Tensor(np.array(n.value), requires_grad=True) for n in (x, w, b))
    result = (tx * tw + tb).tanh() * tx
    result.backward(retain_graph=True)
    off = max(abs(n.bar - t.grad.item()) for n, t in ((x, tx), (w, tw), (b, tb)))
    # each derivative is below 2 and takes five steps of two roundings: ten halves of an eps of 2
    trial.check(off <= 10 * np.finfo(float).eps, f"the thirty lines and the engine differ by {off:.0e} (at most 2e-15)")
    chain, length = tx, 100_000
    for _ in range(length):
        chain = chain + tx
    tx.grad = None
    chain.backward()
    trial.check(tx.grad.item() == length + 1, f"x added to itself {length:,} times: derivative {tx.grad.item():,.0f}")
    with tempfile.TemporaryDirectory() as folder:
        names = {"x": tx, "w": tw, "b": tb, "loss": result}
        caption = "The engine's record of tanh(x w + b) x. Reading upwards from the result is what backward does."
        trial.show(draw(result, Path(folder) / "tape.svg", names=names), "tape", caption)
    return (
        "proved",
        f"{count:,} of {count:,} derivatives of random programs equal to the last bit; a chain of {length:,}",
    )


# %% [markdown]
# The engine agrees with exact integers wherever we looked, so what it computes *is* the chain rule, and the order of
# its walk and the `+=` are what make it so: take either away, and the integers differ.
#
# ## How would we know that a derivative is right?
#
# For tanh and softmax there are no integers to compare with. But a derivative is a limit of differences, so compare
# with one: $D(h) = \frac{f(x+h) - f(x-h)}{2h}$. Two errors fight here. The *truncation* error comes from $h$ being
# finite and falls like $h^2$. The *rounding* error comes from subtracting two nearly equal numbers and grows like
# $\varepsilon / h$. In between lies a valley, and where its floor is decides how small a mistake we can ever see.
#
# Four ways to take differences, on $f(x) = e^{\sin 3x}$ at $x = 0.7$, whose derivative we know exactly:


# %%
def f(x, dtype):
    return np.exp(np.sin(dtype(3) * dtype(x)))


def one_sided(h, dtype):
    return float((f(dtype(0.7) + dtype(h), dtype) - f(dtype(0.7), dtype)) / dtype(h))


def central(h, dtype):
    return float((f(dtype(0.7) + dtype(h), dtype) - f(dtype(0.7) - dtype(h), dtype)) / dtype(2 * h))


def richardson(h, dtype):
    """Combines three central differences so that their errors of order h² and h⁴ cancel."""
    coarse, middle, fine = (central(h / n, dtype) for n in (1, 2, 4))
    first, second = (4 * middle - coarse) / 3, (4 * fine - middle) / 3
    return (16 * second - first) / 15


METHODS = {
    "one-sided, float32": (one_sided, np.float32),
    "central, float32": (central, np.float32),
    "central, float64": (central, np.float64),
    "Richardson, float64": (richardson, np.float64),
}


def valleys():
    """For each method: steps, the relative errors of its differences, and the floor of that valley."""
    exact = 3 * math.cos(2.1) * math.exp(math.sin(2.1))
    found = {}
    for name, (method, dtype) in METHODS.items():
        steps = np.logspace(-12 if dtype is np.float64 else -7, 0, 400 if lesson.full else 120)
        with np.errstate(all="ignore"):
            errors = np.array([abs(method(step, dtype) / exact - 1) for step in steps])
        # a lucky cancellation can hit the answer at one step; the floor is what neighbouring steps agree on
        found[name] = steps, errors, min(np.median(errors[i : i + 7]) for i in range(len(errors) - 7))
    return found


# %% [markdown]
# In float32 even the best step leaves an error of some 1e-5, and a careless one 1e-2. That is why checks in single
# precision need tolerances like 1e-2, and why bugs hide behind them. In float64 with Richardson's combination the
# floor lies below 1e-11, so `gradcheck` can demand 1e-7 of every smooth function and has four digits to spare.
#
# Layer norm's gradient has three terms. Suppose that somebody forgets one of them.
#
# **Claim.** Extrapolated differences in float64 see a mistake that a careless check accepts.
#
# **What would refute it.** `gradcheck` lets the forgetful rule pass, or complains about the sound one; or the careless
# check is not fooled at all, and the effort is for nothing.


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


rows, width = 4, 512
arrays = [np.random.default_rng(0).standard_normal(shape) for shape in ((rows, width), width, width)]


def passes_careless_check(rule, number):
    """One element, float32, one step, a tolerance of 1e-2."""
    position = number % rows, number * 7 % width
    x, weight, bias = (Tensor(a.astype("float32"), requires_grad=True) for a in arrays)
    upstream = np.random.default_rng(number).standard_normal((rows, width)).astype("float32")
    rule(x, weight, bias, 1e-5).backward(upstream)
    moved = [Tensor(arrays[0].astype("float32")) for _ in range(2)]
    moved[0].data[position] += 1e-2
    moved[1].data[position] -= 1e-2
    up, down = (float((rule(m, weight, bias, 1e-5).numpy() * upstream).sum()) for m in moved)
    return abs(x.grad.numpy()[position] - (up - down) / 2e-2) < 1e-2 * max(1.0, abs(up - down) / 2e-2)


def complaint(rule, *inputs):
    """What gradcheck says against a rule: nothing, if all is well."""
    try:
        gradcheck(rule, [Tensor(a, requires_grad=True) if isinstance(a, np.ndarray) else a for a in inputs])
    except GradcheckError as error:
        return str(error)
    return ""


# %%
@lesson.trial(
    "gradcheck-strict",
    "Extrapolated differences in float64 see a mistake that a careless check accepts.",
    controls=[faults.gradcheck_generous, faults.gradcheck_one_difference, faults.forgetful_engine],
)
def gradcheck_strict(trial):
    found = valleys()
    floors = {name: floor for name, (_, _, floor) in found.items()}
    order = list(floors.values())[::-1]
    text = ", ".join(f"{name} {floor:.0e}" for name, floor in floors.items())
    trial.check(order == sorted(order) and order[0] < 1e-11, f"floors: {text} (Richardson below 1e-11 expected)")
    caption = "The step decides what a check can see: the floor of each valley is its blindness."
    trial.show(figures.valley(found), "valley", caption)
    tries = 200
    fooled = sum(passes_careless_check(ForgetfulLayerNorm.apply, number) for number in range(tries))
    trial.check(fooled > 0, f"the careless check accepts the wrong rule in {fooled} of {tries} tries (some expected)")
    against = complaint(ForgetfulLayerNorm.apply, *arrays, 1e-5)
    trial.check(against, f"gradcheck on the wrong rule: {against or 'no complaint'}")
    small = arrays[0][:2, :7]
    for rule, inputs in (
        (F.layer_norm, (*arrays, 1e-5)),
        (F.softmax, (small,)),
        (F.tanh, (small,)),
        (F.gelu, (small,)),
    ):
        against = complaint(rule, *inputs)
        trial.check(not against, f"gradcheck on the engine's {rule.__name__}: {against or 'no complaint'}")
    return "proved", f"the careless check accepts a wrong rule {fooled} times of {tries}; gradcheck refuses it"


# %% [markdown]
# The careless check is not lazy: it is what one writes on a first afternoon. It is fooled about once in four tries,
# because the missing term, a mean over 512 numbers, is small and the tolerance that float32 forces on it is large. A
# check that is right three times of four lets one bug in four through.
#
# ## What it costs
#
# A product of an $N \times C$ by a $C \times F$ matrix takes $2NCF$ operations; its two gradients take $2NCF$ each.
# Nearly all the work of a network is such products.
#
# **Claim.** A backward pass costs two forward passes, however many parameters there are.
#
# **What would refute it.** A count. The engine's contract knows the operations of every kernel, and the tape knows
# which kernels were called with which shapes, so nothing needs to be timed.


# %%
def counted(result):
    """Operations of the forward pass, and of the backward pass that follows it."""
    result.backward(np.ones(result.shape), retain_graph=True)
    forward = tape.cost(result).flops
    return forward, tape.cost(result, backward=True).flops - forward


@lesson.trial(
    "backward-cost",
    "A backward pass costs two forward passes, however many parameters there are.",
    controls=[faults.linear_rule_wasteful],
)
def backward_cost(trial):
    rng = np.random.default_rng(0)
    sizes = [(1, 3, 2), (5, 7, 11), (64, 128, 256), (31, 33, 65)]
    exact = 0
    for n, c, f in sizes:
        forward, backward = counted(
            F.linear(*(Tensor(rng.standard_normal(s), requires_grad=True) for s in ((n, c), (f, c))))
        )
        exact += forward == 2 * n * c * f and backward == 2 * forward
    trial.check(
        exact == len(sizes), f"{exact} of {len(sizes)} products cost 2NCF forward and exactly twice that backward"
    )
    ratios = {}
    for width, heads, length in [(4, 1, 5), (16, 2, 16), (64, 4, 64), (256, 8, 16), (512, 8, 8), (8, 2, 512)]:
        layer = EncoderLayer(Config(d_model=width, n_heads=heads, d_ff=4 * width), init=Init(0, "float64"))
        forward, backward = counted(layer(Tensor(rng.standard_normal((1, length, width)), requires_grad=True)))
        ratios[layer.num_parameters(), length] = backward / forward
        size = f"{layer.num_parameters():9,} parameters, {length:3} positions"
        trial.note(f"{size}: backward {backward / forward:.2f} times forward")
    low, high = min(ratios.values()), max(ratios.values())
    # softmax(QKᵀ)V has two products forward; backward repeats QKᵀ and has four more: 5/2
    trial.check(
        low > 1.5 and high < 2.5,
        f"whole layers: {low:.2f} to {high:.2f} times (attention alone: five products for two)",
    )
    most = max(parameters for parameters, _ in ratios)
    trial.note(f"nudging each of {most:,} parameters in turn would take {most:,} forward passes")
    verdict = "proved" if high <= 2 else "sharpened"
    return verdict, f"exactly 2 for a matrix product, {low:.2f} to {high:.2f} for layers of up to {most:,} parameters"


# %% [markdown]
# Two for the products, and a little more where attention is long: its probabilities are not stored but computed again
# on the way back, which trades a fifth product for memory. The number of parameters does not enter.

# %%
lesson.finish()
