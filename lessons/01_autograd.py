# %% [markdown]
# # 1. Backpropagation, from nothing
# Training a network means asking one question millions of times: *if I changed this number a little, how would the loss
# change?* The smallest GPT-2 has 124 million such numbers. Trying each would take 124 million runs of the model for one
# step of training. There is a way to get all answers at once, for about two more runs, in twenty lines of code.
#
# **At the end you can say**
# - how one walk backwards finds the slope of a loss for every number that went into it, and how training uses them;
# - why a value that is used twice *adds up* two slopes, and why the order of the walk matters;
# - how to find out that a derivative rule is wrong, and why the obvious test misses it;
# - what a backward pass costs, and why the number of parameters does not enter.
#
# **Time:** 25 minutes to read, half a minute to run (at the very first run a minute more). **Before you start:**
# Python, and what a derivative is. Run it with `python lessons/01_autograd.py`, or open it as a notebook.

# %% tags=["plumbing"]
import math
import textwrap

import numpy as np

from autograd import Function, GradcheckError, Tensor, gradcheck
from lessons import faults
from lessons.evidence import autograd as evidence
from lessons.figures import autograd as figures
from lessons.harness.trial import Lesson

lesson = Lesson(__file__)

# %% [markdown]
# ## A slope you can feel
# Our whole network is one line: an input $x$, a weight $w$, a bias $b$, and $\mathrm{loss} = \tanh(x w + b)
# \cdot x$. To learn how much $w$ matters, nudge it by a thousandth and look at what the loss does.


# %%
def loss_of(x, w, b):
    return math.tanh(x * w + b) * x


before, after = loss_of(0.5, -1.2, 0.3), loss_of(0.5, -1.2 + 0.001, 0.3)
print(f"loss {before:.6f} -> {after:.6f}: it moves {(after - before) / 0.001:.3f} times as far as w did")

# %% [markdown]
# That ratio is the slope of the loss *with respect to* $w$ (in short: for $w$). Our *slope* is everyone's *derivative*,
# here a *partial* one, written $\partial\,\mathrm{loss}/\partial w$; all slopes together are the *gradient*. This one
# took an extra run, and $x$ and $b$ need one more each: this is the method that costs 124 million runs.
#
# ## The same slope by hand
# Now cut the line into steps so small that everybody knows their slopes. Go forward, and write down each result:


# %%
x, w, b = 0.5, -1.2, 0.3
p = x * w
s = p + b
t = math.tanh(s)
loss = t * x
print(f"p = {p:.4f}   s = {s:.4f}   t = {t:.4f}   loss = {loss:.4f}")

# %% [markdown]
# Then go back, from the last line to the first, and ask at each: *how much does the loss move for what stands here?* We
# write `dt` for the slope of the loss for `t`. The loss moves exactly as much as itself, so we begin with 1.
#
# - `loss = t * x`: the slope of a product for one factor is the other factor.
# - `t = tanh(s)`: the slope of tanh is $1 - t^2$. What arrives at `t` is multiplied by it (the chain rule).
# - `s = p + b`: a sum passes on what it gets, to both.
#
# Look out for $x$: it is used in two lines. What is its slope? The one from the last line, the one from the
# first, or something made of both? Decide before you read the code.

# %%
dloss = 1
dt, dx = dloss * x, dloss * t  # loss = t * x
ds = dt * (1 - t * t)  # t = tanh(s)
dp, db = ds, ds  # s = p + b
dx, dw = dx + dp * w, dp * x  # p = x * w: x has a slope already, and this one is added
print(f"by hand: dx = {dx:.6f}   dw = {dw:.6f}   db = {db:.6f}")
print(f"nudging x gives {(loss_of(0.5 + 1e-6, -1.2, 0.3) - loss) / 1e-6:.6f}")

# %% [markdown]
# `dw` is what we saw above, and `dx` agrees with a nudge: it moves the loss through both uses of $x$, and small effects
# simply add. All three slopes came out of *one* walk. With a million inputs it would be a longer one, but still one.
#
# ## Numbers that remember
# What we did by hand was mechanical, so let the numbers do it. A `Number` keeps its value and what it was made of: each
# source, and the local slope with respect to it. A list, the *tape*, keeps all of them in the order of their birth.

# %%
TAPE = []


class Number:
    def __init__(self, value, sources=()):
        self.value, self.sources, self.grad = value, sources, 0  # grad: the slope of the loss for it
        TAPE.append(self)

    def __add__(self, other):
        return Number(self.value + other.value, [(self, 1), (other, 1)])

    def __mul__(self, other):
        return Number(self.value * other.value, [(self, other.value), (other, self.value)])

    def tanh(self):
        y = math.tanh(self.value)
        return Number(y, [(self, 1 - y * y)])

    def backward(self):
        self.grad = 1
        for number in reversed(TAPE):
            for source, slope in number.sources:
                source.grad += number.grad * slope  # the chain rule; += because a number may be used twice
        TAPE.clear()


# %% [markdown]
# That is all of it. It is called *backpropagation*, or reverse-mode automatic differentiation. The order takes some
# care: a number may pass its slope on only when *everyone who used it* has reported back. Whoever used it was computed
# later, so walking from the last to the first is safe.

# %%
x, w, b = Number(0.5), Number(-1.2), Number(0.3)
p = x * w
s = p + b
t = s.tanh()
loss = t * x
loss.backward()
print(f"by Number: dx = {x.grad:.6f}   dw = {w.grad:.6f}   db = {b.grad:.6f}")
steps = {"x": x, "w": w, "b": b, "p = x w": p, "s = p + b": s, "t = tanh s": t, "loss = t x": loss}
caption = "Forward along the arrows the values are computed; backward against them the slopes. At x two of them add up."
lesson.show(figures.tape(steps), "tape_of_numbers", caption)

# %% [markdown]
# The same three numbers, and nobody had to think. Take a pencil and check one slope in the picture: that of `p`, or the
# sum of the two that arrive at `x`.
#
# ## Downhill
# What is a slope good for? If it is positive, the loss falls when the number falls; if it is negative, the loss falls
# when the number rises. So move $w$ a little *against* its slope, and ask again. Say that our network answers
# $\tanh(x w + b)$, and that we want 0.8 for $x = 0.5$. The loss is the square of the error. Before you run the cell:
# will $w$ rise or fall? Will its steps stay as long as the first?

# %%
x, w, b, minus_wanted = Number(0.5), Number(-1.2), Number(0.3), Number(-0.8)
for _ in range(8):
    error = (x * w + b).tanh() + minus_wanted  # a Number can only add
    loss = error * error
    w.grad = 0  # slopes are added up: forget that of the step before
    loss.backward()
    w.value -= 0.5 * w.grad
    print(f"loss {loss.value:.3f}, slope for w {w.grad:6.3f}, so w becomes {w.value:6.3f}")

# %% [markdown]
# The slope is negative, so $w$ rises; near the goal slopes are small, and so are the steps. That is *gradient descent*;
# all training in these lessons is the line `w.value -= 0.5 * w.grad` with refinements. The 0.5 is the *learning rate*:
# try 0.05, which is slow, and 50, which leaps so far that it never comes back.
#
# ## The engine
# The engine of this project, `autograd/tensor.py`, is the same thing with arrays in place of numbers. A `Tensor` keeps
# the function that made it; `backward` collects these records and walks them from the last to the first. The engine can
# draw its own tape, too.

# %%
tx, tw, tb = (Tensor(np.array(value), requires_grad=True) for value in (0.5, -1.2, 0.3))
result = (tx * tw + tb).tanh() * tx
result.backward(retain_graph=True)  # keep the record: we want to draw it
print(f"by the engine: dx = {tx.grad.item():.6f}   dw = {tw.grad.item():.6f}   db = {tb.grad.item():.6f}")
picture = figures.engine_tape(result, {"x": tx, "w": tw, "b": tb, "loss": result}, given=[tx])
lesson.show(picture, "tape", "The engine's drawing of its tape. Orange: weights; grey: given; blue: operations.")

# %% [markdown]
# ## First trial: is it right for every program?
# One example proves little. This project puts such statements on trial, always in the same form.
#
# **Claim.** One walk backwards through the steps of a computation gives its derivative with respect to every input.
#
# **What would refute it.** A single wrong derivative.
#
# **Experiment.** Let chance write 300 programs of sums and products, in which values are used again and again. All
# numbers in them are small integers, so the slopes are integers too and `Number` computes them without any rounding:
# the engine has to agree to the last bit. Then take a chain of 100,000 steps.
#
# **Could the trial fail at all?** A test that cannot fail proves nothing. So each trial is run again on engines that
# were broken on purpose, its *controls*; there, one of its checks has to fail. Here are three: a second slope replaces
# the first instead of being added, a value passes its slope on too early, half of the product rule is missing. Watch
# one: `python lessons/01_autograd.py --break impatient-backward`. (The next cell is the experiment: you may skip it.)


# %%
@lesson.trial(
    "reverse-mode",
    "One walk backwards through the steps of a computation gives its derivative with respect to every input.",
    controls=[faults.last_word_counts, faults.impatient_backward, faults.half_a_product_rule],
)
def reverse_mode(trial):
    wrong, count, largest = evidence.compare_programs(Number, programs=2000 if lesson.full else 300)
    trial.check(wrong == 0, f"{wrong} of {count:,} random slopes differ (0 expected); the largest is {largest:,}")
    off, bound = evidence.off_by(Number, (0.5, -1.2, 0.3))
    trial.check(off <= bound, f"tanh(x w + b) x: ours and the engine's differ by {off:.0e} (rounding: {bound:.0e})")
    slope = evidence.slope_of_chain(100_000)
    trial.check(slope == 100_001, f"x added to itself 100,000 times has the slope {slope:,.0f} (100,001 expected)")
    return "proved", f"{count:,} of {count:,} slopes of random programs agree to the last bit; a chain of 100,000 too"


# %% [markdown]
# Wherever we looked, the engine agrees with exact integers. And the `+=` and the order of the walk are what makes it
# so: take either away, and the integers differ.
#
# ## How would you notice a wrong rule?
# For tanh or softmax there are no integers to compare with. Suppose somebody writes tanh for the engine and remembers
# its slope as $1 - t$. The forward pass is right, nothing crashes, the loss may even fall. (A rule of the engine is a
# class: `forward` computes and saves what `backward` will need; `backward` is given the slope that arrives, `dy`, and
# returns the one that it passes on.)


# %%
class MyTanh(Function):
    def forward(self, x):
        y = np.tanh(x)
        self.save(y)
        return y

    def backward(self, dy):
        (y,) = self.saved
        return dy * (1 - y)  # wrong: 1 - y * y


try:
    gradcheck(MyTanh.apply, [Tensor(np.array([-1.0, 0.0, 0.5]), requires_grad=True)])
except GradcheckError as error:
    print(*textwrap.wrap(f"gradcheck: {error}", 100), sep="\n    ")

# %% [markdown]
# `gradcheck` does what we did at the beginning: it nudges, and compares. *Analytic* is what the rule says, *numeric* is
# what nudging says, and they are far apart. (Three outputs and three inputs have nine slopes, the *entries*; two of
# them are wrong.) Only at $x = 0$ the wrong rule is right, by accident: $1 - 0 = 1 - 0^2$.
#
# How small should a nudge be? Better than one to one side, as above, is one to each side, the *central* difference
# $(f(x+h) - f(x-h)) / 2h$: its errors of first order cancel. Guess which of these steps comes closest to the true slope
# of $e^{\sin 3x}$ at $x = 0.7$, then run the cell.

# %%
for h in (1e-1, 1e-3, 1e-5, 1e-7, 1e-9, 1e-11, 1e-13):
    print(f"step {h:.0e}: relative error {abs(evidence.central(h) / evidence.SLOPE - 1):.0e}")

# %% [markdown]
# Two errors fight. A large step misses the curve between its two points; that error falls like $h^2$. A small step
# subtracts two numbers that are nearly equal, so that only their rounding errors are left; that error grows like $1/h$.
# Between them lies a valley, and its floor decides how small a mistake anyone can see.
#
# The floor can be lowered: differences with the steps $h$, $h/2$ and $h/4$ can be combined so that the largest parts of
# their errors cancel. This is *Richardson's extrapolation*, and `gradcheck` uses it.

# %%
caption = "Each line has its best step. In float32 it gives about five digits, with Richardson's in float64 thirteen."
valleys = evidence.valleys(400 if lesson.full else 120)
lesson.show(figures.valley(valleys), "valley", caption)

# %% [markdown]
# ## Second trial: a mistake that hides
# Networks are mostly computed in float32, where even the best step leaves an error of 1e-5 and a careless one 1e-2. So
# people write 1e-2 as their tolerance. Now take *layer norm*, which brings a row of numbers to mean 0 and variance 1.
# Its slope has three terms. Somebody forgets one, a mean over 512 numbers (`evidence.ForgetfulLayerNorm`).
#
# The *careless check* is what one writes on a first afternoon: nudge one number by 0.01, in float32, and be content if
# the slope is right to 1e-2. `gradcheck` works in float64, and moves the many numbers of an input all at once, in a
# random direction; there the small errors of all 512 slopes of a row add up.
#
# **Claim.** Extrapolated differences in float64 see a mistake that a careless check accepts.
#
# **What would refute it.** `gradcheck` lets the forgetful rule pass; or it complains about a sound one; or the careless
# check is never fooled, and the effort is for nothing. How often is it fooled, in 200 tries? Make a guess.


# %%
@lesson.trial(
    "gradcheck-strict",
    "Extrapolated differences in float64 see a mistake that a careless check accepts.",
    controls=[faults.gradcheck_generous, faults.gradcheck_one_difference, faults.forgetful_engine],
)
def gradcheck_strict(trial):
    floors = [floor for _, _, floor in valleys.values()]
    text = ", ".join(f"{name} {floor:.0e}" for name, floor in zip(valleys, floors, strict=True))
    trial.check(floors == sorted(floors)[::-1] and floors[-1] < 1e-11, f"best error: {text} (last below 1e-11)")
    forgetful = evidence.ForgetfulLayerNorm.apply
    fooled = sum(evidence.passes_careless_check(forgetful, number) for number in range(200))
    trial.check(fooled > 0, f"the careless check accepts the wrong rule in {fooled} of 200 tries (some expected)")
    against = evidence.complaint(forgetful, *evidence.ARRAYS, 1e-5)
    trial.check(against, f"gradcheck on the wrong rule: {against or 'no complaint'}")
    for rule, inputs in evidence.sound_rules():
        against = evidence.complaint(rule, *inputs)
        trial.check(not against, f"gradcheck on the engine's {rule.__name__}: {against or 'no complaint'}")
    return "proved", f"a careless check accepts a wrong rule in {fooled} of 200 tries; gradcheck refuses it"


# %% [markdown]
# The careless check is fooled more than once in five tries: in a single slope the missing term is small. Along a
# direction that moves all numbers it is as large as the slope itself, and `gradcheck` cannot overlook it.
#
# ## Third trial: what it costs
# Nearly all the work of a network is products of matrices. A product of an $N \times C$ by a $C \times F$ matrix needs
# $2NCF$ operations: a multiplication and an addition for each of the $NF$ results and each of the $C$ terms. Going
# back, there are two slopes to compute, one for each matrix, and each is again such a product.
#
# **Claim.** A backward pass costs two forward passes, however many parameters there are.
#
# **What would refute it.** A single product whose backward pass does not need exactly twice the operations. The tape
# knows which kernels ran with which shapes, so nothing is timed: we count four products, then six whole layers.


# %%
@lesson.trial(
    "backward-cost",
    "A backward pass costs two forward passes, however many parameters there are.",
    controls=[faults.linear_rule_wasteful],
)
def backward_cost(trial):
    sizes = [(1, 3, 2), (5, 7, 11), (64, 128, 256), (31, 33, 65)]
    exact = sum(evidence.cost_of_product(n, c, f) == (2 * n * c * f, 4 * n * c * f) for n, c, f in sizes)
    trial.check(exact == len(sizes), f"{exact} of {len(sizes)} products cost 2NCF forward, exactly twice that backward")
    ratios, text = evidence.ratios_of_layers()  # parameters → backward over forward, and a table to look at
    trial.note(text)
    low, high, most = min(ratios.values()), max(ratios.values()), max(ratios)
    trial.check(low > 1.5 and high < 2.5, f"layers: {low:.2f} to {high:.2f} times (attention: 5 products for 2)")
    verdict = "proved" if high <= 2 else "sharpened"
    return verdict, f"exactly 2 for a matrix product, {low:.2f} to {high:.2f} for layers of up to {most:,} parameters"


# %% [markdown]
# Sharpened: two for products, a little more where attention is long. Attention does not keep its weights, it computes
# them again on the way back, and trades a fifth product for memory. The number of parameters does not enter: 3 million
# of them cost no more, in relation, than 244. Nudging each of them would have taken 3 million forward passes.
#
# ## Questions to think about
# 1. In $y = x \cdot x$ both factors are the same number. What are the sources of $y$, and why is its slope $2x$?
# 2. The walk needs every value of the forward pass. What does that mean for the memory of a deep network?
# 3. *Forward mode* carries a slope along with each value, from one input to all outputs. When would it be cheaper?
# 4. `gradcheck` compares with differences of the same forward pass. Which kind of mistake can it never find?
#
# ## Further reading
# - A. G. Baydin and others, *Automatic differentiation in machine learning: a survey* (2018): forward and reverse mode.
# - A. Griewank, A. Walther, *Evaluating Derivatives* (2nd edition, 2008): why the price is a constant, proved.
# - A. Karpathy, *micrograd* (2020): the same idea in a hundred lines, and a network trained with it.
#
# ## Exercises
# `minitransformer exercise` has six that belong here: `product`, `broadcasting`, `matmul-gradient`, `softmax-gradient`,
# `layer-norm-gradient` and `attention-gradient`. Then look for `bug-residual` and `bug-optimizer`.

# %%
lesson.finish()
