# %% [markdown]
# # 5. What a layer costs
#
# Three kinds of layer turn a sequence of $n$ vectors of width $d$ into another one: attention, recurrence,
# convolution. "Attention is all you need" compares them in a small table with three columns: how many operations, how
# many of them must wait for one another, and how far a signal travels from one position to another. The table is
# quoted everywhere and hardly ever measured. The engine keeps a tape of everything it computes, so we can count
# instead of believing. We shall find one term that the table leaves out, and which is the larger one in many models.
#
# Run it: `python lessons/05_complexity.py [--backend NAME] [--full] [--break CONTROL]`.

# %%
import time

import numpy as np

import autograd.functional as F
from autograd import AutogradError, Tensor, no_grad, tape
from kernels.contract import CONTRACT
from lessons import faults, sequence_layers
from lessons.figures import complexity as figures
from lessons.harness.trial import Lesson
from minitransformer.app.tables import table
from minitransformer.config import Config
from minitransformer.layers import EncoderLayer, MultiheadAttention
from minitransformer.module import Init

lesson = Lesson(__file__)
findings = {}  # rows of the table at the end

# %% [markdown]
# ## Counting
#
# Every kernel of the engine declares its operations as a formula of its shapes: a multiply-add is two, anything else
# is one. `tape.cost` adds them up over all that led to a result. `tape.depth` is the longest chain of kernels in which
# each needs the one before: with infinitely many processors, that chain is the time. Cutting, joining and reshaping
# compute nothing and count as no step.
#
# A count in $n$ and $d$ should be a polynomial. So we count at a few small sizes, solve for the whole-number
# coefficients, and then demand that the polynomial predicts *other* sizes to the last operation.

# %%
TERMS = ("n d²", "n² d", "n²", "n d", "n")
KNOWN_SIZES = [(2, 3), (3, 2), (4, 5), (5, 8), (7, 4), (9, 6), (6, 1), (1, 7)]
OTHER_SIZES = [(13, 11), (1, 1), (24, 3), (17, 16), (3, 32), (31, 8), (40, 20)]


def terms(sizes):
    return np.array([(n * d * d, n * n * d, n * n, n * d, n) for n, d in sizes])


def fit(count):
    """Whole coefficients of a count, one for each term, and how many of the other sizes they get exactly right."""
    counted = np.array([count(n, d) for n, d in KNOWN_SIZES], dtype=float)
    coefficients = np.rint(np.linalg.lstsq(terms(KNOWN_SIZES), counted)[0]).astype(int)
    return list(map(int, coefficients)), sum(terms(OTHER_SIZES) @ coefficients == [count(*s) for s in OTHER_SIZES])


def written(coefficients):
    return " + ".join(f"{c} {name}" for c, name in zip(coefficients, TERMS, strict=False) if c)


def leaf(*shape, seed=0):
    return Tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=True)


# %% [markdown]
# A formula in a price list could be wrong, and then we would only read our own opinion back. So here is an abacus:
# numbers that count what is done to them. Self-attention, written down once more with such numbers, must agree with
# the tape in its two leading terms.


# %%
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
    x, weight = (np.array([[Bead(0.1)] * d] * rows, dtype=object) for rows in (n, d))
    Bead.moved = 0
    q, k, v = x @ weight, x @ weight, x @ weight
    p = np.exp(q @ k.T)
    (p / p.sum(axis=1, keepdims=True)) @ v @ weight
    return Bead.moved


# %% [markdown]
# ## Self-attention
#
# **Claim.** Self-attention takes $O(n^2 d)$ operations, a constant number of sequential steps, and connects any two
# positions by a path of constant length.
#
# **What would refute it:** a term that grows faster, or that is larger at the sizes in use; a depth that grows with
# $n$; two positions that one layer does not connect.
#
# **Experiment.** Count a layer of the engine on the tape; ask for the depth, and for the path between every two
# positions. A path on the tape shows that a signal *could* travel, so we also take the derivative of every output
# position by every input position: it must not be zero. Then look for the length at which the attention proper, which
# grows with $n^2$, overtakes the matrices around it.


# %%
def attention_layer(n, d):
    """n positions, each a leaf of its own, and the layer's output (1, n, d)."""
    positions = [leaf(1, 1, d, seed=s) for s in range(n)]
    return positions, MultiheadAttention(d, 1, init=Init(0, "float64"))(F.concatenate(positions, axis=1))


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
    """The smallest length, from n on, at which the attention kernel does more than the matrices around it."""
    while True:
        calls = [call for node in tape.functions(layer(n)) for call in node.kernels.calls[: node.forward_calls]]
        flops = {kind: 0 for kind in ("attention", "linear", "feed_forward")}
        for name, arguments in calls:
            flops[name] = flops.get(name, 0) + CONTRACT[name].cost(*arguments).flops
        if flops["attention"] > flops["linear"] + flops["feed_forward"]:
            return n
        n += 1


# %%
@lesson.trial(
    "cost-self-attention",
    "Self-attention takes O(n² d) operations, O(1) sequential steps, and paths of length O(1).",
    controls=[faults.one_key_after_another, faults.causal_forced, faults.matrices_for_free],
)
def cost_self_attention(trial):
    layers = [attention_layer(n, d) for n, d in ((4, 3), (7, 6), (12, 4), (20, 8))]
    depths = {tape.depth(output) for _, output in layers}
    trial.check(len(depths) == 1, f"longest chain of steps: {sorted(depths)} for n from 4 to 20 (one value expected)")
    ends = [(x, output[:, t]) for inputs, output in layers for x in inputs for t in range(len(inputs))]
    ways = {len(tape.shortest_path(x, y)) for x, y in ends}
    trial.check(len(ways) == 1, f"steps on the shortest path of any two positions: {sorted(ways)} (one value expected)")
    pairs = sum(connected(*layer) for layer in layers)
    trial.check(pairs == len(ends), f"{pairs} of {len(ends)} pairs of positions have a derivative that is not zero")

    count, right = fit(lambda n, d: tape.cost(attention_layer(n, d)[1]).flops)
    trial.check(right == len(OTHER_SIZES), f"operations = {written(count)}: exact at {right} of 7 other sizes")
    by_hand = fit(attention_on_the_abacus)[0]
    text = f"leading terms on the tape: {written(count[:2])}; on the abacus: {written(by_hand[:2])} (equal expected)"
    trial.check(by_hand[:2] == count[:2], text)

    widths = (4, 8, 16, 32, 64) if lesson.full else (4, 8, 16, 32)
    layer = [overtakes(lambda n, d=d: attention_layer(n, d)[1], d) for d in widths]
    text = f"attention proper overtakes its projections at n = {layer} for d = {list(widths)} (2d - 1 expected)"
    trial.check(layer == [2 * d - 1 for d in widths], text)
    blocks = {d: EncoderLayer(Config(d_model=d, n_heads=1, d_ff=4 * d), init=Init(0, "float64")) for d in widths}
    block = [overtakes(lambda n, d=d: blocks[d](leaf(1, n, d)), 5 * d) for d in widths]
    trial.note(f"in a whole block with feed-forward width 4d it overtakes at n = {block}: about 6d")
    trial.show(figures.crossings(widths, layer, block), "crossings", "Which part of a layer does most of the work.")
    findings["self-attention"] = (written(count[:2]), depths.pop(), f"1 layer ({ways.pop()} steps)")
    evidence = f"{written(count)} operations; the n d² of the projections is the larger term up to n = 2d - 2"
    return "sharpened" if count[0] else "proved", f"{evidence}; depth and path are constant"


# %% [markdown]
# The claim holds with an addition. The layer does $4 n^2 d$ operations on pairs of positions *and* $8 n d^2$ in its
# four projections, and the second is the larger one until $n$ reaches about $2d$. With the usual feed-forward part
# behind it, the point moves to about $6d$. Depth and path are constant: three kernels, whatever $n$ is.
#
# ## Recurrence
#
# **Claim.** A recurrent layer takes $O(n d^2)$ operations, $O(n)$ sequential steps, and has paths of length $O(n)$;
# LSTM, GRU and layers that read in both directions differ by a constant factor only.
#
# **What would refute it:** a term in $n^2$; a depth or a distance that does not grow in a straight line; a factor that
# depends on the size.
#
# **Experiment.** Unroll the engine's cells, count, and fit; ask the tape for the depth of the last state and for its
# distance from the first input.

# %%
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
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


def recurrent_cost(n, d, kind, directions):
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


# %%
@lesson.trial(
    "cost-recurrent",
    "A recurrent layer takes O(n d²) operations, O(n) sequential steps, and paths of length O(n).",
    controls=[faults.state_lost, faults.read_again_from_the_start],
)
def cost_recurrent(trial):
    rows, products = [], {}
    for name in ("RNN", "GRU", "LSTM", "RNN, both ways"):
        layer = (name[:3], 2) if "both" in name else (name, 1)
        made = [recurrent_layer(n, 3, *layer) for n in range(3, 11)]
        depth = growth([tape.depth(outputs[-1]) for _, outputs in made])
        trial.check(
            depth, f"{name}: with each position the longest chain grows by {depth} steps (one number above 0 expected)"
        )
        path = growth([distance(inputs[0], outputs[-1]) for inputs, outputs in made])
        trial.check(
            path, f"{name}: with each position the way from first to last grows by {path} (one number above 0 expected)"
        )
        count, right = fit(lambda n, d, layer=layer: recurrent_cost(n, d, *layer))
        text = f"{name}: {written(count)} operations, exact at {right} of 7 other sizes (no n² expected)"
        trial.check(right == len(OTHER_SIZES) and count[1] == count[2] == 0, text)
        products[name] = count[0]
        rows.append((name, written(count), depth, path))
    factors = [product / products["RNN"] for product in products.values()]
    text = "products compared with a plain RNN's: " + ", ".join(f"{f:g}" for f in factors) + " (1, 3, 4, 2 expected)"
    trial.check(factors == [1, 3, 4, 2], text)
    trial.note(table(("layer", "operations", "depth a position", "path a position"), rows))
    findings["recurrent"] = (f"{products['RNN']} n d²", f"{rows[0][2]} n", f"1 layer ({rows[0][3]} n steps)")
    return (
        "proved",
        f"{products['RNN']} n d² for the RNN; × 3 for GRU, × 4 for LSTM, × 2 for both ways; depth, path 3 n",
    )


# %% [markdown]
# Proved, with constants. Look at the last column: a GRU or an LSTM offers a signal a way of two cheap steps a position
# (times a gate, plus something) where the plain RNN has three, a matrix product among them. The way is as long, but
# smoother; that is what gates are for.
#
# One thing the usual comparison hides: count the projections on both sides, and self-attention *never* does fewer
# operations than a plain RNN of the same width, since $8 n d^2 + 4 n^2 d > 4 n d^2$. It does fewer than an LSTM
# ($16 n d^2$) up to $n \approx 2d$. What attention really buys stands in the other two columns.
#
# ## Convolution
#
# **Claim.** A convolution with kernels of width $k$ takes $O(k n d^2)$ operations, a constant number of sequential
# steps, and $O(n/k)$ layers to connect the first position with the last.
#
# **What would refute it:** another count; a stack that connects its ends earlier or later.
#
# **Experiment.** Count and fit for several $k$. For the path, put a 1 at one position and 0 everywhere else, and send
# it through layers whose weights are all $1/k$: nothing can cancel, so a position is reached exactly when its value is
# not 0.0. All $n$ starting positions are sent at once, and we count the layers until every pair is connected. A kernel
# centred on its position reaches $\lfloor k/2 \rfloor$ to either side, so $\lceil (n-1) / \lfloor k/2 \rfloor \rceil$
# layers are expected for odd $k$ (an even kernel is lopsided: its short side has $\lfloor (k-1)/2 \rfloor$, which for
# odd $k$ is the same number). A kernel that looks back only reaches $k - 1$. And with dilation $k^l$ in layer $l$ a
# way is a number in base $k$, one digit a layer: $\lceil \log_k n \rceil$ layers.


# %%
def convolution_layer(n, d, k):
    return sequence_layers.conv1d(leaf(1, n, d), leaf(d, d, k, seed=1), leaf(d, seed=2), padding="same")


def layers_until_connected(n, k, kind):
    """Layers until every position is reached from every other (kernels that look back: from every earlier one)."""
    signal, weight = Tensor(np.eye(n)[:, :, None]), Tensor(np.full((1, 1, k), 1 / k))
    wanted = np.ones((n, n)) if kind == "centred" else np.triu(np.ones((n, n)))
    with no_grad():
        for layer in range(1, n + 1):
            step = min(k ** (layer - 1), n) if kind == "dilated" else 1
            padding = "same" if kind == "centred" else step * (k - 1)
            signal = sequence_layers.conv1d(signal, weight, padding=padding, dilation=step)[:, :n]
            if ((signal.numpy()[:, :, 0] != 0) >= wanted).all():
                return layer
    return None


def expected_layers(n, k, kind):
    if kind == "dilated":
        return next(L for L in range(1, n + 1) if k**L >= n)  # the logarithm, in whole numbers
    return -(-(n - 1) // ((k - 1) // 2 if kind == "centred" else k - 1))


def seconds(run):
    """The shortest of three runs, after one to warm up."""
    times = [time.perf_counter()]
    for _ in range(4):
        run()
        times.append(time.perf_counter())
    return min(np.diff(times)[1:])


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
    """Operations and seconds, each: name of a layer → one number a length."""
    made = [layers_to_time(n, d) for n in lengths]
    counted = {name: [tape.cost(layers[name]()).flops for layers in made] for name in made[0]}
    return counted, {name: [seconds(layers[name]) for layers in made] for name in made[0]}


# %%
@lesson.trial(
    "cost-convolution",
    "A convolution takes O(k n d²) operations, O(1) sequential steps, and O(n/k) layers from end to end.",
    controls=[faults.kernel_padded_with_zeros, faults.sequence_closed_to_a_ring, faults.dilation_ignored],
)
def cost_convolution(trial):
    for k in (1, 2, 3, 5, 8):
        count, right = fit(lambda n, d, k=k: tape.cost(convolution_layer(n, d, k)).flops)
        text = f"k = {k}: {written(count)} operations (2k n d² expected), exact at {right} of 7 other sizes"
        trial.check(right == len(OTHER_SIZES) and count[:3] == [2 * k, 0, 0], text)
    depths = {tape.depth(convolution_layer(n, 3, k)) for n in (2, 9, 40) for k in (2, 5)}
    trial.check(depths == {1}, f"longest chain of steps: {sorted(depths)} for n from 2 to 40 (1 expected)")

    for kind, widths in {"centred": (3, 4, 5, 6, 7, 9), "looking back": (2, 3, 5, 8), "dilated": (2, 3, 4, 5)}.items():
        cases = [(n, k) for n in range(2, 81 if lesson.full else 41, 1 if kind == "dilated" else 3) for k in widths]
        exact = sum(layers_until_connected(n, k, kind) == expected_layers(n, k, kind) for n, k in cases)
        trial.check(
            exact == len(cases), f"{kind} kernels: {exact} of {len(cases)} stacks are as deep as the formula says"
        )
    lengths = [2, 3, 5, 9, 17, 33, 65, 128]
    stacks = {
        "convolution, k = 3: n - 1": (3, "centred"),
        "convolution, k = 9: (n - 1) / 4": (9, "centred"),
        "dilated convolution, k = 3: log₃ n": (3, "dilated"),
    }
    deep = {name: [layers_until_connected(n, *kind) for n in lengths] for name, kind in stacks.items()}
    trial.show(figures.paths(lengths, deep), "paths", "Layers until every two positions are connected, measured.")
    d, lengths = 64, [16, 32, 64, 128, 256, 512]
    counted, times = counts_and_times(lengths, d)
    for name, measured in times.items():
        trial.note(f"{name}: {measured[-1] * 1e3:.1f} ms for n = {lengths[-1]}, d = {d}")
    figure = figures.counts_and_times(lengths, d, counted, times)
    trial.show(figure, "counts_and_times", "Counted operations, and what this machine makes of them.")
    findings["convolution"] = ("2 k n d²", depths.pop(), "⌈(n-1) / ⌊k/2⌋⌉ layers, dilated ⌈log_k n⌉")
    return (
        "sharpened",
        "2k n d² operations, depth 1; ⌈(n-1) / ⌊k/2⌋⌉ layers with centred kernels, ⌈log_k n⌉ with dilation",
    )


# %% [markdown]
# The count is proved. The path is sharpened twice: a centred kernel moves a signal by half its width only, so it takes
# about twice $n/k$ layers; and with growing dilation the logarithm of $n$ is enough. The last figure shows what the
# second column of the table means in practice: for long sequences the LSTM does fewer operations than attention, but
# one after the other (and part of its time is the interpreter's, which handles every small step by itself).
#
# ## The table, rebuilt from counts

# %%
if len(findings) == 3:
    print(table(("layer", "operations", "sequential", "longest path"), [(k, *v) for k, v in findings.items()]))
lesson.finish()
