"""The short way for a new word against the layers, for every choice of parts."""

import numpy as np
import pytest

from autograd import no_grad
from minitransformer import LanguageModel
from minitransformer.decoding.cache import Cache
from minitransformer.decoding.one_word import read_word
from minitransformer.layers import MultiheadAttention
from minitransformer.quantised import quantise_model

SIZES = {"vocab_size": 11, "d_model": 8, "n_heads": 4, "n_layers": 2, "d_ff": 12, "max_len": 9, "dtype": "float64"}
LLAMA = {"norm": "rms", "norm_first": True, "positions": "rotary", "activation": "swiglu", "n_kv_heads": 2}
KINDS = {
    "the labs'": {},
    "GPT-2": {"norm_first": True, "positions": "learned", "activation": "gelu_tanh", "tie_weights": True},
    "Llama": {**LLAMA, "bias": False},
    "Llama with biases": LLAMA,
    "no biases": {"bias": False, "activation": "gelu"},
    "a norm after the embedding": {"norm_embedding": True, "scale_embedding": False, "activation": "tanh"},
    "turned, norm after": {"positions": "rotary", "rotary_base": 50.0},
    "no positions": {"positions": "none"},
}


def both_ways(model, rng):
    """Hidden states of one more word after texts of different lengths, and all keys and values, by either way."""
    prompts, lengths, words = rng.integers(0, 11, (3, 6)), np.array([6, 2, 4]), np.array([1, 9, 5])

    def long(cache):
        return model.base(words[:, None], cache=cache).array[:, 0]

    def short(cache):
        return read_word(model, words, cache)

    found = []
    for way in (long, short):
        cache = Cache(2, 3, 9)
        model.base(prompts, cache=cache)
        cache.lengths = lengths
        hidden = model.backend.to_numpy(way(cache))
        found.append([hidden, *(array.numpy() for layer in cache.layers for array in layer.own)])
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_short_way_is_the_long_way(backend, rng, kind):
    model = LanguageModel(**SIZES, **KINDS[kind], seed=3).eval()
    for parameter in model.parameters():  # biases and norms begin as zeros and ones, which would hide a forgotten one
        parameter.data[...] = parameter.numpy() + 0.1 * rng.standard_normal(parameter.shape)
    with no_grad():
        long, short = both_ways(model, rng)
    for one, other in zip(long, short, strict=True):  # sums of 12 terms of size 1, two layers: some 1e-15
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-12)


def test_quantised_weights_with_biases(backend, rng):
    """In float32, where the products differ by rounding only."""
    model = LanguageModel(**SIZES | {"d_model": 32, "d_ff": 64, "dtype": "float32"}, seed=3).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.data[...] = rng.standard_normal(parameter.shape)
    quantise_model(model, "Q8_0")
    with no_grad():
        long, short = both_ways(model, rng)
    for one, other in zip(long, short, strict=True):  # sums of 64 terms of size 1 in float32, two layers
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-4)


def test_a_wrong_part_would_be_seen():
    """The comparison above notices a position that is one off, and queries and keys that are not turned."""

    def read(kind, start, turned=True):
        model = LanguageModel(**SIZES, **KINDS[kind], seed=3).eval()
        cache = Cache(2, 1, 9)
        model.base(np.arange(5)[None], cache=cache)
        cache.lengths = np.array([start])
        for part in model.modules():
            if isinstance(part, MultiheadAttention) and not turned:
                part.rotary_base = None
        return read_word(model, np.array([1]), cache)

    with no_grad():
        assert abs(read("the labs'", 5) - read("the labs'", 4)).max() > 1e-3
        assert abs(read("turned, norm after", 5) - read("turned, norm after", 5, turned=False)).max() > 1e-3
