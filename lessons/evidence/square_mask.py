"""What lesson 3 measures: who influences whom in whole models, bit for bit and slope by slope, and what peeking buys.

"Position t depends on position s" means that some derivative d out_t / d in_s is not zero. The inputs are whole
numbers, which have no derivatives, but the word vectors behind them have. If each word occurs once, word s at
position s, then row s of the embedding's gradient belongs to position s alone: the whole model is asked, and nothing
can be forgotten."""

from typing import NamedTuple

import numpy as np

import autograd.functional as F
import kernels
from autograd import Tensor, no_grad
from lessons.faults.masks import masked_softmax, scores_of
from minitransformer import LanguageModel, Translator
from minitransformer.optim import Adam

WORDS, LENGTH = 4, 8  # of the noise
SENTENCES = {  # a source and a target; the longer ones for --full
    False: (["the", "dog", "lost", "its", "red", "ball", "."], ["le", "chien", "perdit", "son", "ballon", "."]),
    True: (
        ["the", "dog", "lost", "its", "red", "ball", "in", "the", "old", "park", "."],
        ["le", "chien", "perdit", "son", "ballon", "dans", "le", "parc", "."],
    ),
}
SLACK = 64 * np.finfo(float).eps  # log-probabilities of a few nats, each rounded a few times: this is ample


def jacobian(out, leaf, model):
    """d out[0, t, c] / d leaf, one backward pass for each row.   out (1, T, V) → (T, V, *leaf.shape)"""
    rows = []
    for place in np.ndindex(out.shape[1:]):
        one = np.zeros(out.shape)
        one[0][place] = 1
        model.zero_grad()
        leaf.grad = None
        out.backward(one, retain_graph=True)
        rows.append(np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy())
    return np.array(rows).reshape(*out.shape[1:], *leaf.shape)


def language_model(depth, words, length, dtype="float64"):
    return LanguageModel(words, 16, 2, depth, 24, max_len=length, seed=depth, dtype=dtype)


def language_model_jacobian(depth, T):
    """Every score at t by every number of the vector at s.   → (T, V, T, C)"""
    model = language_model(depth, T, T)
    return jacobian(model(np.arange(T)[None]), model.base.embedding.weight, model)


def changed_bits(depth, dtype, T, cuts, words=11):
    """Outputs before a cut whose bits change with the words behind it; outputs compared; cuts without effect behind."""
    rng = np.random.default_rng(depth)
    model = language_model(depth, words, T, dtype)
    text = np.repeat(rng.integers(words, size=(1, T)), cuts, axis=0)
    cut = np.linspace(0, T - 2, cuts).astype(int)[:, None]
    other = np.where(np.arange(T) > cut, (text + rng.integers(1, words, text.shape)) % words, text)
    with no_grad():
        before, after = (model(ids).numpy() for ids in (text, other))
    same = (before.view(f"i{before.itemsize}") == after.view(f"i{before.itemsize}")).all(axis=2)
    past = np.arange(T) <= cut
    return int((~same & past).sum()), int(past.sum()), int((same | past).all(axis=1).sum())


class Influence(NamedTuple):
    """Slopes towards later positions that are not 0.0, of how many; pairs s <= t without influence, of how many;
    outputs before a cut that change with the words behind it, of how many; cuts without any effect, of how many."""

    leaks: int
    slopes: int
    dead: int
    pairs: int
    changed: int
    outputs: int
    idle: int
    cuts: int


def influence(backend, full):
    """Language models of 1 to 4 layers on this backend. 130 words are more than two of the tiles of 64 that the fast
    kernels work in; a GPU emulated on the CPU is slow, so it gets less to do."""
    T, length, cuts = (5, 70, 3) if backend == "emulated" else (16 if full else 10, 130, 9)
    later, earlier = np.triu(np.ones((T, T), bool), 1), np.tril(np.ones((T, T), bool))
    with kernels.use(backend):
        stacks = [language_model_jacobian(depth, T).transpose(0, 2, 1, 3) for depth in range(1, 5)]
        bits = [changed_bits(depth, dtype, length, cuts) for depth in (1, 4) for dtype in ("float32", "float64")]
    leaks, slopes = sum(np.count_nonzero(J[later]) for J in stacks), sum(J[later].size for J in stacks)
    dead = sum(int((~J[earlier].any(axis=(1, 2))).sum()) for J in stacks)
    changed, outputs, idle = (sum(column) for column in zip(*bits, strict=True))
    return Influence(leaks, slopes, dead, int(earlier.sum()) * len(stacks), changed, outputs, idle, cuts * len(bits))


def masks(T=6):
    """Attention weights (T, T) of the same scores: the engine's; the diagonal hidden by minus infinity; by -1e9."""
    q, k = (Tensor(np.random.default_rng(i).standard_normal((1, 1, T, T))) for i in (0, 1))
    sound = F.attention(q, k, Tensor(np.eye(T)[None, None]), is_causal=True).numpy()[0, 0]  # unit values: the weights
    scores, behind = scores_of(q, k)
    with np.errstate(invalid="ignore"):
        strict = masked_softmax(scores, behind > 0).numpy()[0, 0]
    return sound, strict, masked_softmax(scores, behind > 0, -1e9).numpy()[0, 0]


def train_on_noise(shifted, full):
    """A small model on evenly drawn words; → the model and its losses."""
    rng, steps = np.random.default_rng(0), 400 if full else 150
    model = LanguageModel(WORDS, 16, 2, 1, 32, max_len=LENGTH, seed=0, dtype="float64")
    optimizer, losses = Adam(model.parameters(), lr=1e-2), []
    for _ in range(steps):
        text = rng.integers(WORDS, size=(32, LENGTH + 1))
        loss = model.loss(text[:, :-1], text[:, 1:] if shifted else text[:, :-1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def guess_every_next_word(model, texts=16):
    """Puts every word w at t+1 in turn. → how many predictions at t change with it, and the mean loss of guessing w
    there (texts, T-1)."""
    text = np.random.default_rng(1).integers(WORDS, size=(texts, LENGTH))
    t, w = np.arange(LENGTH - 1)[:, None, None], np.arange(WORDS)[:, None]
    tried = np.where(np.arange(LENGTH) == t + 1, w, text[:, None, None])  # (texts, T-1, w, T)
    with no_grad():
        log_p = F.log_softmax(model(tried.reshape(-1, LENGTH))).numpy()
    log_p = log_p.reshape(*tried.shape, WORDS)[:, np.arange(LENGTH - 1), :, np.arange(LENGTH - 1)].swapaxes(0, 1)
    varied = int((log_p != log_p[:, :, :1]).any(axis=(2, 3)).sum())
    return varied, -log_p[..., np.arange(WORDS), np.arange(WORDS)].mean(axis=-1)


def translator_influence(S, T):
    """Slopes in a translator: scores by target words (T, T, V, C), memory by source words (S, S, C, C), scores by
    memory (T, S, V, C); and, with the last two source words declared padding, scores by source words (S, T, V, C).

    The chain source, memory, scores is taken in two steps, because one step alone would hide a mistake in the other: if
    the encoder mixes everything, even a decoder that sees half of the memory depends on every source word."""
    model = Translator(S, T, 16, 2, 2, 2, 24, max_len=S, seed=1, dtype="float64")
    source, target = np.arange(S)[None], np.arange(T)[None]
    own = jacobian(model(source, target), model.target_embedding.weight, model).transpose(0, 2, 1, 3)
    memory = model.encode(source)
    reading = jacobian(memory, model.source_embedding.weight, model).transpose(0, 2, 1, 3)
    leaf = Tensor(memory.numpy(), requires_grad=True)
    looking = jacobian(model.head(model.decode(target, leaf)), leaf, model)[:, :, 0].transpose(0, 2, 1, 3)
    out = model(source, target, source_lengths=np.array([S - 2]))
    padded = jacobian(out, model.source_embedding.weight, model).transpose(2, 0, 1, 3)
    return own, reading, looking, padded


def blind_pairs(slopes):
    """Pairs of positions without any influence.   slopes (T, S, V, C)"""
    return int((~slopes.any(axis=(2, 3))).sum())
