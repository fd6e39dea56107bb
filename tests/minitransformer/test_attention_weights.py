"""Weights on request are those that the fused kernel used: averaged with them, the values give its output."""

import numpy as np
import pytest

import autograd.functional as F
from autograd import Tensor
from minitransformer import Bert, Classifier, LanguageModel, Translator
from minitransformer.attention_weights import attention_weights

SIZES = {"d_model": 8, "n_heads": 4, "d_ff": 8, "max_len": 9, "dtype": "float64"}


@pytest.mark.parametrize("options", [
    {}, {"is_causal": True}, {"is_causal": True, "query_offset": 2}, {"key_lengths": np.array([3, 6])},
    {"key_lengths": np.array([0, 2]), "is_causal": True},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("groups", [4, 2, 1])
def test_they_are_the_kernels_own(backend, options, groups):
    random = np.random.default_rng(0)
    q, k, v = (Tensor(random.standard_normal((2, heads, n, 3))) for heads, n in ((4, 5), (groups, 6), (groups, 6)))
    weights = attention_weights(q, k, **options)
    expected = weights @ np.repeat(v.numpy(), 4 // groups, axis=1)
    out = F.attention(q, k, v, **options).numpy()
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-14)  # sums of six products near 1
    rows = weights.sum(axis=-1)
    assert ((np.abs(rows - 1) < 1e-14) | (rows == 0)).all()  # a query that sees nothing has no weights


def test_every_model_shows_its_attention(backend):
    ids = np.array([[1, 2, 3, 4], [4, 3, 2, 1]])
    language = LanguageModel(vocab_size=7, n_layers=2, **SIZES).attention(ids)
    assert list(language) == [f"base.encoder.layers.{i}.self_attn" for i in range(2)]
    assert all(weights.shape == (2, 4, 4, 4) and (np.triu(weights, 1) == 0).all() for weights in language.values())
    bert = Bert(vocab_size=7, n_layers=1, **SIZES).attention(ids, np.zeros_like(ids), lengths=[4, 2])
    assert (bert["encoder.layers.0.self_attn"][1, :, :, 2:] == 0).all()
    translator = Translator(source_vocab=7, target_vocab=7, n_encoder=1, n_decoder=1, **SIZES)
    found = translator.attention(ids, ids[:, :3])
    assert found["decoder.layers.0.multihead_attn"].shape == (2, 4, 3, 4)
    assert found["decoder.layers.0.self_attn"].shape == (2, 4, 3, 3) and len(found) == 3
    last = Classifier(vocab_size=7, n_layers=2, **SIZES).attention(ids)["base.encoder.layers.1.self_attn"]
    assert last.shape == (2, 4, 1, 4)  # only one position of the last layer is read


def test_nothing_is_kept_and_training_goes_on(backend):
    model = LanguageModel(vocab_size=7, n_layers=1, dropout=0.5, **SIZES)
    state = model.rng_state()
    model.attention([[1, 2]])
    assert model.training and model.rng_state() == state  # no dropout mask was drawn
    assert model.base.encoder.layers[0].self_attn.watched is None
    with pytest.raises(ValueError):
        model.attention([[99]])
    assert model.training and model.base.encoder.layers[0].self_attn.watched is None
