"""Layers as one kernel: the same numbers, and only where nobody wants more than the numbers."""

import numpy as np
import pytest

import kernels
from autograd import no_grad
from lessons.harness.engine import watched
from minitransformer.models import MODELS

SIZES = {"d_model": 8, "n_heads": 2, "d_ff": 6, "max_len": 16}
X = np.arange(28).reshape(2, 14) % 5
WORDS = {"Translator": {"source_vocab": 5, "target_vocab": 5, "n_encoder": 2, "n_decoder": 1}}
OUTPUTS = {
    "LanguageModel": lambda m: m(X),
    "Classifier": lambda m: m(X, [14, 9]),
    "Translator": lambda m: m(X, X[:, :5], [9, 14]),
    "Bert": lambda m: m(X, X % 2, [14, 9])[0],
}


def model_of(kind, **more):
    return MODELS[kind](**WORDS.get(kind, {"vocab_size": 5, "n_layers": 2}) | SIZES | more)


def calls_of(model, output):
    with watched(kernels.current(), "encoder_layer") as calls:
        output(model)
    return len(calls)


@pytest.mark.parametrize("kind", OUTPUTS)
def test_the_same_numbers(backend, kind):
    with kernels.use(backend.name), no_grad():
        model = model_of(kind, activation="gelu")
        expected = OUTPUTS[kind](model).numpy()
        found = OUTPUTS[kind](model.fuse()).numpy()
        # the last layer of a classifier computes one position alone
        assert calls_of(model, OUTPUTS[kind]) == (1 if kind == "Classifier" else 2)
        assert calls_of(model.fuse(False), OUTPUTS[kind]) == 0
    if backend.name == "numba":  # 28 rows: enough for panels, one by one or all in one
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)  # float32 through two layers


@pytest.mark.parametrize("other", [
    {"norm": "rms"}, {"norm_first": True}, {"activation": "swiglu"}, {"positions": "rotary"}, {"n_kv_heads": 1},
    {"bias": False}, {"dropout": 0.2},
], ids=str)  # fmt: skip
def test_other_forms_go_their_usual_way(other):
    model = model_of("LanguageModel", **other).fuse()
    with no_grad():
        assert calls_of(model, OUTPUTS["LanguageModel"]) == 0
        assert calls_of(model.eval(), OUTPUTS["LanguageModel"]) == (2 if "dropout" in other else 0)


def test_who_wants_more_than_the_numbers_gets_it():
    model = model_of("LanguageModel").fuse()
    loss = model.loss(X[:, :-1], X[:, 1:])
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())
    assert calls_of(model, OUTPUTS["LanguageModel"]) == 0, "a gradient may be asked for later"
    assert len(model.attention(X)) == 2
    ids = model.generate(X[:, :3], max_new_tokens=4)
    assert ids == model.fuse(False).generate(X[:, :3], max_new_tokens=4)
