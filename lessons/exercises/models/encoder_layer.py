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
from lessons.exercises.exercise import Case, code, edit

TRACK, LESSON, LEVEL, MINUTES = "models", "06", 2, 20
RESULTS = ("out",)

HINTS = (
    "Write feed_forward first: one line, of h. Then the two lines of one column, then those of the other.",
    "Both columns are one line with the norm at another place: x + branch(norm(x)), or norm(x + branch(x)).",
    "h = x + attention(norm(x, w['scale1'], w['shift1']), w) if norm_first else "
    "norm(x + attention(x, w), w['scale1'], w['shift1']); the second line has h for x, and the second norm.",
)

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

WRONG = {
    "the other column": edit("if norm_first:", "if not norm_first:", tell="The two columns are exchanged."),
    "norm always first": edit(
        "if norm_first:", "if True:", tell="The norm comes first, whatever norm_first says: there are two columns."
    ),
    "norm never first": edit(
        "if norm_first:", "if False:", tell="The norm comes after the sum, whatever norm_first says."
    ),
    "no residual around attention": edit(
        "h = x + attention(norm1",
        "h = attention(norm1",
        "norm1(x + attention(x, w))",
        "norm1(attention(x, w))",
        tell="x is not added to what attention gives: the first residual connection is missing.",
    ),
    "no residual around feed-forward": edit(
        "return h + feed_forward(norm2",
        "return feed_forward(norm2",
        "norm2(h + feed_forward(h))",
        "norm2(feed_forward(h))",
        tell="h is not added to what feed_forward gives: the second residual connection is missing.",
    ),
    "x added for h": edit(
        "return h + feed_forward(norm2",
        "return x + feed_forward(norm2",
        "norm2(h + feed_forward",
        "norm2(x + feed_forward",
        tell="The second sum adds x where h belongs: what attention has read is lost.",
    ),
    "the norm goes on": edit(
        "        h = x + attention(norm1(x), w)",
        "        x = norm1(x)\n        h = x + attention(x, w)",
        tell="With norm first, the sum adds norm1(x); x itself must go on, and only the branch reads its norm.",
    ),
    "both norms go on": edit(
        "        h = x + attention(norm1(x), w)",
        "        x = norm1(x)\n        h = x + attention(x, w)",
        "return h + feed_forward(norm2(h))",
        "return norm2(h) + feed_forward(norm2(h))",
        tell="With norm first, the sums add normed vectors; x and h themselves must go on.",
    ),
    "norm inside the sum": edit(
        "norm1(x + attention(x, w))",
        "x + norm1(attention(x, w))",
        "norm2(h + feed_forward(h))",
        "h + norm2(feed_forward(h))",
        tell="The norm is taken of the branch alone; with norm after, it is taken of the sum.",
    ),
    "norm1 twice": edit(
        'w["scale2"], w["shift2"]',
        'w["scale1"], w["shift1"]',
        tell="The second norm uses scale1 and shift1; it has its own, scale2 and shift2.",
    ),
    "no ReLU": edit(
        'np.maximum(0, x @ w["w1"].T + w["b1"])',
        '(x @ w["w1"].T + w["b1"])',
        tell="Nothing is set to zero between w1 and w2: without it, the two are one matrix.",
    ),
    "ReLU at the end": edit(
        'np.maximum(0, x @ w["w1"].T + w["b1"]) @ w["w2"].T + w["b2"]',
        'np.maximum(0, (x @ w["w1"].T + w["b1"]) @ w["w2"].T + w["b2"])',
        tell="The maximum with 0 stands behind w2; it belongs between w1 and w2.",
    ),
    "no biases": edit(' + w["b1"]', "", ' + w["b2"]', "", tell="The biases b1 and b2 are missing."),
    "side by side": edit(
        "return h + feed_forward(norm2(h))",
        "return h + feed_forward(norm2(x))",
        "norm2(h + feed_forward(h))",
        "norm2(h + feed_forward(x))",
        tell="The feed-forward part reads x; it reads h, what attention has made of it.",
    ),
    "no second norm": edit(
        "return h + feed_forward(norm2(h))",
        "return h + feed_forward(h)",
        "return norm2(h + feed_forward(h))",
        "return h + feed_forward(h)",
        tell="The second norm is missing.",
    ),
    "not transposed": edit('x @ w["w1"].T', 'x @ w["w1"]', says="mismatch"),
    "x itself": code("def encoder_layer(x, w, norm_first):\n    return x.copy()\n", says="expected"),
    "the engine's own": code(
        """
from minitransformer.layers import EncoderLayer


def encoder_layer(x, w, norm_first):
    return EncoderLayer(w)(x)
""",
        says="not to call",
    ),
}


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
