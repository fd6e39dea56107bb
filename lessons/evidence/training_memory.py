"""What lesson 20 measures: the memory of training steps, and the gradients of layers that are computed again."""

from functools import partial

import numpy as np

from lessons.harness.engine import watched
from minitransformer import LanguageModel
from minitransformer.app.bench import ledger
from minitransformer.app.tables import table

WORDS, B, T, C, F, LAYERS = 500, 8, 128, 64, 256, 8
SLACK = 0.05  # of the peak: Python's own objects come and go, and kernels keep small notes


def batch() -> tuple[np.ndarray, np.ndarray]:
    ids = np.random.default_rng(20).integers(0, WORDS, (B, T + 1))
    return ids[:, :-1], ids[:, 1:]


def model(layers: int = LAYERS, dropout: float = 0.0) -> LanguageModel:
    sizes = {"d_model": C, "n_heads": 2, "d_ff": F, "max_len": T}
    return LanguageModel(vocab_size=WORDS, n_layers=layers, dropout=dropout, **sizes)


def step(layers: int = LAYERS, again: bool = False) -> ledger.Step:
    """A training step, predicted and measured."""
    one = model(layers).recompute(again)
    title = "every layer keeps what it computed" if not again else "layers are computed again"
    return ledger.examine(title, one, partial(one.loss, *batch()))


def furthest(one: ledger.Step) -> float:
    """The largest distance between prediction and measurement at any moment, as a share of the peak."""
    pairs = zip(one.predicted, one.measured, strict=True)
    return max(abs(a.bytes - b.bytes) for a, b in pairs) / one.peak


def arrays_a_layer(again: bool) -> float:
    """By how many arrays of B · T · C numbers the peak grows for each further layer, beyond the weights and Adam's
    state, which are there before the step begins."""
    low, high = (step(layers, again) for layers in (4, 8))
    return (high.peak - high.before - (low.peak - low.before)) / 4 / (4 * B * T * C)


def held_by_a_layer() -> str:
    """What one layer adds to the tape, Function by Function."""
    one = step(1)
    rows, before = [], None
    for moment in one.predicted:
        if moment.backward:
            break
        if before is not None and moment.bytes > before:
            rows.append((moment.name, f"{(moment.bytes - before) / (4 * B * T * C):.1f}"))
        before = moment.bytes
    return table(("Function", "new on the tape, in arrays of B · T · C numbers"), rows[1:-1], right=(1,))


def gradients(layers: int, again: bool, dropout: float) -> tuple[list[np.ndarray], int]:
    """Loss and gradients of two batches one after the other, and how many masks were drawn."""
    one, found = model(layers, dropout).recompute(again), []
    for _ in range(2):
        one.zero_grad()
        loss = one.loss(*batch())
        loss.backward()
        found += [loss.numpy(), *(p.grad.numpy() for p in one.parameters())]
    return found, one.rng_state()["counter"]


def bits_that_differ(dropout: float) -> tuple[int, int, int]:
    """Numbers that differ between the two ways, of how many, and masks drawn."""
    (a, masks), (b, others) = (gradients(3, again, dropout) for again in (False, True))
    differ = sum(int((x != y).sum()) for x, y in zip(a, b, strict=True))
    return differ + (masks != others), sum(x.size for x in a), masks


def forward_passes(again: bool) -> float:
    """How many times a layer's matrix products are computed in a training step, counted in feed-forward kernels."""
    one = model(4).recompute(again)
    with watched(one.backend, "feed_forward") as calls:
        one.loss(*batch()).backward()
    return len(calls) / 4
