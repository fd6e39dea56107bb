"""Mistakes that reports on the translation lab admit or show, and some more, put back into the engine one at a time.

    with broken(mask_after_softmax):
        ...                            # everything computed here has the fault

Each is a function that breaks an `Engine`, like the negative controls of a lesson. `symptoms` finds those of FAULTS on
an untrained model, by counting.
"""

import contextlib
from collections.abc import Callable, Iterator

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.harness.trial import Engine
from minitransformer import Translator
from minitransformer.models.base import TokenEmbedding
from minitransformer.module import Module
from minitransformer.optim import Adam

PAD, EOS = 1, 2


def sound(engine: Engine) -> None:
    """nothing is broken"""


def no_norm(engine: Engine) -> None:
    """layer norm hands its input on as it is"""
    engine.replace(F, "layer_norm", lambda norm: lambda x, weight, bias, eps=1e-5: x)


def mask_after_softmax(engine: Engine) -> None:
    """later words get weight 0 after the softmax, whose sum they have entered already"""

    def change(attention):
        def run(q, k, v, is_causal=False, **options):
            if not is_causal:
                return attention(q, k, v, **options)
            weights = F.softmax(q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5)
            return (weights * Tensor(np.tril(np.ones(weights.shape[-2:], dtype=q.dtype)), backend=q.backend)) @ v

        return run

    engine.replace(F, "attention", change)


def leaked_target(engine: Engine) -> None:
    """the decoder is fed the very words it is scored on, not those before them"""

    def change(loss):
        return lambda self, source, target_in, target_out, **options: loss(
            self, source, target_out, target_out, **options
        )

    engine.replace(Translator, "loss", change)


def unregistered_weights(engine: Engine) -> None:
    """the matrices of attention are not among the parameters: the optimizer never hears of them"""

    def change(named_parameters):
        return lambda self: [(name, weight) for name, weight in named_parameters(self) if "attn" not in name]

    engine.replace(Module, "named_parameters", change)


def no_padding_mask(engine: Engine) -> None:
    """attention reads padding like words"""
    engine.replace(F, "attention", lambda f: lambda q, k, v, key_lengths=None, **options: f(q, k, v, **options))


def trained_on_the_source(engine: Engine) -> None:
    """the words to be written are those of the source: a slip of the loader, and a lesson in copying"""

    def change(loss):
        def run(self, source, target_in, target_out, **options):
            starts = np.zeros_like(source[:, :1])  # <sos>
            return loss(self, source, np.concatenate([starts, source[:, :-1]], axis=1), source, **options)

        return run

    engine.replace(Translator, "loss", change)


def unscaled_words(engine: Engine) -> None:
    """words are not multiplied by √C: positions, ten times as large, drown them"""

    def change(start):
        return lambda self, words, width, max_len, scale, positions, *, init: start(
            self, words, width, max_len, False, positions, init=init
        )

    engine.replace(TokenEmbedding, "__init__", change)


FAULTS: dict[str, Callable[[Engine], None]] = {
    "sound": sound,
    "no norm": no_norm,
    "mask after softmax": mask_after_softmax,
    "leaked target": leaked_target,
    "unregistered weights": unregistered_weights,
    "no padding mask": no_padding_mask,
}


@contextlib.contextmanager
def broken(fault: Callable[[Engine], None]) -> Iterator[None]:
    """The engine with this fault, for a while."""
    engine = Engine()
    try:
        fault(engine)
        yield
    finally:
        engine.restore()


def hidden(model: Translator, source, target_in, target_out) -> np.ndarray:
    """What the loss sees: the states from which each word is predicted.   → (B, T, C)"""
    seen = []

    def change(cross_entropy):
        def run(x, *arguments, **options):
            seen.append(x.numpy())
            return cross_entropy(x, *arguments, **options)

        return run

    lengths = (source != PAD).sum(axis=1)
    with broken(lambda engine: engine.replace(F, "linear_cross_entropy", change)):
        model.loss(source, target_in, target_out, source_lengths=lengths, ignore_index=PAD)
    return seen[0]


def symptoms(fault: Callable[[Engine], None]) -> dict[str, int]:
    """Four counts on an untrained model, all 0 where the engine is sound: predictions that move when only

    answer   the answer to them changes          future   a later word of the input changes
    padding  padding is added to the source      still    and weights that one step of Adam leaves as they were"""
    words, T = 20, 6
    random = np.random.default_rng(0)
    model = Translator(words, words, 16, 2, 1, 1, 32, max_len=12, dtype="float64")
    weights = dict(model.named_parameters())  # asked before the fault can hide any
    source, target = random.integers(4, words - 1, (8, T)), random.integers(4, words - 1, (8, T))
    target_in, target_out = np.pad(target, ((0, 0), (1, 0))), np.pad(target, ((0, 0), (0, 1)), constant_values=EOS)
    other_in, other_out = target_in.copy(), target_out.copy()
    other_in[:, -1] = other_out[:, -1] = words - 1  # a word that stands nowhere else
    padded = np.pad(source, ((0, 0), (0, 4)), constant_values=PAD)
    with broken(fault):
        usual = hidden(model, source, target_in, target_out)
        answer = hidden(model, source, target_in, other_out) != usual
        future = hidden(model, source, other_in, target_out) != usual
        # sums of some dozen terms of size 1: rounding in float64 stays far below 1e-12
        padding = np.abs(hidden(model, padded, target_in, target_out) - usual) > 1e-12
        before = {name: weight.numpy().copy() for name, weight in weights.items()}
        model.loss(source, target_in, target_out).backward()
        Adam(model.parameters()).step()
    still = [name for name, weight in weights.items() if np.array_equal(weight.numpy(), before[name])]
    return {
        "answer": int(answer[:, -1].any(axis=-1).sum()),
        "future": int(future[:, :-1].any(axis=-1).sum()),
        "padding": int(padding.any(axis=-1).sum()),
        "still": len(still),
    }
