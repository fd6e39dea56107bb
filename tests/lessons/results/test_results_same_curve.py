"""The experiment that trains side by side with PyTorch: what it measures, writes, draws, and says when it cannot."""

import json
import os
import signal
import sys

import numpy as np
import pytest

from lessons.results import record_files, same_curve, side_by_side
from minitransformer.app.progress import Silent
from minitransformer.models import LanguageModel

STEPS, WORDS = 5, 30
TINY = {"vocab_size": WORDS + 4, "d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 8, "max_len": 512}


def documents(count=96):
    rng = np.random.default_rng(0)
    return [rng.integers(4, WORDS + 4, rng.integers(1, 12)) for _ in range(count)]


def tiny_runs():
    """Our engine stands in for PyTorch: the same run twice must not differ in a bit."""
    model = LanguageModel(**TINY)
    other = LanguageModel(**TINY)
    runs = {"ours": model, "pytorch": other, "perturbed": side_by_side.nudged(model, seed=1)}
    return {name: side_by_side.Engine(one, same_curve.LR, same_curve.CLIP) for name, one in runs.items()}


@pytest.fixture(scope="module")
def record():
    runs = tiny_runs()
    start = runs["ours"].weights()
    curves, stopped = side_by_side.take_turns(runs, same_curve.batches_of(documents()), STEPS, Silent())
    assert not stopped
    measured = side_by_side.record_of(curves, start, {name: run.weights() for name, run in runs.items()})
    return {"settings": {"weights": 1000}, **record_files.environment()} | measured


def test_a_run_differs_from_itself_by_nothing_and_from_a_nudged_one_by_rounding(record):
    assert record["loss_differences"]["pytorch"] == [0.0] * STEPS
    assert record["figures"]["pytorch"]["weights_largest"] == 0.0
    assert set(record["weight_differences"]["pytorch"].values()) == {0.0}
    assert record["figures"]["perturbed"]["weights_largest"] > 0
    # five steps of small sums in float32, each good to 6e-8
    assert record["figures"]["perturbed"]["loss_largest"] < 1e-5


def test_every_curve_has_every_step_and_the_weights_have_moved(record):
    for curve in record["curves"].values():
        assert {name: len(values) for name, values in curve.items()} == dict.fromkeys(
            ("loss", "gradient_norm", "seconds", "cpu_seconds"), STEPS
        )
    moved = record["weight_differences"]["moved_since_the_start"]
    assert len(moved) == 19 and all(value > 0 for value in moved.values())  # 15 tensors, two of them in three parts


def test_nudging_moves_each_weight_to_a_neighbour():
    model = LanguageModel(**TINY)
    before, after = model.state_dict(), side_by_side.nudged(model, seed=1).state_dict()
    for name, array in before.items():
        # of a power of two, such as the norms' ones, the upper neighbour is a tie, which rounds to the weight itself
        away = np.abs(after[name].view(np.int32).astype(np.int64) - array.view(np.int32))
        assert away.max() <= 1, name
        power = np.frexp(array)[0] == 0.5
        assert (away[~power & (array != 0)] == 1).all(), name


def test_the_record_survives_the_file_and_can_be_drawn_again(record, tmp_path, capsys):
    record_files.save_record(record, tmp_path / "same_curve.json")
    assert record_files.load_record(tmp_path / "same_curve.json") == record
    lines = (tmp_path / "same_curve.json").read_text(encoding="utf-8").splitlines()
    assert sum(f"{record['curves']['ours']['loss'][-1]}]" in line for line in lines) >= 1, "a list stays on its line"
    assert same_curve.main(["--draw", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "same_curve.png").read_bytes().startswith(b"\x89PNG")
    assert "same_curve.png" in capsys.readouterr().out


def test_the_figure_needs_no_extra_runs(record, tmp_path):
    short = json.loads(json.dumps(record))
    del short["loss_differences"]["perturbed"]
    same_curve.draw(short, tmp_path / "plain.png")
    assert (tmp_path / "plain.png").stat().st_size > 10_000


@pytest.mark.parametrize("load, alone", [((0.1, 2.3), True), ((3, 2), False), ((0, 4.5), False), ((None, None), True)])
def test_times_taken_in_a_crowd_are_known(load, alone):
    record = {"settings": {"threads": 2}, "load": dict(zip(("before", "at_the_end"), load, strict=True))}
    assert same_curve.crowded(record) is not alone


def test_rounding_to_significant_digits():
    given = {"a": [1 / 3, 1e-7 / 3, 12345678.0], "b": "text", "c": 7, "d": True, "e": None}
    kept = {"a": [0.33333, 3.3333e-8, 12346000.0], "b": "text", "c": 7, "d": True, "e": None}
    assert record_files.rounded(given) == kept


def test_ctrl_c_ends_after_the_step_with_what_there_is():
    class Impatient(Silent):
        def update(self, status):
            if status.step == 2:
                os.kill(os.getpid(), signal.SIGINT)

    curves, stopped = side_by_side.take_turns(tiny_runs(), same_curve.batches_of(documents()), STEPS, Impatient())
    assert stopped == signal.SIGINT
    assert {len(curve["loss"]) for curve in curves.values()} == {2}


@pytest.fixture
def files(tmp_path):
    """A text in pieces and the dictionary that numbers them."""
    pieces = [f"▁mot{n}" for n in range(WORDS)]
    (tmp_path / "dict.txt").write_text("".join(f"{piece} 1\n" for piece in pieces), encoding="utf-8")
    lines = (" ".join(pieces[token - 4] for token in document) for document in documents())
    (tmp_path / "text.spm").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "text.txt").write_text("mot\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "arguments, said",
    [
        ("", "give the text and its dictionary"),
        ("--text text.txt --dict dict.txt", "give --sentencepiece FILE"),
        ("--text text.spm --dict dict.txt --steps 0", "give at least 1"),
        ("--text text.spm --dict nowhere.txt", "nowhere.txt:0: found no such file"),
        ("--draw --out .", "there is no record yet"),
    ],
)
def test_what_is_missing_is_said_in_one_line(files, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(files)
    monkeypatch.setitem(sys.modules, "torch", object())  # whether it is there is not the question
    assert same_curve.main(arguments.split()) == 2
    error = capsys.readouterr().err
    assert error.startswith("same_curve: ") and error.count("\n") == 1 and said in error


def test_without_pytorch_the_line_says_how_to_get_it(files, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert same_curve.main(["--text", str(files / "text.spm"), "--dict", str(files / "dict.txt")]) == 2
    assert (
        capsys.readouterr().err == "same_curve: this experiment needs PyTorch: pip install 'minitransformer[bench]'\n"
    )


@pytest.mark.oracle
def test_five_steps_beside_pytorch(files):
    """All of it, with the labs' layers over a small vocabulary."""
    arguments = ["--text", str(files / "text.spm"), "--dict", str(files / "dict.txt"), "--steps", str(STEPS)]
    assert same_curve.main([*arguments, "--out", str(files / "out")]) == 0
    record = record_files.load_record(files / "out" / "same_curve.json")
    assert len(record["curves"]["pytorch"]["loss"]) == STEPS
    for name in ("pytorch", "pytorch_double_norm", "perturbed"):
        # Each loss is good to some 1e-7. An eps of 1e-7 in Adam shows at 2e-5, a β₂ of 0.99, no clip, or a mean with
        # the padding at 1e-4 and more. A clip at 0.6 does not show: Adam ignores a factor that all gradients share.
        assert record["figures"][name]["loss_largest"] < 1e-5, name
        assert record["figures"][name]["gradient_norm_first_step"] < 1e-5, name
    assert (files / "out" / "same_curve.png").exists()
