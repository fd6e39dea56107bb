"""The command `params`: the table adds up, and shows the known figures."""

import json
from argparse import ArgumentParser

import pytest

from minitransformer.app.cli import params
from minitransformer.config import PRESETS
from minitransformer.errors import UserError
from minitransformer.models import build


def run(*arguments, capsys):
    parser = ArgumentParser()
    params.add_arguments(parser)
    assert params.run(parser.parse_args(arguments)) == 0
    return capsys.readouterr().out


def test_the_labs_figures(capsys):
    out = run("--preset", "lab", capsys=capsys)
    for figure in ("21,018,401", "10,000,200", "4 × 242,000", "968,000", "4 × 160,800", "4 × 80,400", "4 × 800",
                   "10,050,201"):  # fmt: skip
        assert figure in out
    assert "10,968,602" in run("--preset", "lab", "--head", "classifier", capsys=capsys)


@pytest.mark.parametrize("head", ["lm", "classifier"])
def test_both_totals_are_shown_with_either_head(head, capsys):
    both = "in all: 21,018,401 with the head of a language model, 10,968,602 with that of a classifier"
    assert both in run("--preset", "lab", "--head", head, capsys=capsys).splitlines()
    assert "in all" not in run("--preset", "base", capsys=capsys), "it has one head only"


def test_a_setting_of_one_head_does_not_hinder_the_other_total(capsys):
    totals = json.loads(run("--tie-weights", "--json", capsys=capsys))["totals"]
    tied = build("lab", tie_weights=True, seed=None).num_parameters()
    assert totals == {"lm": tied, "classifier": 10_968_602}


def test_the_papers_base_model(capsys):
    report = json.loads(run("--preset", "base", "--json", capsys=capsys))
    parts = {part["part"]: part["parameters"] for part in report["parts"]}
    C, F, V, attention = 512, 2048, 37000, 4 * 512 * 512 + 4 * 512
    assert parts["source embedding"] == V * C and parts["head"] == V
    assert parts["encoder layers"] == 6 * (attention + 2 * C * F + F + C + 4 * C)
    assert parts["decoder layers"] == 6 * (2 * attention + 2 * C * F + F + C + 6 * C)
    assert 63e6 < report["total"] < 65e6
    assert "head.weight is source_embedding.weight: counted once" in run("--preset", "base", capsys=capsys)


@pytest.mark.parametrize("preset, total", [("gpt2", 124_439_808), ("llama", 134_515_008)])
def test_known_models_have_as_many_weights_as_published(preset, total):
    """GPT-2's smallest size, and SmolLM2-135M."""
    assert build(preset, seed=None).num_parameters() == total


@pytest.mark.parametrize("preset, head", [(preset, head) for preset, heads in PRESETS.items() for head in heads])
def test_parts_add_up_to_the_total(preset, head):
    model = build(preset, head, seed=None)
    outer = [number for part, _, number in params.count_parts(model) if not part.startswith(" ")]
    inner = [number for part, _, number in params.count_parts(model) if part.startswith(" ")]
    layers = [number for part, _, number in params.count_parts(model) if part.endswith("layers")]
    assert sum(outer) == model.num_parameters() and sum(inner) == sum(layers)


def test_a_head_that_is_not_there():
    parser = ArgumentParser()
    params.add_arguments(parser)
    with pytest.raises(UserError, match="preset 'base' has no head 'classifier', only: lm"):
        params.run(parser.parse_args(["--preset", "base", "--head", "classifier"]))


def test_flags_change_a_preset(capsys):
    report = json.loads(run("--preset", "lab", "--d-model", "400", "--tie-weights", "--json", capsys=capsys))
    model = build("lab", d_model=400, tie_weights=True, seed=None)
    assert report["total"] == model.num_parameters() and report["d_model"] == 400
    assert "preset lab, d_model 400" in run("--d-model", "400", capsys=capsys)
    six = json.loads(run("--preset", "lab-translator", "--layers", "6", "--n-decoder", "3", "--json", capsys=capsys))
    assert six["total"] == build("lab-translator", n_encoder=6, n_decoder=3, seed=None).num_parameters()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--n-heads", "3"), "a width of 200 cannot be divided among 3 heads"),
        (("--n-encoder", "3"), "LanguageModel has no setting 'n_encoder'"),
        (("--preset", "lab-translator", "--share-embedding"), "share_embedding needs one vocabulary"),
    ],
)
def test_sizes_that_cannot_be(arguments, message):
    parser = ArgumentParser()
    params.add_arguments(parser)
    with pytest.raises(UserError, match=message):
        params.run(parser.parse_args(arguments))
