"""The ledger of memory: what it predicts from the tape against what Python counts."""

from collections import Counter
from functools import partial

import numpy as np
import pytest

from minitransformer.app.bench import charts, ledger
from minitransformer.models import LanguageModel, Translator

IDS = np.random.default_rng(0).integers(0, 300, (8, 65))


def language_model(**more):
    settings = {"vocab_size": 300, "d_model": 64, "n_heads": 2, "n_layers": 6, "d_ff": 128, "max_len": 64}
    model = LanguageModel(**settings | more)
    return model, partial(model.loss, IDS[:, :-1], IDS[:, 1:])


def translator():
    model = Translator(source_vocab=300, target_vocab=300, d_model=64, n_heads=2, d_ff=128, max_len=64, dropout=0.1)
    return model, partial(model.loss, IDS[:, :-1], IDS[:, :-1], IDS[:, 1:])


CASES = {
    "as usual": language_model,
    "dropout": partial(language_model, dropout=0.1),
    "modern parts": partial(language_model, norm="rms", positions="rotary", activation="swiglu", norm_first=True),
    "translator": translator,
}

EVERY_DAY = [("dropout", False), ("modern parts", True), ("translator", True)]


# Every day each kind of layer and both ways; the rest of the pairs is for the slow tests.
@pytest.mark.parametrize(
    ("name", "again"),
    [
        pytest.param(
            name, again, id=f"{name}-{'recomputed' if again else 'stored'}",
            marks=() if (name, again) in EVERY_DAY else pytest.mark.slow,
        )
        for name in CASES
        for again in (False, True)
    ],
)  # fmt: skip
def test_the_prediction_is_what_is_measured(name, again):
    """Within 5 % of the peak: Python's own objects come and go, and kernels keep small notes. A layer's results that
    were forgotten, or a gradient that was counted twice, would be more: a layer holds 8 % here."""
    model, loss = CASES[name]()
    step = ledger.examine(name, model.recompute(again), loss)
    assert Counter(m[:2] for m in step.predicted) == Counter(m[:2] for m in step.measured)
    assert 0.95 * step.peak < step.predicted_peak < 1.01 * step.peak
    if name in ("as usual", "dropout"):  # else the tape's order is one of several, and not that of the program
        apart = [abs(a.bytes - b.bytes) for a, b in zip(step.predicted, step.measured, strict=True)]
        assert max(apart) < 0.05 * step.peak


def test_recomputation_saves_what_the_layers_keep():
    steps = []
    for again in (False, True):
        model, loss = language_model()
        steps.append(ledger.examine("", model.recompute(again), loss))
    stored, again = (step.peak - step.before for step in steps)  # buffers of kernels may be left over from other tests
    assert again < 0.5 * stored


def test_the_picture(tmp_path):
    model, loss = language_model()
    step = ledger.examine("a step", model, loss)
    charts.ledger([step, step], tmp_path / "ledger.png")
    assert (tmp_path / "ledger.png").stat().st_size > 10_000
