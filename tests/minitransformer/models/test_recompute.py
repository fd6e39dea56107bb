"""Layers that are computed again in backward: every model, dropout on, to the last bit."""

import numpy as np
import pytest

from autograd import AutogradError
from minitransformer.models import MODELS

SIZES = {"d_model": 8, "n_heads": 2, "d_ff": 6, "max_len": 6, "dropout": 0.3}
X = np.array([[1, 4, 2, 1], [3, 0, 2, 2]])
Y = np.array([[4, 2, 1, 0], [0, 2, 4, 4]])
WORDS = {"Translator": {"source_vocab": 5, "target_vocab": 5, "n_encoder": 2, "n_decoder": 3}}
LOSSES = {
    "LanguageModel": lambda m: m.loss(X, Y, ignore_index=0),
    "Classifier": lambda m: m.loss(X, [1, 0], [4, 2]),
    "Translator": lambda m: m.loss(X[:, :3], X, Y, [3, 1], ignore_index=0),
    "Bert": lambda m: m.loss(X, X % 2, Y, [1, 0], [4, 2], ignore_index=0),
}


def model_of(kind, **more):
    return MODELS[kind](**WORDS.get(kind, {"vocab_size": 5, "n_layers": 3}) | SIZES | more)


def two_steps(model, loss):
    """Loss, gradients and the place in the sequence of masks, after two passes: the second meets the masks that the
    first has left over."""
    found = []
    for _ in range(2):
        model.zero_grad()
        value = loss(model)
        value.backward()
        found += [value.numpy(), *(p.grad.numpy() for p in model.parameters() if p.grad is not None)]
    return found, model.rng_state()


@pytest.mark.parametrize(
    "more", [{}, {"norm_first": True, "positions": "rotary", "norm": "rms", "activation": "swiglu"}]
)
@pytest.mark.parametrize("kind", LOSSES)
def test_the_same_bits(backend, kind, more):
    plain, places = two_steps(model_of(kind, **more), LOSSES[kind])
    again, same_places = two_steps(model_of(kind, **more).recompute(), LOSSES[kind])
    assert places == same_places and places["counter"] > 0
    assert len(plain) == len(again)
    for a, b in zip(plain, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_masks_are_dropped_again_even_if_somebody_has_set_the_seed_meanwhile():
    model = model_of("LanguageModel")
    expected, _ = two_steps(model_of("LanguageModel"), LOSSES["LanguageModel"])
    value = LOSSES["LanguageModel"](model.recompute())
    model.set_rng_state({"seed": 99, "counter": 5})
    value.backward()
    assert model.rng_state() == {"seed": 99, "counter": 5}
    for a, p in zip(expected[1:], model.parameters(), strict=False):
        np.testing.assert_array_equal(a, p.grad.numpy())


def test_a_switch_to_eval_in_between_is_refused():
    model = model_of("LanguageModel").recompute()
    value = LOSSES["LanguageModel"](model)
    model.eval()
    with pytest.raises(AutogradError, match="other numbers"):
        value.backward()


def test_generation_is_as_before():
    model = model_of("LanguageModel", dropout=0.0)
    before = model.generate(X[:, :2], max_new_tokens=3)
    assert model.recompute().generate(X[:, :2], max_new_tokens=3) == before
