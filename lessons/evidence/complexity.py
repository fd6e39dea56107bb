"""What lesson 5 measures: operations, the longest chain of steps, and the way between two positions, for layers of
attention, recurrence and convolution. n is the length of a sequence, d the width of its vectors."""

import numpy as np

import autograd.functional as F
from autograd import AutogradError, Tensor, no_grad, tape
from kernels.contract import CONTRACT
from lessons import sequence_layers
from lessons.harness.stopwatch import one_core, shortest
from minitransformer.config import Config
from minitransformer.layers import EncoderLayer, MultiheadAttention
from minitransformer.module import Init

# A count is fitted at the known sizes by whole numbers, one for each term, and must then predict the other sizes.
TERMS = ("n d²", "n² d", "n²", "n d", "n")
KNOWN_SIZES = [(2, 3), (3, 2), (4, 5), (5, 8), (7, 4), (9, 6), (6, 1), (1, 7)]
OTHER_SIZES = [(13, 11), (1, 1), (24, 3), (17, 16), (3, 32), (31, 8), (40, 20)]


def leaf(*shape, seed=0):
    """A Tensor of random numbers for which a gradient is wanted: where a tape begins."""
    return Tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=True)


def terms(sizes):
    return np.array([(n * d * d, n * n * d, n * n, n * d, n) for n, d in sizes])


def fit(count):
    """Whole coefficients of a count, one for each term, and how many of the other sizes they get exactly right."""
    counted = np.array([count(n, d) for n, d in KNOWN_SIZES], dtype=float)
    coefficients = np.rint(np.linalg.lstsq(terms(KNOWN_SIZES), counted)[0]).astype(int)
    return list(map(int, coefficients)), sum(terms(OTHER_SIZES) @ coefficients == [count(*s) for s in OTHER_SIZES])


def written(coefficients):
    """[8, 4] → "8 n d² + 4 n² d" """
    return " + ".join(f"{c} {name}" for c, name in zip(coefficients, TERMS, strict=False) if c)


# The abacus: numbers that count what is done to them, for a count that owes nothing to the engine's price list.


def counted(operation):
    def moving(*numbers):
        Bead.moved += 1
        return Bead(operation(*map(float, numbers)))

    return moving


class Bead(float):
    """A number on the abacus."""

    moved = 0
    __add__, __mul__, __truediv__, exp = map(counted, (float.__add__, float.__mul__, float.__truediv__, np.exp))


def attention_on_the_abacus(n, d):
    """Operations of self-attention with its four projections, counted one by one."""
    x, weight = (np.array([[Bead(0.1)] * d] * rows, dtype=object) for rows in (n, d))
    Bead.moved = 0
    q, k, v = x @ weight, x @ weight, x @ weight
    p = np.exp(q @ k.T)
    (p / p.sum(axis=1, keepdims=True)) @ v @ weight
    return Bead.moved


# Attention


def attention_layer(n, d):
    """n positions, each a leaf of its own, and the layer's output (1, n, d)."""
    positions = [leaf(1, 1, d, seed=s) for s in range(n)]
    return positions, MultiheadAttention(d, 1, init=Init(0, "float64"))(F.concatenate(positions, axis=1))


def kernels_run(output):
    """[(kernel, its operations)], for every call on the tape, in order."""
    return [(name, CONTRACT[name].cost(*arguments).flops) for name, arguments in tape.calls(output)]


def pairs_and_matrices(output):
    """Operations of the attention kernel, which works on pairs of positions, and of the matrices around it."""
    flops = dict.fromkeys(("attention", "linear", "feed_forward"), 0)
    for name, operations in kernels_run(output):
        flops[name] = flops.get(name, 0) + operations
    return flops["attention"], flops["linear"] + flops["feed_forward"]


def connected(positions, output):
    """How many outputs depend on how many inputs, by their derivatives: n² if all do."""
    pairs = 0
    for t in range(len(positions)):
        for x in positions:
            x.grad = None
        output[0, t].backward(np.arange(1.0, output.shape[-1] + 1), retain_graph=True)
        pairs += sum(bool((x.grad.numpy() != 0).any()) for x in positions)
    return pairs


def overtakes(layer, n):
    """The smallest length, from n on, at which pairs of positions take more operations than the matrices."""
    while True:
        pairs, matrices = pairs_and_matrices(layer(n))
        if pairs > matrices:
            return n
        n += 1


def layer_crossings(widths):
    """For each width the length at which an attention layer's pairs overtake its four projections."""
    return [overtakes(lambda n, d=d: attention_layer(n, d)[1], d) for d in widths]


def block_crossings(widths):
    """The same for a whole block: attention, then a feed-forward part of width 4d."""
    blocks = {d: EncoderLayer(Config(d_model=d, n_heads=1, d_ff=4 * d), init=Init(0, "float64")) for d in widths}
    return [overtakes(lambda n, d=d: blocks[d](leaf(1, n, d)), 5 * d) for d in widths]


# Recurrence

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
RECURRENT = {"RNN": ("RNN", 1), "GRU": ("GRU", 1), "LSTM": ("LSTM", 1), "RNN, both ways": ("RNN", 2)}
CELLS = {"RNN": "rnn_cell", "GRU": "gru_cell", "LSTM": "lstm_cell"}


def recurrent_layer(n, d, kind, directions=1):
    """The inputs and the outputs of n positions; outputs have width directions · d."""
    inputs, sides, rows = [leaf(1, d, seed=t) for t in range(n)], [], GATES[kind] * d
    for side in (1, -1)[:directions]:
        weights = leaf(rows, d, seed=1), leaf(rows, d, seed=2), leaf(rows), leaf(rows)
        start = (leaf(1, d), leaf(1, d)) if kind == "LSTM" else leaf(1, d)
        cell = getattr(sequence_layers, CELLS[kind])
        sides.append(sequence_layers.unroll(cell, inputs[::side], start, *weights)[::side])
    return inputs, [F.concatenate(both, axis=-1) for both in zip(*sides, strict=True)]


def recurrent_cost(n, d, kind, directions=1):
    return tape.cost(F.stack(recurrent_layer(n, d, kind, directions)[1], axis=1)).flops


def distance(start, end):
    """Steps between two Tensors on the tape; None if no way leads there."""
    try:
        return len(tape.shortest_path(start, end))
    except AutogradError:
        return None


def growth(values):
    """What is added from one length to the next, if it is always the same; else None."""
    added = {None} if None in values else {b - a for a, b in zip(values[:-1], values[1:], strict=True)}
    return added.pop() if len(added) == 1 else None


def recurrence(kind, directions):
    """What each further position adds to the depth, and to the way from the first to the last; the fitted count."""
    made = [recurrent_layer(n, 3, kind, directions) for n in range(3, 11)]
    depth = growth([tape.depth(outputs[-1]) for _, outputs in made])
    path = growth([distance(inputs[0], outputs[-1]) for inputs, outputs in made])
    return depth, path, *fit(lambda n, d: recurrent_cost(n, d, kind, directions))


# Convolution


def convolution_layer(n, d, k):
    """One layer with kernels of width k; the output (1, n, d)."""
    return sequence_layers.conv1d(leaf(1, n, d), leaf(d, d, k, seed=1), leaf(d, seed=2), padding="same")


def spreading(n, k, kind, layers):
    """Which positions each position has reached after 1, 2, ... layers, as arrays (start, position) of True and False.

    A 1 at the start and 0 elsewhere goes through layers whose weights are all 1/k. Nothing can cancel, so a position is
    reached exactly when its value is not 0.0; all n starts are sent at once.
    kind  "centred", "looking back", or "dilated": looking back, with step k^(l-1) in layer l"""
    signal, weight = Tensor(np.eye(n)[:, :, None]), Tensor(np.full((1, 1, k), 1 / k))
    with no_grad():
        for layer in range(1, layers + 1):
            step = min(k ** (layer - 1), n) if kind == "dilated" else 1
            padding = "same" if kind == "centred" else step * (k - 1)
            signal = sequence_layers.conv1d(signal, weight, padding=padding, dilation=step)[:, :n]
            yield signal.numpy()[:, :, 0] != 0


def layers_until_connected(n, k, kind):
    """Layers until every position is reached from every other (kernels that look back: from every earlier one)."""
    wanted = np.ones((n, n)) if kind == "centred" else np.triu(np.ones((n, n)))
    for layer, reached in enumerate(spreading(n, k, kind, n), 1):
        if (reached >= wanted).all():
            return layer
    return None


def expected_layers(n, k, kind):
    """A centred kernel reaches ⌊k/2⌋ to either side (an even one is lopsided: its short side has ⌊(k-1)/2⌋, which for
    odd k is the same number), one that looks back k - 1. With dilation k^l a way is a number in base k, one digit a
    layer."""
    if kind == "dilated":
        return next(L for L in range(1, n + 1) if k**L >= n)  # the logarithm, in whole numbers
    return -(-(n - 1) // ((k - 1) // 2 if kind == "centred" else k - 1))


def depths_of_stacks(lengths):
    """Label of a stack → layers until its ends are connected, for each length."""
    stacks = {
        "convolution, k = 3: n - 1 layers": (3, "centred"),
        "convolution, k = 9: (n - 1) / 4 layers": (9, "centred"),
        "dilated convolution, k = 3: log₃ n layers": (3, "dilated"),
    }
    return {label: [layers_until_connected(n, *stack) for n in lengths] for label, stack in stacks.items()}


# Times


def layers_to_time(n, d):
    """Three layers of one size, made ready: what is left is to run them."""
    attention, x = MultiheadAttention(d, 1, init=Init(0, "float64")), leaf(1, n, d)
    weights, steps = [leaf(4 * d, d), leaf(4 * d, d), leaf(4 * d), leaf(4 * d)], [leaf(1, d)] * n
    kernel, bias, state = leaf(d, d, 3), leaf(d), (leaf(1, d), leaf(1, d))
    return {
        "self-attention": lambda: attention(x),
        "LSTM": lambda: F.stack(sequence_layers.unroll(sequence_layers.lstm_cell, steps, state, *weights), axis=1),
        "convolution, k = 3": lambda: sequence_layers.conv1d(x, kernel, bias, padding="same"),
    }


def counts_and_times(lengths, d):
    """Operations, and seconds on one core, each: name of a layer → one number a length."""
    counted, times = {}, {}
    with one_core():
        for n in lengths:
            for name, run in layers_to_time(n, d).items():
                counted.setdefault(name, []).append(tape.cost(run()).flops)
                times.setdefault(name, []).append(shortest(run))
    return counted, times
