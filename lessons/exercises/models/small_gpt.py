"""# A language model of one layer

Words in, scores of the next word out: a whole GPT with one layer and one head, and the loop that trains it. Write it
with the engine, which then knows the gradients by itself.

    x = embedding[ids] + positions[0 .. T-1]               (B, T, C)
    x = x + out · attention(norm(x) with norm1)            causal: a word sees itself and those before it
    x = x + down · max(0, up · norm(x) with norm2)
    logits = head · norm(x) with norm3                     (B, T, V)

"matrix · x" is F.linear(x, matrix). w holds Tensors: "embedding", "positions", "norm1", "query", "key", "value", "out",
"norm2", "up", "down", "norm3", "head". There are no biases. What you need:

    F.embedding(table, ids)   F.linear(x, matrix)   F.rms_norm(x, scale)   F.relu(x)   a + b   a[:T]
    F.attention(q, k, v, is_causal=...)      q, k, v (B, H, T, D): with one head, x[:, None] makes (B, 1, T, C)
    F.cross_entropy(logits, targets)         the mean loss; .backward() then fills .grad of each weight

`train` takes a batch a step. Each row of a batch has T + 1 words: the model reads the first T, and at each place the
target is the word that follows. One step of plain descent: weight ← weight - lr · gradient, for every weight.

Example: with head = 0 all scores are 0, each of V words is equally likely, and the first loss is log V, whatever the
other weights are.
"""

import numpy as np

from autograd import Tensor
from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES, KIND = "models", "11", 2, 40, "engine"

STUB = '''
import numpy as np

import autograd.functional as F
from autograd import Tensor


def logits(w, ids):
    """w: name → Tensor; ids (B, T) integers  →  scores of the next word, a Tensor (B, T, V)"""
    raise NotImplementedError("your turn")


def scores(weights, ids):
    """Given; the judge calls it.   weights: name → array; ids (B, T)  →  array (B, T, V)"""
    return logits({name: Tensor(array) for name, array in weights.items()}, ids).numpy()


def train(weights, batches, lr):
    """weights: name → array; batches (N, B, T + 1) integers  →  the weights (arrays) after N steps"""
    w = {name: Tensor(array.copy(), requires_grad=True) for name, array in weights.items()}
    raise NotImplementedError("your turn")
    return {name: one.numpy() for name, one in w.items()}
'''

LOGITS = """    T = ids.shape[1]
    x = F.embedding(w["embedding"], ids) + w["positions"][:T]
    n = F.rms_norm(x, w["norm1"])
    q, k, v = (F.linear(n, w[name])[:, None] for name in ("query", "key", "value"))  # one head
    x = x + F.linear(F.attention(q, k, v, is_causal=True)[:, 0], w["out"])
    n = F.rms_norm(x, w["norm2"])
    x = x + F.linear(F.relu(F.linear(n, w["up"])), w["down"])
    return F.linear(F.rms_norm(x, w["norm3"]), w["head"])
"""
TRAIN = """    for words in batches:
        for one in w.values():
            one.grad = None  # else it would be added to the last step's
        loss = F.cross_entropy(logits(w, words[:, :-1]), words[:, 1:])
        loss.backward()
        for one in w.values():
            one.data = one.data - lr * one.grad.data
"""
TURN = '    raise NotImplementedError("your turn")\n'
SOLUTION = STUB.replace(TURN, LOGITS, 1).replace(TURN, TRAIN)

ANOTHER = """
import numpy as np

from autograd import Tensor
import autograd.functional as F


def norm(x, scale):
    return scale * x / ((x * x).mean(axis=-1, keepdims=True) + 1e-5) ** 0.5


def logits(w, ids):
    B, T = ids.shape
    x = w["embedding"][ids] + w["positions"][np.arange(T)]
    n = norm(x, w["norm1"])
    q, k, v = n @ w["query"].T, n @ w["key"].T, n @ w["value"].T
    future = np.triu(np.full((T, T), -1e30), 1)
    p = F.softmax(q @ k.swapaxes(1, 2) / q.shape[-1] ** 0.5 + future)
    x = x + p @ v @ w["out"].T
    x = x + (norm(x, w["norm2"]) @ w["up"].T).relu() @ w["down"].T
    return norm(x, w["norm3"]) @ w["head"].T


def scores(weights, ids):
    return logits({name: Tensor(array) for name, array in weights.items()}, ids)


def train(weights, batches, lr):
    for words in batches:  # new Tensors each time: they have no gradient yet
        w = {name: Tensor(array, requires_grad=True) for name, array in weights.items()}
        B, T = words.shape[0], words.shape[1] - 1
        log_p = F.log_softmax(logits(w, words[:, :T]))
        right = log_p[np.arange(B)[:, None], np.arange(T), words[:, 1:]]
        (-right.sum() / (B * T)).backward()
        weights = {name: one.numpy() - lr * one.grad.numpy() for name, one in w.items()}
    return weights
"""


def model(weights):
    """The engine's own language model, with these weights."""
    from minitransformer import Config, LanguageModel

    (V, C), (hidden, _), longest = weights["embedding"].shape, weights["up"].shape, len(weights["positions"])
    made = LanguageModel(
        Config(vocab_size=V, d_model=C, n_heads=1, n_layers=1, d_ff=hidden, max_len=longest, norm_first=True,
               norm="rms", positions="learned", bias=False, head_bias=False, scale_embedding=False, dropout=0.0)
    )  # fmt: skip
    base, layer = made.base, made.base.encoder.layers[0]
    w = {name: Tensor(array.copy(), requires_grad=True) for name, array in weights.items()}
    one = np.concatenate([weights[name] for name in ("query", "key", "value")])
    layer.self_attn.in_proj_weight = joint = Tensor(one, requires_grad=True)
    base.embedding.weight, base.embedding.positions.weight = w["embedding"], w["positions"]
    layer.self_attn.out_proj.weight, made.head.weight = w["out"], w["head"]
    layer.linear1.weight, layer.linear2.weight = w["up"], w["down"]
    layer.norm1.weight, layer.norm2.weight, base.encoder.norm.weight = w["norm1"], w["norm2"], w["norm3"]
    return made, w, joint


def expected(weights, batches, lr):
    for words in batches:
        made, w, joint = model(weights)
        made.loss(words[:, :-1], words[:, 1:]).backward()
        thirds = zip(("query", "key", "value"), np.split(joint.grad.numpy(), 3), strict=True)
        slopes = {name: one.grad.numpy() for name, one in w.items() if one.grad is not None} | dict(thirds)
        weights = {name: array - lr * slopes[name] for name, array in weights.items()}
    return weights


def cases():
    rng = np.random.default_rng(0)

    def weights(V, C, hidden, longest):
        square = dict.fromkeys(("query", "key", "value", "out"), (C, C))
        shapes = {"embedding": (V, C), "positions": (longest, C), "norm1": (C,), **square, "norm2": (C,)}
        shapes |= {"up": (hidden, C), "down": (C, hidden), "norm3": (C,), "head": (V, C)}
        return {name: rng.normal(size=shape) + name.startswith("norm") for name, shape in shapes.items()}

    def case(label, w, ids):
        return Case(f"{label}: ids {ids.shape}", (w, ids), "scores", model(w)[0](ids).numpy())

    small, larger = weights(5, 4, 3, 4), weights(11, 6, 8, 9)
    yield case("one word", small, np.array([[2]]))
    yield case("three words", small, np.array([[2, 0, 2]]))
    yield case("as long as the table of positions", small, np.array([[1, 4, 0, 3], [1, 4, 0, 2]]))
    yield case("larger", larger, rng.integers(0, 11, (3, 7)))
    quiet = small | {"head": np.zeros((5, 4))}
    yield Case("one step, with head = 0: the example", (quiet, rng.integers(0, 5, (1, 2, 4)), 0.5))
    yield Case("one step", (small, rng.integers(0, 5, (1, 2, 4)), 0.1))
    yield Case("three steps", (larger, rng.integers(0, 11, (3, 4, 8)), 0.05))
