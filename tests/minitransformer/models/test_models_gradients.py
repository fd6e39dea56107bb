"""Whole models against differences of their loss, in float64: every weight, through every layer."""

import tracemalloc

import numpy as np
import pytest

from autograd import gradcheck
from kernels.cpu.workspace import LARGE
from minitransformer.models import MODELS

SIZES = {"d_model": 4, "n_heads": 2, "d_ff": 3, "max_len": 6, "dtype": "float64", "activation": "gelu"}
X = np.array([[1, 4, 2, 1], [3, 0, 2, 2]])
Y = np.array([[4, 2, 1, 0], [0, 2, 4, 4]])


def check(model, loss):
    """gradcheck works on copies of its inputs, so each weight is put into the model before the loss is computed."""
    names = [name for name, _ in model.named_parameters()]
    owners = {name: [] for name in names}
    for name, old in model.named_parameters():
        for module in model.modules():
            owners[name] += [(module, attribute) for attribute, held in vars(module).items() if held is old]

    def function(*weights):
        for name, weight in zip(names, weights, strict=True):
            for module, attribute in owners[name]:
                setattr(module, attribute, weight)
        return loss()

    # one direction for each weight, in which all its entries take part: a wrong one shows, unless by a miracle
    report = gradcheck(function, model.parameters(), directions=1, full_jacobian=0)
    assert report.entries == len(names)


LOSSES = {
    "LanguageModel": lambda m: m.loss(X, Y, ignore_index=0, label_smoothing=0.1),
    "Classifier": lambda m: m.loss(X, [1, 0], [4, 2]),
    "Translator": lambda m: m.loss(X[:, :3], X, Y, [3, 1], ignore_index=0, label_smoothing=0.1),
    "Bert": lambda m: m.loss(X, X % 2, Y, [1, 0], [4, 2], ignore_index=0),
}


@pytest.mark.parametrize("kind", MODELS)
def test_gradients(kind, backend):
    check_gradients(kind, norm_first=False)


@pytest.mark.slow_on("emulated")
@pytest.mark.parametrize("kind", MODELS)
def test_gradients_with_the_norm_first(kind, backend):
    check_gradients(kind, norm_first=True)


def check_gradients(kind, **options):
    vocabulary = {"source_vocab": 5, "target_vocab": 5} if kind == "Translator" else {"vocab_size": 5}
    layers = {"n_encoder": 1, "n_decoder": 1} if kind == "Translator" else {"n_layers": 1}
    model = MODELS[kind](**SIZES | options, **vocabulary, **layers)
    check(model, lambda: LOSSES[kind](model))
    return model


@pytest.mark.slow_on("emulated")
def test_gradients_of_tied_weights(backend):
    """A table that is embedding of both sides and head at once collects all three gradients."""
    sizes = SIZES | {"source_vocab": 5, "target_vocab": 5, "n_encoder": 1, "n_decoder": 1}
    model = MODELS["Translator"](**sizes, tie_weights=True, share_embedding=True)
    check(model, lambda: LOSSES["Translator"](model))
    lm = MODELS["LanguageModel"](vocab_size=5, n_layers=1, **SIZES, tie_weights=True)
    check(lm, lambda: LOSSES["LanguageModel"](lm))


@pytest.mark.slow_on("emulated")
def test_gradients_with_dropout_and_other_options(backend):
    options = SIZES | {"activation": "tanh", "dropout": 0.4, "positions": "learned", "scale_embedding": False}
    model = MODELS["LanguageModel"](vocab_size=5, n_layers=1, **options)
    state = model.rng_state()

    def loss():
        model.set_rng_state(state)  # the same masks each time
        return LOSSES["LanguageModel"](model)

    check(model, loss)
    pooled = MODELS["Classifier"](vocab_size=5, n_layers=1, pooling="mean", **SIZES | {"activation": "relu"})
    check(pooled, lambda: LOSSES["Classifier"](pooled))


TODAY = {"activation": "swiglu", "norm": "rms", "positions": "rotary", "n_kv_heads": 1, "bias": False}


@pytest.mark.slow_on("emulated")
@pytest.mark.parametrize("kind", MODELS)
def test_gradients_of_todays_parts(kind, backend):
    """Rotary positions, RMS norm, a gate, one head of keys and values for two of queries, no biases."""
    model = check_gradients(kind, **TODAY, norm_first=True)
    assert not any("bias" in name and "head" not in name for name, _ in model.named_parameters())


@pytest.mark.slow_on("emulated")
def test_gradients_of_deep_heads(backend):
    model = MODELS["Bert"](vocab_size=5, n_layers=1, heads="deep", tie_weights=True, **SIZES)
    check(model, lambda: LOSSES["Bert"](model))


@pytest.mark.slow_on("emulated")
def test_gradients_of_parts_mixed(backend):
    """A gate with dropout and biases; layer norm and feed-forward without; a norm after the embedding."""
    dropped = SIZES | {"activation": "geglu", "dropout": 0.3, "norm_embedding": True, "positions": "none"}
    bare = SIZES | {"activation": "gelu_tanh", "bias": False, "norm_embedding": True, "head_bias": False}
    for settings in (dropped, bare):
        model = MODELS["LanguageModel"](vocab_size=5, n_layers=1, **settings)
        state = model.rng_state()

        def loss(model=model, state=state):
            model.set_rng_state(state)  # the same masks each time
            return LOSSES["LanguageModel"](model)

        check(model, loss)


@pytest.mark.slow_on("emulated")
@pytest.mark.parametrize("pooling", ["last", "mean", "last_column"])
def test_gradients_of_a_classifier_that_reads_both_sides(pooling, backend):
    """Two layers: the first computes every position, the last, where one is read, that one alone."""
    model = MODELS["Classifier"](vocab_size=5, n_layers=2, causal=False, pooling=pooling, norm_first=True, **SIZES)
    check(model, lambda: LOSSES["Classifier"](model))


@pytest.mark.slow_on("emulated")
def test_gradients_of_a_masked_language_model(backend):
    model = MODELS["LanguageModel"](vocab_size=5, n_layers=2, causal=False, tie_weights=True, **SIZES)
    check(model, lambda: model.loss(X, Y, ignore_index=0, lengths=[4, 2]))


def test_tied_gradient_is_the_sum_of_the_untied_ones(backend):
    sizes = SIZES | {"vocab_size": 5, "n_layers": 1}
    tied, apart = MODELS["LanguageModel"](**sizes, tie_weights=True), MODELS["LanguageModel"](**sizes)
    apart.load_state_dict(tied.state_dict() | {"head.weight": tied.base.embedding.weight.numpy()})
    tied.loss(X, Y).backward()
    apart.loss(X, Y).backward()
    expected = apart.base.embedding.weight.grad.numpy() + apart.head.weight.grad.numpy()
    np.testing.assert_allclose(tied.head.weight.grad.numpy(), expected, rtol=1e-12)  # one addition of float64


def test_the_gradient_of_a_large_tied_table_is_not_copied():
    """The head's gradient is as large as the table, and the rows of the words that were read are added to it in place.
    The engine's own list of memory to be used again must not count as somebody else who reads it."""
    model = MODELS["LanguageModel"](
        vocab_size=40_000, d_model=256, n_heads=1, n_layers=1, d_ff=8, max_len=8, tie_weights=True, dtype="float32"
    ).to("numba")
    table = model.base.embedding.weight.array.nbytes
    assert table > LARGE
    ids = [[1, 2, 3, 1]]
    model.loss(ids, ids).backward()  # compiles
    model.zero_grad()
    loss = model.loss(ids, ids)
    tracemalloc.start()
    loss.backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # a copy would be the whole table, and all else that is new here is some rows of it
    assert peak < table / 2, f"{peak / 2**20:.0f} MB"
