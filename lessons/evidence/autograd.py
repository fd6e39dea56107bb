"""What lesson 1 measures: random programs with exact derivatives, errors of differences, a careless check, costs.

Exact derivatives. Programs of sums and products of small integers have integer derivatives. Python computes them
without rounding, and a float64 holds them exactly up to 2^53: nothing has to be tolerated."""

import math

import numpy as np

import autograd.functional as F
from autograd import Function, GradcheckError, Tensor, gradcheck, tape
from minitransformer.app.tables import table
from minitransformer.config import Config
from minitransformer.layers import EncoderLayer
from minitransformer.module import Init

EXACT = 2**53  # integers up to here are float64 numbers


def random_program(rng, leaves, steps=14):
    """Combines the leaves in random sums and products; the same choices whatever the leaves are made of."""
    values = list(leaves)
    for _ in range(steps):
        one, other = (values[i] for i in rng.integers(0, len(values), 2))
        values.append(one * other if rng.random() < 0.4 else one + other)
    return values[-1]


def derivatives_of_program(number, seed):
    """What the class `number` says with exact integers, and what the engine says: two lists of five."""
    start = np.random.default_rng(seed).integers(-3, 4, 5)
    numbers = [number(int(value)) for value in start]
    tensors = [Tensor(np.array(float(value)), requires_grad=True) for value in start]
    exact = random_program(np.random.default_rng(seed), numbers)
    result = random_program(np.random.default_rng(seed), tensors)
    exact.backward()
    result.backward()
    return [n.grad for n in numbers], [0 if t.grad is None else t.grad.item() for t in tensors]


def compare_programs(number, programs):
    """How many derivatives differ, of how many, and the largest of them; what a float64 cannot hold is left out."""
    pairs = [derivatives_of_program(number, seed) for seed in range(programs)]
    kept = [
        (e, g) for exact, engine in pairs if max(map(abs, exact)) < EXACT for e, g in zip(exact, engine, strict=True)
    ]
    return sum(e != g for e, g in kept), len(kept), max(abs(e) for e, _ in kept)


def off_by(number, values):
    """The largest difference between the slopes of `number` and the engine's for tanh(x w + b) x, and how far right
    answers may differ: each slope is below 2 and takes five steps of two roundings, so ten halves of an eps of 2."""
    ours, theirs = [number(v) for v in values], [Tensor(np.array(v), requires_grad=True) for v in values]
    for x, w, b in (ours, theirs):
        ((x * w + b).tanh() * x).backward()
    return max(abs(n.grad - t.grad.item()) for n, t in zip(ours, theirs, strict=True)), 10 * np.finfo(float).eps


def slope_of_chain(length):
    """x added to itself `length` times, far beyond Python's recursion limit: its slope is length + 1."""
    x = Tensor(np.array(0.5), requires_grad=True)
    chain = x
    for _ in range(length):
        chain = chain + x
    chain.backward()
    return x.grad.item()


def f(x, dtype):
    return np.exp(np.sin(dtype(3) * dtype(x)))


SLOPE = 3 * math.cos(2.1) * math.exp(math.sin(2.1))  # of f at 0.7, by the chain rule


def one_sided(h, dtype=np.float64):
    return float((f(dtype(0.7) + dtype(h), dtype) - f(dtype(0.7), dtype)) / dtype(h))


def central(h, dtype=np.float64):
    return float((f(dtype(0.7) + dtype(h), dtype) - f(dtype(0.7) - dtype(h), dtype)) / dtype(2 * h))


def richardson(h, dtype=np.float64):
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


def valleys(count):
    """For each method: `count` steps, the relative errors of its differences, and the floor of that valley."""
    found = {}
    for name, (method, dtype) in METHODS.items():
        steps = np.logspace(-12 if dtype is np.float64 else -7, 0, count)
        with np.errstate(all="ignore"):
            errors = np.array([abs(method(step, dtype) / SLOPE - 1) for step in steps])
        # a lucky cancellation can hit the answer at one step; the floor is what neighbouring steps agree on
        found[name] = steps, errors, min(np.median(errors[i : i + 7]) for i in range(len(errors) - 7))
    return found


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


ROWS, WIDTH = 4, 512
ARRAYS = [np.random.default_rng(0).standard_normal(shape) for shape in ((ROWS, WIDTH), WIDTH, WIDTH)]


def passes_careless_check(rule, number):
    """One element, float32, one step, a tolerance of 1e-2: what one writes on a first afternoon."""
    position = number % ROWS, number * 7 % WIDTH
    x, weight, bias = (Tensor(a.astype("float32"), requires_grad=True) for a in ARRAYS)
    upstream = np.random.default_rng(number).standard_normal((ROWS, WIDTH)).astype("float32")
    rule(x, weight, bias, 1e-5).backward(upstream)
    moved = [Tensor(ARRAYS[0].astype("float32")) for _ in range(2)]
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


def sound_rules():
    """Rules of the engine that gradcheck must accept, each with its inputs."""
    small = ARRAYS[0][:2, :7]
    return (F.layer_norm, (*ARRAYS, 1e-5)), (F.softmax, (small,)), (F.tanh, (small,)), (F.gelu, (small,))


def counted(result):
    """Operations of the forward pass, and of the backward pass that follows it. The engine's contract knows the
    operations of every kernel, and the tape knows which kernels were called with which shapes."""
    result.backward(np.ones(result.shape), retain_graph=True)
    forward = tape.cost(result).flops
    return forward, tape.cost(result, backward=True).flops - forward


def cost_of_product(n, c, f):
    """Operations forward and backward of an (n, c) matrix times a (c, f) matrix."""
    rng = np.random.default_rng(0)
    return counted(F.linear(*(Tensor(rng.standard_normal(s), requires_grad=True) for s in ((n, c), (f, c)))))


def cost_of_layer(width, heads, length):
    """Number of parameters, operations forward and backward, of one transformer layer."""
    layer = EncoderLayer(Config(d_model=width, n_heads=heads, d_ff=4 * width), init=Init(0, "float64"))
    x = Tensor(np.random.default_rng(0).standard_normal((1, length, width)), requires_grad=True)
    return layer.num_parameters(), *counted(layer(x))


def ratios_of_layers():
    """Small and large layers: parameters → operations backward over forward; and the same as a table."""
    ratios, rows = {}, []
    for width, heads, length in [(4, 1, 5), (16, 2, 16), (64, 4, 64), (256, 8, 16), (512, 8, 8), (8, 2, 512)]:
        parameters, forward, backward = cost_of_layer(width, heads, length)
        ratios[parameters] = backward / forward
        rows.append((f"{parameters:,}", length, f"{ratios[parameters]:.2f} times forward"))
    return ratios, table(("parameters", "positions", "backward"), rows, right=range(3))
