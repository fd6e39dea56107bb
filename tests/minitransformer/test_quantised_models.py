"""Weights of eight and four bits in layers and models: what is counted, shown, saved, refused, and written."""

import copy
import pickle

import numpy as np
import pytest

import autograd.functional as F
from autograd import Tensor, no_grad
from autograd.tensor import AutogradError
from minitransformer import LanguageModel
from minitransformer.decoding import Session
from minitransformer.decoding.cache import Cache
from minitransformer.decoding.one_word import read_word
from minitransformer.quantised import QuantisedWeight, quantise, quantise_model

SIZES = {
    "vocab_size": 50, "d_model": 64, "n_heads": 4, "n_kv_heads": 2, "n_layers": 2, "d_ff": 96, "max_len": 32,
    "norm": "rms", "norm_first": True, "activation": "swiglu", "positions": "rotary", "bias": False,
    "head_bias": False, "scale_embedding": False, "tie_weights": True, "dropout": 0.0, "seed": 3,
}  # fmt: skip


@pytest.fixture
def models(backend):
    """A quantised model, and an ordinary one with the very weights that it unpacks."""
    packed, plain = LanguageModel(**SIZES), LanguageModel(**SIZES)
    quantise_model(packed)
    plain.load_state_dict(packed.state_dict())
    return packed, plain


def ids(rng, rows=2, words=7):
    return rng.integers(0, 50, (rows, words))


def test_the_same_scores_as_with_unpacked_weights(models, rng):
    packed, plain = models
    with no_grad():
        ours, theirs = (model(ids(np.random.default_rng(1))).numpy() for model in models)
    # products of at most 96 terms of size 1, in two orders, through two layers: far below 1e-4, weights differ by 1e-2
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)


def test_bytes_and_weights_are_counted_and_shown(models):
    packed, plain = models
    assert packed.num_parameters() == plain.num_parameters()
    matrices = 2 * (128 * 64 + 64 * 64 + 3 * 64 * 96)
    assert packed.num_bytes() == 50 * 64 // 32 * 34 + matrices // 32 * 20 + 4 * 5 * 64
    assert plain.num_bytes() == 4 * plain.num_parameters()
    assert "in_proj_weight (128, 64) Q4_1" in repr(packed) and "weight (50, 64) Q8_0" in repr(packed)
    assert packed.head.weight is packed.base.embedding.weight
    assert "MB" in repr(packed).splitlines()[0] and "Q4_1" not in repr(plain)


def test_gradients_flow_through_and_none_is_for_the_bytes(models, rng):
    packed, plain = models
    words = ids(rng)
    for model in models:
        model.loss(words[:, :-1], words[:, 1:]).backward()
    for (name, ours), (_, theirs) in zip(packed.named_parameters(), plain.named_parameters(), strict=True):
        if isinstance(ours, QuantisedWeight):
            assert ours.grad is None
        else:
            np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=0, atol=1e-5, err_msg=name)


def test_what_cannot_be_learned_is_refused_in_one_line(models):
    weight = models[0].base.encoder.layers[0].linear1.weight
    for attempt in (
        lambda: setattr(weight, "requires_grad", True),
        lambda: models[0].requires_grad_(True),
        lambda: setattr(weight, "data", weight.numpy()),
    ):
        with pytest.raises(AutogradError, match=r"quantised weights \(Q.*quantised=False") as caught:
            attempt()
        assert "\n" not in str(caught.value)
    assert not weight.requires_grad
    with pytest.raises(ValueError, match="is quantised here, and takes no new numbers"):
        models[0].load_state_dict(models[1].state_dict())


def test_copies_moves_and_rows(models):
    packed, _ = models
    weight = packed.base.embedding.weight
    numbers = weight.numpy()
    for other in (copy.deepcopy(weight), pickle.loads(pickle.dumps(weight))):
        assert isinstance(other, QuantisedWeight) and other.kind == "Q8_0" and np.array_equal(other.numpy(), numbers)
    np.testing.assert_array_equal(weight[3:5].numpy(), numbers[3:5])
    np.testing.assert_array_equal(weight.rows_at([[4, 0], [49, 4]]).numpy(), numbers[[[4, 0], [49, 4]]])
    packed.to("numpy")
    assert packed.backend.name == "numpy"
    np.testing.assert_array_equal(packed.base.embedding.weight.numpy(), numbers)


def test_one_word_at_a_time_as_all_at_once(models):
    """The short way for one new word, against the layers, for rows of different lengths."""
    for model in models:
        words, lengths = ids(np.random.default_rng(2), 3, 9), np.array([9, 4, 6])
        with no_grad():
            session = Session(model.eval(), words, lengths, max_new_tokens=3)
            session.next_logits()
            for step in range(2):
                session.append([7, 8, 9])
                scores = session.next_logits()
                for row, length in enumerate(lengths + step + 1):
                    whole = model(session.tokens[row : row + 1, :length]).numpy()[0, -1]
                    np.testing.assert_allclose(scores[row], whole, rtol=0, atol=1e-4)  # as above


def test_the_short_way_is_the_long_way(models):
    """Words read into two caches, by the layers and by the short way: hidden states, keys and values agree."""
    for model in models:
        model.eval()
        words = ids(np.random.default_rng(4), 2, 6)
        caches = [Cache(2, 2, 8) for _ in range(2)]
        with no_grad():
            for cache in caches:
                model.base(words, cache=cache)
                cache.lengths += 6
            long = model.base(np.array([[3], [5]]), cache=caches[0]).numpy()[:, 0]
            short = model.backend.to_numpy(read_word(model, np.array([3, 5]), caches[1]))
        np.testing.assert_allclose(short, long, rtol=0, atol=1e-4)
        for one, other in zip(caches[0].layers, caches[1].layers, strict=True):
            for kept, also in zip(one.own, other.own, strict=True):
                np.testing.assert_allclose(kept.numpy(), also.numpy(), rtol=0, atol=1e-4)


def test_matrices_of_two_kinds_and_of_none(backend, rng):
    """A feed-forward layer whose three matrices are packed differently takes the steps one by one."""
    model, plain = LanguageModel(**SIZES), LanguageModel(**SIZES)
    layer = model.base.encoder.layers[0]
    layer.linear2.weight = QuantisedWeight(quantise(layer.linear2.weight.numpy(), "Q8_0"), "Q8_0")
    layer.gate.weight = QuantisedWeight(quantise(layer.gate.weight.numpy(), "Q4_1"), "Q4_1")
    plain.load_state_dict(model.state_dict())
    for one in (model, plain):
        one.eval()
    words = ids(rng)
    sessions = [Session(one, words, max_new_tokens=4) for one in (model, plain)]
    for _ in range(3):
        ours, theirs = (session.next_logits() for session in sessions)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)
        for session in sessions:
            session.append([1, 2])


def test_layers_of_other_models_too(backend, rng):
    """Biases, a plain activation, and a table of learned positions, which stays as it is."""
    model, plain = (LanguageModel(50, 64, 2, 1, 32, max_len=16, positions="learned", seed=1) for _ in range(2))
    quantise_model(model, "Q8_0")
    plain.load_state_dict(model.state_dict())
    assert not isinstance(model.base.embedding.positions.weight, QuantisedWeight)
    with no_grad():
        words = ids(rng)
        np.testing.assert_allclose(model(words).numpy(), plain(words).numpy(), rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind, bits", [("Q8_0", 8.5), ("Q4_1", 5.0)])
def test_rounding_goes_to_the_nearest(rng, kind, bits):
    w = rng.standard_normal((5, 96)).astype(np.float32)
    w[1, :32], w[2] = 0.25, 0  # a block of equal weights, a row of nothing
    weight = QuantisedWeight(quantise(w, kind), kind)
    assert 8 * weight.array.nbytes / w.size == bits and weight.shape == w.shape
    blocks = w.reshape(5, 3, 32).astype(float)
    least, largest = (blocks.min(-1), blocks.max(-1)) if kind == "Q4_1" else (0, np.abs(blocks).max(-1))
    step = (largest - least) / (15 if kind == "Q4_1" else 127)
    # half a step, and 2^-11 of the largest weight twice: scale and least value are float16
    bound = step / 2 + 2 * 2.0**-11 * np.abs(blocks).max(-1)
    assert (np.abs(weight.numpy() - w).reshape(5, 3, 32).max(-1) <= bound).all()
    assert not weight.numpy()[2].any()


@pytest.mark.oracle
@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1"])
def test_the_bytes_that_others_pack(rng, kind):
    from gguf import GGMLQuantizationType
    from gguf.quants import quantize

    w = rng.standard_normal((40, 320)).astype(np.float32) * np.exp(rng.uniform(-6, 6, (40, 1))).astype(np.float32)
    w[3] = 0
    assert np.array_equal(quantise(w, kind), quantize(w, GGMLQuantizationType[kind]))


def test_wrong_bytes_are_refused():
    with pytest.raises(ValueError, match="cannot stay quantised as 'Q5_K'; kinds are Q8_0, Q4_1"):
        QuantisedWeight(np.zeros((2, 34), np.uint8), "Q5_K")
    with pytest.raises(ValueError, match="Q4_1: rows of whole blocks are needed, 20 bytes each"):
        QuantisedWeight(np.zeros((2, 34), np.uint8), "Q4_1")
    with pytest.raises(TypeError, match="only float32 and float64 have gradients, not uint8"):
        Tensor(np.zeros((2, 34), np.uint8), requires_grad=True)
    with pytest.raises(ValueError, match="rows of 33 bytes"):
        F.quantised_linear(Tensor(np.zeros((1, 32))), np.zeros((2, 33), np.uint8), "Q8_0")
