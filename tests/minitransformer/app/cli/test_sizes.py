"""The flags of a model's sizes are the fields of Config, under their names and, silently, under their former ones."""

from dataclasses import fields

import pytest
from command_support import SHORT, TINY, inside, prepare, refused, says

from minitransformer.app.cli.main import parser_for
from minitransformer.app.cli.sizes import given_sizes
from minitransformer.app.training.checkpoints import load_model
from minitransformer.config import Config, names_of

KINDS = {"pretrain": "LanguageModel", "finetune": "Classifier", "train-translator": "Translator"}


@pytest.mark.parametrize("name", KINDS)
def test_every_setting_that_a_user_may_choose_has_its_flag(name):
    parser, kind = parser_for(name), KINDS[name]
    flags = {flag: action for action in parser._actions for flag in action.option_strings}
    shown = parser.format_help()
    for one in fields(Config):
        about = one.metadata
        if one.name in names_of(kind):
            assert set(about["flags"]) <= flags.keys()
            for flag in about["flags"][:1]:
                assert f"{flag} " in shown or f"{flag}," in shown
                assert not about["among"] or tuple(flags[flag].choices) == about["among"]
            assert not any(f"{former} " in shown for former in about["flags"][1:])
        elif about["flags"] and one.name != "n_layers":
            assert about["flags"][0] not in flags


def sizes(name, *arguments):
    return given_sizes(parser_for(name).parse_args(arguments), KINDS[name])


def test_former_names_mean_the_same():
    former = ("--width", "8", "--heads", "2", "--layers", "3", "--ff", "5")
    present = ("--d-model", "8", "--n-heads", "2", "--n-layers", "3", "--d-ff", "5")
    for name in KINDS:
        assert sizes(name, *former) == sizes(name, *present) and len(sizes(name, *former)) >= 4
    assert sizes("pretrain") == {}
    assert sizes("pretrain", "--no-norm-first", "--dropout", "0.5") == {"norm_first": False, "dropout": 0.5}


def test_layers_are_those_of_both_stacks_unless_one_is_named():
    assert sizes("train-translator", "--n-layers", "3") == {"n_encoder": 3, "n_decoder": 3}
    assert sizes("train-translator", "--layers", "3", "--n-decoder", "1") == {"n_encoder": 3, "n_decoder": 1}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sizes")
    (folder / "pairs.tsv").write_text("".join(f"one {i}\tun {i} fois\n" for i in range(8)))
    prepare(folder)
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    yield from inside(made, monkeypatch)


def test_choices_reach_the_model(folder, capsys):
    odd = ("--positions", "learned", "--no-scale-embedding", "--d-model", "9", "--n-heads", "3")
    says(capsys, "pretrain", "--steps", "1", "--texts", "20", *TINY, *odd, "--out", "learned")
    config = load_model("learned")[0].config
    assert (config.positions, config.scale_embedding, config.d_model) == ("learned", False, 9)
    assert "the sizes are those of the language model" in refused(
        capsys, "finetune", "--from", "learned", "--positions", "learned", "--out", "not"
    )


@pytest.mark.parametrize(
    "data", [(), ("pairs.tsv", *SHORT), ("pairs.tsv", *SHORT, "--tokenizer", "pieces", "--vocabulary", "30")]
)
def test_one_embedding_has_one_vocabulary_of_both_languages(folder, capsys, data):
    name = f"shared-{len(data)}"
    built_in = () if data else ("--texts", "20", *TINY)
    says(capsys, "train-translator", *data, *built_in, "--steps", "1", "--share-embedding", "--out", name)
    model, checkpoint = load_model(name)
    assert model.source_embedding is model.target_embedding and model.config.source_vocab == model.config.target_vocab
    says(capsys, "evaluate", *(("pairs.tsv",) if data else ("--texts", "4")), "--model", name)
