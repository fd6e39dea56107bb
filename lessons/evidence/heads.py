"""What lesson 6 measures: the work of a layer for each number of heads, and how well one head or two can fetch two
things at once.

The bound for a single head with a linear read-out. Fix a question (a, b) and all coins but those two. The head returns
o = Σ p_s v_s with weights that depend on the question only, so the four cases lie on a segment, at the places 0,
p_b / (p_a + p_b), p_a / (p_a + p_b) and 1 for the coins 00, 01, 10 and 11. A score is a linear function of o: it only
rises or only falls along the segment. Say p_b ≤ p_a, and let g be the second answer's score of "1" against "0" at a
place, ℓ(x) = log(1 + exp(-x)) the loss of a score x on the right side. If g rises, the cases 01 and 10 cost ℓ(g(01)) +
ℓ(-g(10)) with g(01) ≤ g(10), hence at least ℓ(x) + ℓ(-x) ≥ 2 log 2; if it falls, the same holds for 11 and 00. So the
eight answers of a group of four cost at least 2 log 2, a quarter of log 2 each, and are never all right. Nothing was
assumed about width, weights or training."""

import itertools
import math

import numpy as np

import autograd.functional as F
from autograd import Tensor, no_grad, tape
from kernels.contract import CONTRACT
from lessons.harness.stopwatch import one_core, shortest
from minitransformer.config import Config
from minitransformer.layers import Embedding, EncoderLayer, Linear, MultiheadAttention
from minitransformer.module import Init, Module
from minitransformer.optim import Adam

# What heads cost


def work(result):
    """Operations on the tape, apart for each kernel."""
    flops = {}
    for name, arguments in tape.calls(result):
        flops[name] = flops.get(name, 0) + CONTRACT[name].cost(*arguments).flops
    return flops


def layer_and_input(C, heads, T, dtype="float64"):
    x = np.random.default_rng(0).standard_normal((1, T, C)).astype(dtype)
    return MultiheadAttention(C, heads, init=Init(0, dtype)), Tensor(x, requires_grad=True)


def weights_of(layer, x):
    """Who looks where, in each head.   → (1, H, T, T)"""
    q, k, _ = layer._project(x, 0, 3)
    return F.softmax(q @ k.swapaxes(2, 3) * q.shape[-1] ** -0.5)


def written_out(layer, x):
    """The layer's formula, one kernel for each operation, so that the tape shows the parts apart."""
    q, k, v = layer._project(x, 0, 3)
    p = F.softmax(q @ k.swapaxes(2, 3) * q.shape[-1] ** -0.5)
    return layer.out_proj((p @ v).transpose(0, 2, 1, 3).reshape(x.shape))


def compared(cases, T):
    """For every (C, H): operations of the fused layer and of the one written out; and by how much their results differ
    at most, as a share of the largest value."""
    fused, apart, worst = {}, {}, 0.0
    for C, H in cases:
        layer, x = layer_and_input(C, H, T)
        y, z = layer(x), written_out(layer, x)
        fused[C, H], apart[C, H] = work(y), work(z)
        worst = max(worst, np.abs(y.numpy() - z.numpy()).max() / np.abs(z.numpy()).max())
    return fused, apart, worst


def counts_and_times(T, C, heads):
    """Operations of each kernel, and milliseconds of the fused layer on one core, for every number of heads."""
    layers = [layer_and_input(C, H, T, "float32") for H in heads]
    with one_core(), no_grad():
        times = [1e3 * shortest(lambda layer=layer, x=x: layer(x)) for layer, x in layers]
    return [work(written_out(*each)) for each in layers], times


# What heads buy

BOXES, WIDTH, STEPS = 6, 16, 200
BOUND = math.log(2) / 4
ROWS = np.array(list(itertools.product((0, 1), repeat=BOXES)))  # every possible content (64, 6)
FIRST, SECOND = np.array(list(itertools.permutations(range(BOXES), 2))).T  # every question (30)
CASES = np.array(list(itertools.product((0, 1), repeat=2)))  # the coins a, b of the four cases


def best_cut(places, wanted):
    """How many of these answers, each 0 or 1, a straight line can get right: it says 1 on one side of a cut."""
    cuts = (-1, *np.unique(places))
    return max(int(((places > cut) == (wanted == one)).sum()) for cut in cuts for one in (0, 1))


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
    """(B, 6) of 0 and 1 → (B, questions, 2)"""
    return np.stack([boxes[:, FIRST], boxes[:, SECOND]], axis=2)


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
    """The loss of a single head with weights 1/2 + delta and 1/2 - delta, and steep read-outs chosen by hand: it comes
    as near to the bound as one likes, so the bound is sharp."""
    places = np.array([0, 0.5 - delta, 0.5 + delta, 1]) - 0.5
    scores = np.stack([places / delta**2, places / delta**0.5])  # the first answer; the second, less steep
    logits = np.stack([-scores, scores], axis=-1) / 2
    return F.cross_entropy(Tensor(logits), np.array([[0, 0, 1, 1], [0, 1, 0, 1]])).item()


def on_the_segment(model, question=0):
    """For one question: places of the four cases on the segment, and both scores of "1" against "0" (4, 2)."""
    a, b = FIRST[question], SECOND[question]
    rows = np.zeros((4, BOXES), dtype=int)
    rows[:, a], rows[:, b] = CASES.T
    p = model.weights()[0, question]
    with no_grad():
        scores = model(rows).numpy()[:, question]
    return CASES @ p[[a, b]] / (p[a] + p[b]), scores[..., 1] - scores[..., 0]


# A whole layer


def layers(depth):
    """So many untrained layers of width 32, with four heads and a feed-forward part of width 64."""
    config, init = Config(vocab_size=1, d_model=32, n_heads=4, n_layers=depth, d_ff=64), Init(0, "float64")
    return [EncoderLayer(config, init=init) for _ in range(depth)]


def ten_words():
    return Tensor(np.random.default_rng(0).standard_normal((1, 10, 32)))


def with_and_without_sums(depth):
    """For a stack of whole layers, with their sums and without: the size of the slope at the words, when one of size 1
    starts at the output; and how far the words differ at the end (standard deviation over them, mean of all entries).
    → slope with sums, slope without, difference with, difference without, as text"""
    upstream = np.random.default_rng(1).standard_normal((1, 10, 32))
    slopes, differences = [], []
    for keep in (1.0, 0.0):  # of what goes around a step
        x = y = Tensor(ten_words().numpy(), requires_grad=True)
        for layer in layers(depth):
            y = layer.norm1(y * keep + layer.self_attn(y))
            y = layer.norm2(y * keep + layer.linear2(F.relu(layer.linear1(y))))
        y.backward(upstream / np.linalg.norm(upstream))
        slopes.append(f"{np.linalg.norm(x.grad.numpy()):.2f}")
        differences.append(f"{y.numpy()[0].std(axis=0).mean():.2f}")
    return *slopes, *differences
