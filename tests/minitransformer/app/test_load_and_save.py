"""From a run to Python and back."""

import numpy as np
import pytest
from command_support import TINY, inside, prepare

from minitransformer.app import load, save
from minitransformer.app.cli.main import main
from minitransformer.errors import CheckpointError, UserError


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    prepare(
        folder,
        ("pretrain", "--steps", "2", "--texts", "20", *TINY),
        ("train-translator", "--steps", "2", "--texts", "20", "--d-model", "16", "--n-heads", "2", "--d-ff", "16"),
    )
    return folder


@pytest.fixture
def here(made, monkeypatch):
    yield from inside(made, monkeypatch)


def test_a_run_becomes_a_model_and_its_text(here):
    model, text = load("runs/pretrain")
    ids = text.encode("the plot", complete=False)
    words = model.generate([ids], max_new_tokens=3)
    assert len(words[0]) <= 3 and isinstance(text.decode(words[0]), str)
    with pytest.raises(UserError, match="no such run"):
        load("runs/nothing")


@pytest.mark.parametrize("run", ["runs/pretrain", "runs/translator"])
def test_what_is_saved_comes_back_and_every_command_takes_it(here, run, capsys):
    model, text = load(run)
    mine = f"{run}-mine"
    assert save(model, text, mine).startswith(mine)
    again, _ = load(mine)
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, again.state_dict()[name])
    command = ["generate", "the"] if run.endswith("pretrain") else ["translate", "a cat ."]
    assert main([*command, "--model", mine]) == 0
    with pytest.raises(CheckpointError, match="holds a run already"):
        save(model, text, mine)
