"""One list of settings: what it checks, how models are made of it, and that nothing else lists them."""

import dataclasses
import inspect
import json

import numpy as np
import pytest

from minitransformer import Bert, Classifier, Config, LanguageModel, Translator
from minitransformer.config import LAB, PRESETS, USUAL, field_named, names_of, needs_a_value

MODELS = (LanguageModel, Classifier, Translator, Bert)
SPECIAL = {"seed": 7, "dropout": 0.25, "norm_eps": 1e-3, "rotary_base": 100.0, "n_kv_heads": 12}  # no usual numbers


def test_it_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        LAB.d_model = 100
    assert dataclasses.replace(LAB, d_model=100).d_model == 100 and LAB.d_model == 200


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"d_model": 0}, "d_model must be a whole number, at least 1, not 0"),
        ({"d_ff": 2.5}, "d_ff must be a whole number"),
        ({"n_layers": True}, "n_layers must be a whole number"),
        ({"n_layers": None}, "n_layers must be a whole number"),
        ({"vocab_size": -1}, "vocab_size must be a whole number"),
        ({"d_model": 10, "n_heads": 3}, "a width of 10 cannot be divided among 3 heads"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1"),
        ({"dropout": "0.1"}, "dropout must be at least 0 and below 1"),
        ({"seed": -1}, "seed must be a whole number, at least 0, or None"),
        ({"norm_first": 1}, "norm_first must be True or False"),
        ({"activation": "swish"}, "activation must be one of relu"),
        ({"positions": "spiral"}, "positions must be one of sinusoidal, learned"),
        ({"norm": "batch"}, "norm must be one of layer, rms"),
        ({"norm_eps": 0}, "norm_eps must be a number above 0, not 0"),
        ({"rotary_base": "large"}, "rotary_base must be a number above 0, not 'large'"),
        ({"n_heads": 4, "n_kv_heads": 3}, "n_heads = 4 is no multiple of n_kv_heads = 3"),
        ({"n_kv_heads": 0}, "n_kv_heads must be a whole number, at least 1, not 0"),
        ({"d_model": 6, "n_heads": 2, "positions": "rotary"}, "a head has 3, which is odd"),
        ({"pooling": "sum"}, "pooling must be one of last"),
        ({"dtype": "float16"}, "dtype must be one of float32, float64"),
        ({"share_embedding": True, "source_vocab": 2, "target_vocab": 3}, "one vocabulary, not 2 and 3 words"),
    ],
)
def test_it_is_checked_when_it_is_made(settings, message):
    with pytest.raises(ValueError, match=message):
        Config(**settings)


def test_numbers_and_types_of_numpy_become_plain_ones():
    config = Config(vocab_size=np.int64(5), dropout=np.float64(0.5), dtype=np.float64, norm_first=np.True_)
    assert json.loads(json.dumps(dataclasses.asdict(config))) == dataclasses.asdict(config)
    assert config == Config(vocab_size=5, dropout=0.5, dtype="float64", norm_first=True)


@pytest.mark.parametrize("model", MODELS)
def test_every_setting_reaches_the_model_by_place_by_name_and_by_config(model):
    """A setting that the model ignored would leave its config at the default."""
    other = {
        name: 24 if one.metadata["size"] else not one.default if isinstance(one.default, bool) else
        one.metadata["among"][-1] if one.metadata["among"] else SPECIAL[name]
        for name in names_of(model.kind) for one in [field_named(name)]
    }  # fmt: skip
    by_name = model(**other)
    assert by_name.settings() == other
    assert model(*other.values()).config == by_name.config == model(by_name.config).config
    assert list(inspect.signature(model).parameters) == list(other)


@pytest.mark.parametrize("model", MODELS)
def test_what_does_not_belong_to_a_model_is_refused_or_left_at_its_default(model):
    needed = {name: 9 for name in names_of(model.kind) if needs_a_value(name)}
    with pytest.raises(TypeError, match=f"{model.kind} has no setting 'width'; there are: "):
        model(**needed, width=8)
    with pytest.raises(TypeError, match=f"{model.kind} needs {next(iter(needed))}"):
        model(**dict(list(needed.items())[1:]), d_model=8)
    with pytest.raises(TypeError, match="twice, by place and by name"):
        model(*needed.values(), **needed)
    with pytest.raises(TypeError, match="at most"):
        model(*range(1, 40))
    surplus = Config(**needed, n_classes=5, n_encoder=3, n_layers=3, causal=False, d_model=8, d_ff=8)
    kept = set(model(surplus).settings())
    foreign = {one.name for one in dataclasses.fields(Config)} - kept
    assert all(getattr(model(surplus).config, name) == field_named(name).default for name in foreign)


def test_presets_are_models_that_can_be_built():
    assert USUAL.keys() == {model.kind for model in MODELS}
    for heads in PRESETS.values():
        for kind, config in heads.values():
            assert Config.of(kind, config).settings(kind) == config.settings(kind)
