"""What lesson 14 measures: scores of turned queries and keys, weights of the other layout, a cache, gradients by depth.

Rounding of a score. An angle w p is off by u w p (u = eps/2), its sine and cosine by two u more, and turning a pair
rounds twice: each turned pair is off by at most eps (w p / 2 + 3) of its length. A score is the sum over pairs of two
such, D products that round once each and are added. Two scores are compared, which doubles it:
2 eps sum_i (w_i p + 6 + D) |q_i| |k_i|, with p the largest position and |q_i| the length of pair i."""

import numpy as np

import autograd.functional as F
from autograd import Tensor, no_grad, tape
from kernels.contract import CONTRACT
from lessons.evidence.positional_encoding import frequencies, rotation
from minitransformer import LanguageModel, positions
from minitransformer.app.tables import table
from minitransformer.decoding.cache import Cache

EPS = np.finfo(np.float64).eps
SMALL = {"vocab_size": 20, "d_model": 32, "n_heads": 2, "n_layers": 3, "d_ff": 48, "max_len": 2048, "dtype": "float64"}


def turned(x, where, interleaved=True):
    """Rows of x turned by their positions.   x (T, D); where (T)"""
    return F.rotary(Tensor(x[None, None]), where, interleaved=interleaved).numpy()[0, 0]


def score_table(q, k, places):
    """The score of query q at place t and key k at place s, for all t and s.   → (places, places)"""
    where = np.arange(places)
    return turned(np.tile(q, (places, 1)), where) @ turned(np.tile(k, (places, 1)), where).T


def apart_from_the_matrix(place):
    """How far the engine's turn is from that of lesson 4's matrix, for some vectors of length 3 to 5 at one place. At
    place 1,000 an angle is known to 500 eps only, so that some 5e-13 are rounding."""
    x = np.random.default_rng(2).standard_normal((20, 16))
    return np.abs(turned(x, np.full(20, place)) - x @ rotation(place, 16)).max()


def scores_by_distance(q, k, places):
    """→ largest difference of two scores at equal distance, its bound, and the range of scores over all distances"""
    table = score_table(q, k, places)
    spread = max(np.ptp(np.diagonal(table, offset)) for offset in range(1 - places, places))
    return spread, score_bound(q[None], k[None], places).max(), np.ptp(table[0])


def lengths_of_pairs(x):
    return np.sqrt(x[..., 0::2] ** 2 + x[..., 1::2] ** 2)


def score_bound(q, k, last):
    """The bound of the module's docstring, for each query and key.   q, k (..., T, D)"""
    D = q.shape[-1]
    weights = frequencies(D) * last + 6 + D
    return 2 * EPS * (lengths_of_pairs(q) * weights) @ lengths_of_pairs(k).swapaxes(-1, -2)


def layer_inputs(model, x):
    """What each attention of the model is given, when the words enter as x (B, T, C)."""
    for layer in model.base.encoder.layers:
        yield layer.self_attn, x
        x = layer(x, is_causal=True)


def moved_scores(kind, shift, seed=0):
    """How far the scores of every layer move when a text begins `shift` words later.

    → for each layer the largest move, in units of the rounding bound, and in units of the largest score"""
    model = LanguageModel(**SMALL, positions=kind, seed=seed)
    ids = np.random.default_rng(seed).integers(20, size=(1, 12))
    moves = []
    with no_grad():
        early, late = (model.base.embedding(ids, np.array([start])) for start in (0, shift))
        pairs = zip(layer_inputs(model, early), layer_inputs(model, early if kind == "rotary" else late), strict=True)
        for (attention, x), (_, y) in pairs:
            tables = []
            for given, start in ((x, 0), (y, shift)):
                q, k, _ = attention._project(given, 0, 3)
                ends = [attention._turned(part, np.array([start])).numpy() for part in (q, k)]
                tables.append(ends[0] @ ends[1].swapaxes(-1, -2))
            bound = score_bound(q.numpy(), k.numpy(), shift + 12)
            difference = np.abs(tables[1] - tables[0])
            moves.append(((difference / bound).max(), difference.max() / np.abs(tables[0]).max()))
    return moves


def halves_beside_each_other(D):
    """Columns of the half-split layout in the order of the interleaved one: 0, D/2, 1, D/2 + 1, ..."""
    return np.arange(D).reshape(2, -1).T.ravel()


def sorted_before_or_after(D):
    """How far apart it is to sort columns before and after turning. A turn rounds three times, and no number here is
    larger than 5: up to 15 half units, 2e-15."""
    x, where, order = np.random.default_rng(4).standard_normal((50, D)), np.arange(50), halves_beside_each_other(D)
    return np.abs(turned(x, where, False)[:, order] - turned(x[:, order], where, True)).max()


def scores_by_layout(C=24, heads=3, T=10):
    """Scores of one layer: with weights made for halves, with the same converted to neighbours, and not converted.
    → three arrays (heads, T, T), and the bound for each entry"""
    rng = np.random.default_rng(5)
    x, wq, wk = rng.standard_normal((T, C)), *rng.standard_normal((2, C, C)) / np.sqrt(C)

    def scores(wq, wk, interleaved):
        q, k = ((x @ w.T).reshape(T, heads, -1).swapaxes(0, 1) for w in (wq, wk))
        q, k = (np.stack([turned(head, np.arange(T), interleaved) for head in part]) for part in (q, k))
        return q @ k.swapaxes(1, 2), score_bound(q, k, T)

    converted = [positions.interleaved_rows(w, heads) for w in (wq, wk)]
    theirs, _ = scores(wq, wk, interleaved=False)
    ours, bound = scores(*converted, interleaved=True)
    mixed, _ = scores(wq, wk, interleaved=True)
    # the projections, products of C terms, are added up in another order by BLAS at most
    return theirs, ours, mixed, bound * (1 + C)


def operations(result, *names):
    """Operations of these kernels on the tape, forward."""
    return sum(CONTRACT[name].cost(*arguments).flops for name, arguments in tape.calls(result) if name in names)


def feed_forward_layer(activation, width, C=48):
    """A layer without biases, and something for it to read."""
    model = LanguageModel(vocab_size=5, d_model=C, n_heads=2, n_layers=1, d_ff=width, activation=activation, bias=False)
    (layer,) = model.base.encoder.layers
    x = np.random.default_rng(0).standard_normal((7, C)).astype("float32")
    return model, layer, Tensor(x, requires_grad=True)


def plain_and_gated(width):
    """A plain layer of this width and a gated one of two thirds of it.

    → parameters of both models, operations in the products of both layers, what the fused gated layer does beside"""
    (plain, layer, x), (gated, other, _) = (
        feed_forward_layer(name, f) for name, f in (("relu", width), ("swiglu", width * 2 // 3))
    )
    apart = other.linear2(F.silu(other.gate(x)) * other.linear1(x))
    products = operations(layer._feed_forward(x), "linear"), operations(apart, "linear")
    extra = operations(other._feed_forward(x), "gated_feed_forward") - products[1]
    return (plain.num_parameters(), gated.num_parameters()), products, extra


def gated_biases(width):
    """How many parameters more the gated layer has when both have biases."""
    sizes = {"vocab_size": 5, "d_model": 48, "n_heads": 2, "n_layers": 1, "seed": None}
    plain, gated = (
        LanguageModel(**sizes, d_ff=f, activation=name) for name, f in (("relu", width), ("swiglu", width * 2 // 3))
    )
    return gated.num_parameters() - plain.num_parameters()


def two_norms(rng, C=32, eps=1e-5):
    """→ how far RMS norm on centred rows is from layer norm; how far a constant in all columns moves RMS norm, and
    layer norm, all in units of the largest value; the share of numbers that 8 x and x give in common, bit by bit; the
    part of the gradient along x. Rows are multiples of 64, so that means of 32 of them and sums are exact; what is left
    are the roundings of a variance and a root."""
    x, weight, zero = 64.0 * rng.integers(-50, 50, (100, C)), Tensor(rng.standard_normal(C)), Tensor(np.zeros(C))

    def layer(x):
        return F.layer_norm(Tensor(x), weight, zero, eps).numpy()

    def rms(x, eps=eps):
        return F.rms_norm(Tensor(x), weight, eps).numpy()

    top = np.abs(layer(x)).max()
    apart = np.abs(rms(x - x.mean(axis=1, keepdims=True)) - layer(x)).max() / top
    moved = [np.abs(norm(x + 640.0) - norm(x)).max() / top for norm in (rms, layer)]
    equal = (rms(8 * x, 64 * eps) == rms(x)).mean()  # exact in binary: eps grows with the square
    return apart, *moved, equal, gradient_along(x, weight)


def gradient_along(x, weight):
    """The part of RMS norm's gradient along x, in units of the sum of its parts' sizes."""
    leaf = Tensor(x, requires_grad=True)
    F.rms_norm(leaf, weight, 1e-12).backward(np.random.default_rng(3).standard_normal(x.shape))
    parts = leaf.grad.numpy() * x
    return np.abs(parts.sum(axis=1)).max() / np.abs(parts).sum(axis=1).max()


def cache_and_attention(groups, heads=8, C=64, T=20):
    """→ bytes of the cache, operations and bytes read of one attention, and its result, with so many key-value heads"""
    sizes = SMALL | {"d_model": C, "n_heads": heads, "n_kv_heads": groups, "positions": "rotary", "max_len": 64}
    model, cache = LanguageModel(**sizes), Cache(SMALL["n_layers"], 2, 64)
    ids = np.random.default_rng(0).integers(20, size=(2, T))
    with no_grad():
        model.base(ids, cache=cache)
    kept = sum(array.array.nbytes for layer in cache.layers for array in layer.own)
    rng = np.random.default_rng(1)
    q = Tensor(rng.standard_normal((2, heads, T, C // heads)), requires_grad=True)
    k, v = (Tensor(rng.standard_normal((2, groups, T, C // heads)), requires_grad=True) for _ in range(2))
    out = F.attention(q, k, v, is_causal=True)
    (call,) = [call for call in tape.calls(out) if call[0] == "attention"]
    cost = CONTRACT["attention"].cost(*call[1])
    written_out = softmax_by_hand(q.numpy(), *(x.numpy().repeat(heads // groups, axis=1) for x in (k, v)))
    return kept, cost.flops, cost.bytes_read, np.abs(out.numpy() - written_out).max()


def softmax_by_hand(q, k, v):
    """Causal attention, every head with keys and values of its own."""
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    weights = np.where(np.tril(np.ones(scores.shape[-2:], dtype=bool)), np.exp(scores), 0)
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def gradients_by_depth(norm_first, depths, seeds, C=64):
    """The size of the gradient of linear1 in the first and in the last layer, at the start of training.

    → (depths, 2), the geometric mean over seeds"""
    sizes = np.empty((len(depths), len(seeds), 2))
    for i, depth in enumerate(depths):
        for j, seed in enumerate(seeds):
            shape = {"vocab_size": 50, "d_model": C, "n_heads": 4, "n_layers": depth, "d_ff": 2 * C, "max_len": 16}
            model = LanguageModel(**shape, norm_first=norm_first, seed=seed, dtype="float64")
            ids = np.random.default_rng(seed).integers(50, size=(4, 17))
            model.loss(ids[:, :-1], ids[:, 1:]).backward()
            layers = model.base.encoder.layers
            sizes[i, j] = [np.linalg.norm(layer.linear1.weight.grad.numpy()) for layer in (layers[0], layers[-1])]
    return np.exp(np.log(sizes).mean(axis=1))


def gradient_table(depths, after, before):
    names = ("layers", "after: first", "after: last", "before: first", "before: last")
    rows = [(depth, *(f"{n:.3f}" for n in (*a, *b))) for depth, a, b in zip(depths, after, before, strict=True)]
    return table(names, rows, right=range(5))
