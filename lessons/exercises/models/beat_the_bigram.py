"""# Beat the bigram

A bigram model counts which word follows which, and knows nothing else. Train a model that knows more, on a text about a
farm: 20,000 words, 24 different ones, given as numbers from 0 to 23. A few sentences of it:

    the cow eats grass . the bee behind the barn eats nectar . the cow behind the tree eats grass .

Who has seen only "eats" must guess among eight foods; who remembers the animal knows. How you build the model is up to
you: one layer as in `small-gpt` is enough (begin with your answer to it; norms without weights will do too).

    start    small random weights: normal numbers / √(columns of the matrix)
    a step   cut 16 pieces of 17 words out of the text, at random places; loss; backward; weight ← weight - 0.5 gradient
    again    100 times: some two seconds; the judge waits for ten

The judge asks for the scores of the next word, at each of 16 places of 64 texts that you have not seen. The mean loss
-log p(next word) must be lower than that of a bigram counted on the same 20,000 words, by more than chance: by two
standard errors of the mean over the 64 texts. And a word must not change the scores at places before it.

Example: scores that are all equal give a loss of log 24 = 3.18. The bigram's is near 1.
"""

import numpy as np

from lessons.exercises.exercise import Case
from lessons.exercises.unseen_text import judged, texts  # noqa: F401 - the judge looks for `judged` here

TRACK, LESSON, LEVEL, MINUTES, KIND = "models", "11", 3, 45, "engine"
FUNCTION = "predictions"

STUB = '''
import numpy as np

import autograd.functional as F
from autograd import Tensor, no_grad


def logits(w, ids):
    """w: name → Tensor; ids (B, T) integers  →  scores of the next word, a Tensor (B, T, 24)"""
    raise NotImplementedError("your turn")


def train(text):
    """text (20000) integers  →  w, the weights"""
    raise NotImplementedError("your turn")


def predictions(text, questions):
    """Given; the judge calls it.   questions (B, 16) integers  →  scores (B, 16, 24)"""
    w = train(text)
    with no_grad():
        return logits(w, questions).numpy()
'''

SOLUTION = '''
import numpy as np

import autograd.functional as F
from autograd import Tensor, no_grad

V, C, HIDDEN, T = 24, 32, 64, 16
ONES = Tensor(np.ones(C))  # norms without weights


def logits(w, ids):
    """w: name → Tensor; ids (B, T) integers  →  scores of the next word, a Tensor (B, T, 24)"""
    x = F.embedding(w["embedding"], ids) + w["positions"][: ids.shape[1]]
    n = F.rms_norm(x, ONES)
    q, k, v = (F.linear(n, w[name])[:, None] for name in ("query", "key", "value"))
    x = x + F.linear(F.attention(q, k, v, is_causal=True)[:, 0], w["out"])  # which animal was it?
    x = x + F.linear(F.relu(F.linear(F.rms_norm(x, ONES), w["up"])), w["down"])
    return F.linear(F.rms_norm(x, ONES), w["head"])


def train(text):
    """text (20000) integers  →  w, the weights"""
    rng = np.random.default_rng(0)
    shapes = {"embedding": (V, C), "positions": (T, C), "up": (HIDDEN, C), "down": (C, HIDDEN), "head": (V, C)}
    shapes |= {name: (C, C) for name in ("query", "key", "value", "out")}
    w = {name: Tensor(rng.normal(size=s) / s[1] ** 0.5, requires_grad=True) for name, s in shapes.items()}
    for step in range(100):
        places = rng.integers(0, len(text) - T, 16)
        words = text[places[:, None] + np.arange(T + 1)]
        for one in w.values():
            one.grad = None
        loss = F.cross_entropy(logits(w, words[:, :-1]), words[:, 1:])
        loss.backward()
        for one in w.values():
            one.data = one.data - 0.5 * one.grad.data
    return w


def predictions(text, questions):
    """Given; the judge calls it.   questions (B, 16) integers  →  scores (B, 16, 24)"""
    w = train(text)
    with no_grad():
        return logits(w, questions).numpy()
'''

ANOTHER = """
import numpy as np

import autograd.functional as F
from autograd import Tensor, no_grad


def logits(w, ids):
    T = ids.shape[1]
    x = w["embedding"][ids] + w["positions"][np.arange(T)]
    future = np.triu(np.full((T, T), -1e30), 1)
    p = F.softmax(x @ w["both"] @ x.swapaxes(1, 2) + future)  # queries and keys in one matrix
    x = F.concatenate([x, p @ x], axis=-1)  # beside each other instead of added
    return (x @ w["up"]).tanh() @ w["head"]


def predictions(text, questions):
    rng = np.random.default_rng(1)
    shapes = {"embedding": (24, 24), "positions": (16, 24), "both": (24, 24), "up": (48, 64), "head": (64, 24)}
    w = {name: Tensor(rng.normal(size=s) * 0.2, requires_grad=True) for name, s in shapes.items()}
    means = {name: [0.0, 0.0] for name in w}
    for step in range(1, 151):
        words = text[rng.integers(0, len(text) - 16, 12)[:, None] + np.arange(17)]
        F.cross_entropy(logits(w, words[:, :16]), words[:, 1:]).backward()
        for name, one in w.items():  # Adam
            g, (m, v) = one.grad.numpy(), means[name]
            means[name] = m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
            m, v = m / (1 - 0.9**step), v / (1 - 0.99**step)
            one.data, one.grad = one.data - 0.02 * m / (np.sqrt(v) + 1e-8), None
    with no_grad():
        return F.log_softmax(logits(w, questions))
"""


def cases():
    text, unseen, other, _ = texts()
    yield Case("the farm", (text, np.concatenate([unseen[:, :-1], other[:, :-1]])))
