"""Checkpoints of format 1, which version 0.1 wrote: they load, compute the same numbers, and the run goes on.

format_1/ is such a run: 10 steps of `tiny_run`, without its picture. Its expected.json says what 0.1 computed, then and
after 16 steps."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from training_support import tiny_run

import kernels
from minitransformer.app.progress import Silent
from minitransformer.app.training.checkpoints import load_model, read

RUN = Path(__file__).parent / "format_1"
SHARED = Path(__file__).resolve().parents[5] / "shared" / "fixtures" / "checkpoints-0.1"
# Logits near 1 come out of some fifty roundings of 2⁻²⁴ each, in an order that a BLAS may choose: 3e-6.
TOLERANCE = 1e-5


@pytest.fixture(autouse=True)
def numpy_backend(monkeypatch):
    monkeypatch.setattr("minitransformer.app.training.run.draw_curve", lambda *_: None)
    with kernels.use("numpy"):
        yield


@pytest.fixture
def expected():
    return json.loads((RUN / "expected.json").read_text())


def last_logits(model, ids):
    return model.eval()(np.array(ids)).numpy()[0, -1]


def test_it_loads_and_computes_the_same(expected):
    assert json.loads((RUN / "step-00000010.json").read_text())["version"] == 1
    model, checkpoint = load_model(RUN)
    assert checkpoint.optimizer["kind"] == "Adam" and checkpoint.training["optimizer"]["lr"] == 0.01
    np.testing.assert_allclose(last_logits(model, expected["ids"]), expected["logits"], rtol=0, atol=TOLERANCE)


class Notes(Silent):
    def __init__(self):
        self.text = ""

    def note(self, text):
        self.text += text + "\n"


def test_it_goes_on_as_it_would_have(tmp_path, expected):
    folder, notes = tmp_path / "run", Notes()
    shutil.copytree(RUN, folder)
    model, result = tiny_run(
        folder, steps=16, resume=True, evaluate_every=4, save_every=100, settings={"data": "made up"}, progress=notes
    )
    assert "at step 10" in notes.text and "optimizer" not in notes.text and "settings" not in notes.text
    # six more steps, each of which passes the difference on; without the moments of Adam it is 0.3
    after = expected["logits after 16 steps"]
    np.testing.assert_allclose(last_logits(model, expected["ids"]), after, rtol=0, atol=10 * TOLERANCE)
    assert json.loads(Path(result.checkpoint).read_text())["version"] == 2
    assert read(result.checkpoint).optimizer["values"]["steps"]["head.bias"] == 16
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 6 + 4  # train and evaluation at steps 12 and 16


@pytest.mark.skipif(not SHARED.is_dir(), reason="checkpoints-0.1 is not beside the project (../shared/fixtures)")
@pytest.mark.parametrize("name", ["pretrain", "finetune", "translator"])
def test_runs_of_the_commands(name):
    expected = json.loads((SHARED / "expected.json").read_text())[name]
    model, _ = load_model(SHARED / name)
    logits = model(*map(np.array, expected["inputs"])).numpy()
    assert list(logits.shape) == expected["shape"]
    first, total = logits.ravel()[: len(expected["first"])], logits.sum(dtype=np.float64)
    np.testing.assert_allclose(first, expected["first"], rtol=0, atol=TOLERANCE)
    # errors of either sign: at worst one TOLERANCE for each of the numbers summed up, in fact a small part of that
    np.testing.assert_allclose(total, expected["sum"], rtol=0, atol=TOLERANCE * logits.size)
