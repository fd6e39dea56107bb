"""The faults that reports on the translation lab admit or show, and how counting finds them before any training.

symptoms(masks.mask_after_softmax)      {"answer": 0, "future": 48, "padding": 0, "still": 0}
"""

import numpy as np

import autograd.functional as F
from lessons.faults.masks import mask_after_softmax, padding_seen
from lessons.faults.models import norm_left_out, unregistered_weights
from lessons.faults.translation import leaked_target, sound
from lessons.harness.engine import Fault, broken, watched
from minitransformer import Translator
from minitransformer.optim import Adam

REPORTED: dict[str, Fault] = {
    "sound": sound,
    "no norm": norm_left_out,
    "mask after softmax": mask_after_softmax,
    "leaked target": leaked_target,
    "unregistered weights": unregistered_weights,
    "no padding mask": padding_seen,
}
PAD, EOS = 1, 2


def hidden(model: Translator, source, target_in, target_out) -> np.ndarray:
    """What the loss sees: the states from which each word is predicted.   → (B, T, C)"""
    lengths = (source != PAD).sum(axis=1)
    with watched(F, "linear_cross_entropy") as calls:
        model.loss(source, target_in, target_out, source_lengths=lengths, ignore_index=PAD)
    return calls[0][0].numpy()


def symptoms(fault: Fault) -> dict[str, int]:
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
