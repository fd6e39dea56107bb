"""What lesson 2 measures: the engine's distance from the lesson's own loop, `by_definition`, and what the root does.

How far apart may two right answers be? Both sides round. Let u = eps/2 be half a unit in the last place, and S the
largest sum over c of |q_c k_c| / sqrt(d). A score is a sum of d products, scaled and shifted by the row's maximum or
its logarithmic sum: it is off by at most (d+3) u S, and so is that shift. The exponential turns an absolute error
into a relative one. Two sums over n_x keys add 2 n_x u, and a few more units (16 is generous) cover exponentials,
logarithm and division. Engine and loop may err in opposite directions, which doubles it:

    |error of the output| <= eps K max|v|,   K = 2 (d+3) S + 2 n_x + 16.

For gradients the same relative error eps K, with 2 (n_y + d) more for their longer sums, meets these magnitudes, where
A is the largest sum over c of |dout_c v_c| and the weights of a row sum to one:
|dq| <= 2 A max|k| / sqrt(d),  |dk| <= 2 A n_y max|q| / sqrt(d),  |dv| <= n_y max|dout|."""

import cmath
import math
from typing import NamedTuple

import numpy as np

import autograd.functional as F
from autograd import Tensor
from minitransformer.layers import MultiheadAttention
from minitransformer.module import Init

EPS = np.finfo(np.float64).eps


def slopes_by_definition(by_definition, arrays, upstream, h=1e-200):
    """d Σ upstream · attention(q, k, v) by every entry of q, k and v, each by a nudge in an imaginary direction."""
    slopes = [np.zeros(array.shape) for array in arrays]
    for which, array in enumerate(arrays):
        for place in np.ndindex(array.shape):
            nudged = [a.astype(complex) for a in arrays]
            nudged[which][place] += 1j * h
            out = np.array(by_definition(*(a.tolist() for a in nudged), exp=cmath.exp))
            slopes[which][place] = (upstream * out).sum().imag / h
    return slopes


def allowed(q, k, v, upstream):
    """The bounds above: for the output, and for the gradients of q, k, v."""
    (n_y, d), n_x = q.shape, len(k)
    q, k, v, upstream = (np.abs(a) for a in (q, k, v, upstream))
    K = 2 * (d + 3) * (q @ k.T).max() / math.sqrt(d) + 2 * n_x + 16
    A = (upstream @ v.T).max()
    largest = 2 * A * k.max() / math.sqrt(d), 2 * A * n_y * q.max() / math.sqrt(d), n_y * upstream.max()
    return EPS * K * v.max(), [EPS * (K + 2 * (n_y + d)) * size for size in largest]


class Distance(NamedTuple):
    """How far the engine is from the definition: the largest difference, and the largest part of its bound used up."""

    largest: float
    of_bound: float


def _distance(pairs) -> Distance:
    """pairs: (the engine's array, the loop's, the bound)"""
    off = [(np.abs(engine - loop).max(), bound) for engine, loop, bound in pairs]
    return Distance(max(o for o, _ in off), max(o / bound for o, bound in off))


def compare_with_the_loop(by_definition, full):
    """Right shapes, sizes tried, and the distances of values and of gradients. The sizes have ones and primes, and 67
    keys, more than the 64 that the fast kernels take at a time."""
    rng = np.random.default_rng(2)
    sizes = [(1, 1, 1), (1, 7, 3), (5, 1, 8), (7, 5, 4), (3, 67, 8)] + [(67, 130, 16), (13, 13, 32)] * full
    shapes, values, gradients = 0, [], []
    for n_y, n_x, d in sizes:
        arrays = [rng.standard_normal(shape) for shape in ((n_y, d), (n_x, d), (n_x, d))]
        upstream = rng.standard_normal((n_y, d))
        inputs = [Tensor(a[None, None], requires_grad=True) for a in arrays]  # one sequence, one head
        out = F.attention(*inputs)
        out.backward(upstream[None, None])
        shapes += out.shape[2:] == (n_y, d)
        bound, bounds = allowed(*arrays, upstream)
        values.append((out.numpy()[0, 0], np.array(by_definition(*(a.tolist() for a in arrays))), bound))
        if n_x * d < 200 or (full and n_x < 100):  # the complex loop runs once for every input number
            slopes = slopes_by_definition(by_definition, arrays, upstream)
            gradients += [(t.grad.numpy()[0, 0], s, b) for t, s, b in zip(inputs, slopes, bounds, strict=True)]
    return shapes, len(sizes), _distance(values), _distance(gradients)


def compare_the_layer(by_definition):
    """The layer of the models, two heads, with y over x and x over x: distances from the loop. And how many numbers
    differ between looking at oneself and looking at an equal stranger, of how many.

    Its weights and inputs are small multiples of 1/4: such sums are exact in floating point, in any order, so that only
    attention itself rounds and the bound above holds for the layer too."""
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
        return np.concatenate(parts, axis=1), bound

    found = {}
    for name, a, b in (("y over x", y, x), ("x over x", x, x)):
        found[name] = _distance([(layer(Tensor(a[None]), Tensor(b[None])).numpy()[0], *heads_by_definition(a, b))])
    itself, stranger = layer(Tensor(x[None])).numpy(), layer(Tensor(x[None]), Tensor(x[None])).numpy()
    return found, int((itself != stranger).sum()), itself.size


def weights(q, k, **options):
    """The engine's attention weights (n_y, n_x), read through values that are unit vectors, d of them at a time."""
    (n, d), parts = k.shape, -(-len(k) // k.shape[1])
    units = np.eye(n, parts * d).reshape(n, parts, 1, d).transpose(1, 2, 0, 3)
    q, k = (np.repeat(a[None, None], parts, axis=0) for a in (q, k))
    out = F.attention(Tensor(q), Tensor(k), Tensor(units), **options).numpy()  # (parts, 1, n_y, d)
    return out[:, 0].transpose(1, 0, 2).reshape(q.shape[2], -1)[:, :n]


def variance_of_scores(d, **options):
    """Mean square of the scores of all 2^d vectors of signs against the key (1, ..., 1), counted and not sampled, and
    the largest error that rounding explains. To read a score out of the engine, there is a second key, the zero vector:
    the logarithm of the two weights' ratio is the score."""
    signs = 1.0 - 2.0 * (np.arange(2**d)[:, None] >> np.arange(d) & 1)
    p = weights(signs, np.stack([np.ones(d), np.zeros(d)]), **options)
    scores = np.log(p[:, 0] / p[:, 1])
    top = np.abs(scores).max()  # weights are off by eps K in relation, so scores by eps K, and squares by 2 top eps K
    return (scores**2).mean(), 2 * top * EPS * (2 * (d + 3) * top + 20)


def variance_off(widths, power, **options):
    """How far the variance is from d^power at most, as a part of what rounding explains."""
    found = [(d**power, *variance_of_scores(d, **options)) for d in widths]
    return max(abs(variance - expected) / bound for expected, variance, bound in found)


def entropies(widths, n, queries=256, **options):
    """At each width, for normally distributed vectors: mean entropy of the weights (nats), and mean largest weight."""
    found = []
    for d in widths:
        draw = np.random.default_rng(d).standard_normal
        p = weights(draw((queries, d)), draw((n, d)), **options)
        found.append((-(p * np.log(np.maximum(p, 1e-300))).sum(axis=1).mean(), p.max(axis=1).mean()))
    return found


def root_panels(widths, keys):
    """For the figure, with and without the root: variances at widths 1 ... 10, entropies, and one query's weights."""
    draw = np.random.default_rng(1).standard_normal
    q, k = draw((1, widths[-1])), draw((keys, widths[-1]))
    return {
        label: (
            [variance_of_scores(d, **options)[0] for d in range(1, 11)],
            [entropy for entropy, _ in entropies(widths, keys, **options)],
            np.sort(weights(q, k, **options)[0])[::-1],
        )
        for label, options in (("without the root", {"scale": 1.0}), (r"divided by $\sqrt{D}$", {}))
    }
