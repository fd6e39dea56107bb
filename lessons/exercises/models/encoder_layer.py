"""# One encoder layer

All parts of a layer are at hand; now put them together. Two branches read the words: attention, in which they look at
one another, and the feed-forward part, which works on each word by itself:

    feed_forward(x) = max(0, x w1ᵀ + b1) w2ᵀ + b2

What a branch gives is *added* to what went in (the residual connection), and each branch has a layer norm of its own.
In the paper of 2017 the norm comes after the sum; most models since then have it before the branch, so that nothing
stands in the way of the sum:

    norm after                               norm first
    h   = norm1(x + attention(x))            h   = x + attention(norm1(x))
    out = norm2(h + feed_forward(h))         out = h + feed_forward(norm2(h))

`norm` and `attention` are given. The weights come as a dictionary w: "wq", "wk", "wv", "wo" of attention; "w1", "b1",
"w2", "b2"; "scale1", "shift1" of the first norm and "scale2", "shift2" of the second.

Example: if all weights but the scales are zero, both branches give nothing. With norm_first=True the layer then returns
x itself, with norm_first=False it returns x normed twice.
"""

import numpy as np

from autograd import Tensor
from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "models", "06", 2, 20
RESULTS = ("out",)

SOLUTION = '''
import numpy as np


def norm(x, scale, shift):
    """Given. Each row to mean 0 and variance 1, then scale and shift.   x (T, C)  →  (T, C)"""
    centred = x - x.mean(axis=-1, keepdims=True)
    return scale * centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5) + shift


def attention(x, w):
    """Given. One head; every word looks at every other.   x (T, C)  →  (T, C)"""
    q, k, v = x @ w["wq"].T, x @ w["wk"].T, x @ w["wv"].T
    scores = q @ k.T / np.sqrt(q.shape[-1])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v @ w["wo"].T


def encoder_layer(x, w, norm_first):
    """x (T, C); w: name → array; norm_first: True or False  →  out (T, C)"""

    def norm1(x):
        return norm(x, w["scale1"], w["shift1"])

    def norm2(x):
        return norm(x, w["scale2"], w["shift2"])  # the second norm has learnt other numbers

    def feed_forward(x):
        return np.maximum(0, x @ w["w1"].T + w["b1"]) @ w["w2"].T + w["b2"]

    if norm_first:
        h = x + attention(norm1(x), w)  # x itself goes on, not its norm
        return h + feed_forward(norm2(h))
    h = norm1(x + attention(x, w))
    return norm2(h + feed_forward(h))
'''

GIVEN = SOLUTION.partition("def encoder_layer")[0].lstrip("\n")

ANOTHER = (
    GIVEN
    + """
def encoder_layer(x, w, norm_first):
    def hidden(x):
        up = np.einsum("tc,fc->tf", x, w["w1"]) + w["b1"]
        return np.where(up > 0, up, 0) @ w["w2"].T + w["b2"]

    for n, branch in ((1, lambda x: attention(x, w)), (2, hidden)):
        scale, shift = w[f"scale{n}"], w[f"shift{n}"]
        read = norm(x, scale, shift) if norm_first else x
        x = x + branch(read)
        x = x if norm_first else norm(x, scale, shift)
    return x
"""
)


def expected(x, w, norm_first):
    from minitransformer import Config
    from minitransformer.layers import EncoderLayer

    F, C = w["w1"].shape
    layer = EncoderLayer(Config(vocab_size=2, d_model=C, n_heads=1, d_ff=F, dropout=0.0, norm_first=norm_first))
    one, attention = {name: Tensor(array) for name, array in w.items()}, layer.self_attn
    attention.in_proj_weight = Tensor(np.concatenate([w["wq"], w["wk"], w["wv"]]))
    attention.in_proj_bias, attention.out_proj.bias = Tensor(np.zeros(3 * C)), Tensor(np.zeros(C))
    attention.out_proj.weight = one["wo"]
    layer.linear1.weight, layer.linear1.bias = one["w1"], one["b1"]
    layer.linear2.weight, layer.linear2.bias = one["w2"], one["b2"]
    layer.norm1.weight, layer.norm1.bias = one["scale1"], one["shift1"]
    layer.norm2.weight, layer.norm2.bias = one["scale2"], one["shift2"]
    return layer(Tensor(x[None])).numpy()[0]


def cases():
    rng = np.random.default_rng(0)

    def weights(C, F, size=1.0):
        shapes = {"wq": (C, C), "wk": (C, C), "wv": (C, C), "wo": (C, C), "w1": (F, C), "b1": (F,), "w2": (C, F)}
        shapes |= {"b2": (C,), "scale1": (C,), "shift1": (C,), "scale2": (C,), "shift2": (C,)}
        return {name: size * rng.normal(size=shape) + name.startswith("scale") for name, shape in shapes.items()}

    x = np.array([[1.0, 3.0, 5.0], [0.0, 0.0, 6.0]])
    for first in (True, False):
        yield Case("only the scales: the example", (x, weights(3, 2, 0.0), first))
    for label, T, C, F in (("two words", 2, 3, 2), ("one word", 1, 4, 3), ("larger", 7, 6, 11)):
        for first in (True, False):
            yield Case(label, (rng.normal(size=(T, C)), weights(C, F), first))
    yield Case("scores in the thousands", (60 * rng.normal(size=(2, 3)), weights(3, 2), False))
