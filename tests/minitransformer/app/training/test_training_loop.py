"""The loop itself: limits, evaluation, early stopping, numbers that are not finite, what is written."""

import json
import math
import os

import numpy as np
import pytest
from training_support import digest, evaluate, loss_of, tiny_batches, tiny_model, tiny_run

import kernels
from minitransformer.app.progress import Silent
from minitransformer.app.training import Options, train
from minitransformer.app.training.checkpoints import CheckpointError, RunFolder, load_model
from minitransformer.app.training.metrics import read_metrics
from minitransformer.errors import NotFiniteError, TrainingError
from minitransformer.optim import SGD, clip_grad_norm


@pytest.fixture(autouse=True)
def numpy_backend():
    with kernels.use("numpy"):
        yield


def test_the_same_numbers_as_a_loop_written_by_hand():
    trained = tiny_model()
    options = Options(max_epochs=2, clip=0.5)
    sgd = SGD(trained.named_parameters(), lr=0.1)
    train(trained, sgd, tiny_batches(), loss_of, options, schedule=lambda step: 1 / step, progress=Silent())

    model = tiny_model()
    optimizer, step = SGD(model.parameters(), lr=0.1), 0
    for epoch in range(2):
        for batch in tiny_batches().epoch(epoch):
            step += 1
            optimizer.lr = 0.1 * (1 / step)
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            clip_grad_norm(model.parameters(), 0.5)
            optimizer.step()
    assert step == 14
    assert digest(model.state_dict()) == digest(trained.state_dict())


def test_layers_computed_again_make_the_same_checkpoints(tmp_path):
    """Also one that was begun without: what is kept in memory has no effect on the weights."""
    kept, _ = tiny_run(tmp_path / "kept", steps=8)
    again, _ = tiny_run(tmp_path / "again", steps=4)
    again, _ = tiny_run(tmp_path / "again", steps=8, recompute=True)
    assert again.base.encoder.recompute
    assert digest(kept.state_dict()) == digest(again.state_dict())


def test_each_limit_ends_the_run():
    assert tiny_run(None, steps=5)[1].reason == "steps"
    result = tiny_run(None, steps=None, max_epochs=2)[1]
    assert (result.reason, result.step, result.epoch) == ("epochs", 14, 2)
    result = tiny_run(None, steps=None, max_minutes=0.001)[1]
    assert result.reason == "minutes"
    assert 0 < result.step < 1000
    assert tiny_run(None, steps=0)[1].step == 0


def test_time_spent_before_a_stop_counts(tmp_path):
    tiny_run(tmp_path / "run", steps=2)
    spent = RunFolder(tmp_path / "run").latest().state["seconds"]
    assert spent > 0
    result = tiny_run(tmp_path / "run", steps=None, max_minutes=spent / 60)[1]
    assert (result.reason, result.step) == ("minutes", 2)


def test_work_of_the_processor_before_a_stop_counts(tmp_path):
    tiny_run(tmp_path / "run", steps=2)
    first = RunFolder(tmp_path / "run").latest().state["cpu_seconds"]
    tiny_run(tmp_path / "run", steps=4)
    lines = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert 0 < first < RunFolder(tmp_path / "run").latest().state["cpu_seconds"]
    assert sorted(line["cpu_seconds"] for line in lines) == [line["cpu_seconds"] for line in lines]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "would never end"),
        ({"max_steps": -1}, "max_steps=-1"),
        ({"max_minutes": math.nan}, "max_minutes=nan"),
        ({"max_steps": 1, "clip": 0.0}, "clip=0.0"),
        ({"max_steps": 1, "patience": 0}, "patience=0"),
        ({"max_steps": 1, "save_every": 0}, "save_every=0"),
        ({"max_steps": 1, "keep": 0}, "keep=0"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(TrainingError, match=message):
        Options(**options)


def scripted(*values, name="loss"):
    """An evaluation with these outcomes, in turn."""
    remaining = list(values)
    return lambda model: {name: remaining.pop(0)}


def test_patience_counts_evaluations_without_a_new_best(tmp_path):
    scores = scripted(3.0, 2.0, 2.5, 1.5, 1.5, 1.6, 9.0, 9.0)
    options = {"evaluate": scores, "evaluate_every": 2, "patience": 3, "save_every": 100}
    _, result = tiny_run(tmp_path / "run", steps=100, **options)
    assert (result.reason, result.step) == ("patience", 14)
    assert result.best == {"step": 8, "metric": "loss", "value": 1.5}  # an equal value later is no new best
    again = tiny_run(tmp_path / "run", steps=100, **options)[1]  # resuming does not forget that it was over
    assert (again.reason, again.step) == ("patience", 14)


def test_accuracy_is_better_when_higher(tmp_path):
    scores = scripted(0.5, 0.7, 0.6, name="accuracy")
    options = {"evaluate": scores, "evaluate_every": 2, "monitor": "accuracy", "higher_is_better": True}
    _, result = tiny_run(tmp_path / "run", steps=6, perplexity=False, **options)
    assert result.best == {"step": 4, "metric": "accuracy", "value": 0.7}
    assert "perplexity" not in result.metrics["train"]
    with pytest.raises(TrainingError, match="the evaluation gives accuracy, not the monitored 'loss'"):
        tiny_run(None, steps=6, evaluate=scripted(0.5, name="accuracy"))


def test_the_best_and_the_newest_are_kept_and_usable(tmp_path):
    scores = scripted(2.0, 1.0, 3.0, 3.0, 3.0)
    trained, _ = tiny_run(tmp_path / "run", steps=10, evaluate=scores, evaluate_every=2, keep=3)
    assert RunFolder(tmp_path / "run").steps() == [4, 8, 9, 10]
    names = {name for name in os.listdir(tmp_path / "run") if not name.startswith("step-")}
    assert names == {"metrics.jsonl", "curve.png"}
    best, checkpoint = load_model(tmp_path / "run")
    assert checkpoint.step == 4
    assert not best.training
    halfway, _ = tiny_run(None, steps=4)
    assert digest(best.state_dict()) == digest(halfway.state_dict())
    assert digest(load_model(tmp_path / "run", "latest")[0].state_dict()) == digest(trained.state_dict())


def poisoned(step, value=math.nan):
    """A loss that is spoilt at one step."""
    calls = []

    def loss(model, batch):
        calls.append(1)
        result = loss_of(model, batch)
        return result * value if len(calls) == step else result

    return loss


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path):
    for value in (math.nan, math.inf):
        folder = tmp_path / str(value)
        with pytest.raises(NotFiniteError) as error:
            tiny_run(folder, steps=20, loss=poisoned(9, value), save_every=3)
        good = folder / "step-00000006.json"
        assert f"the loss is {value} at step 9 (epoch 2, batch 2); the last good checkpoint is {good}; " in str(
            error.value
        )
        assert "\n" not in str(error.value)
        assert RunFolder(folder).steps()[-1] == 6
        tiny_run(folder, steps=20, save_every=3)


def test_a_gradient_that_is_not_finite_stops_before_the_update(tmp_path):
    class Overflow:
        """A loss of 1 whose gradient overflows: √x at 0 has an infinite slope."""

        def __call__(self, model, batch):
            weight = model.head.bias
            return ((weight - weight.detach()) ** 2).sum().sqrt() + loss_of(model, batch)

    model = tiny_model()
    before = digest(model.state_dict())
    with (
        np.errstate(all="ignore"),
        pytest.raises(NotFiniteError, match="the norm of the gradient is (nan|inf) at step 1"),
    ):
        tiny_run(None, steps=3, model=model, loss=Overflow())
    assert digest(model.state_dict()) == before


def test_a_checkpoint_with_broken_weights_is_never_written(tmp_path):
    model = tiny_model()
    model.head.bias.data[0] = np.inf
    with pytest.raises(NotFiniteError, match=r"a value of head\.bias is nan at step 1 .* no checkpoint was written"):
        tiny_run(tmp_path / "run", steps=3, model=model)
    assert RunFolder(tmp_path / "run").steps() == []


def test_an_evaluation_that_is_not_finite_stops_the_run(tmp_path):
    with pytest.raises(NotFiniteError, match="the loss of the evaluation is nan"):
        tiny_run(tmp_path / "run", steps=9, evaluate=scripted(math.nan))


def test_metrics_are_json_lines_with_true_averages(tmp_path):
    losses = []

    def noting(model, batch):
        loss = loss_of(model, batch)
        losses.append(float(loss))
        return loss, {"accuracy": len(losses) / 100}

    model, _ = tiny_run(tmp_path / "run", steps=10, loss=noting)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [(r["kind"], r["step"]) for r in records] == [
        ("train", 4), ("evaluation", 5), ("train", 8), ("evaluation", 10), ("train", 10),
    ]  # fmt: skip
    train_lines = [r for r in records if r["kind"] == "train"]
    for line, part in zip(train_lines, (losses[:4], losses[4:8], losses[8:10]), strict=True):
        # the same sums in the same order: no tolerance but that of fsum-free addition, a few units in the last place
        assert line["loss"] == pytest.approx(sum(part) / len(part), rel=1e-15)
        assert line["perplexity"] == pytest.approx(math.exp(line["loss"]), rel=1e-15)
    assert train_lines[0]["accuracy"] == pytest.approx(0.025, rel=1e-15)
    assert records[3]["loss"] == pytest.approx(_in_eval_mode(model), rel=1e-15)


def _in_eval_mode(model):
    model.eval()
    return evaluate(model)


def test_a_perplexity_beyond_float64_is_still_json(tmp_path):
    tiny_run(tmp_path / "run", steps=5, evaluate=scripted(1e4))
    record = [r for r in read_metrics(tmp_path / "run" / "metrics.jsonl") if r["kind"] == "evaluation"][0]
    assert (record["loss"], record["perplexity"]) == (1e4, None)


def test_a_torn_or_foreign_line_of_metrics_is_left_out(tmp_path):
    tiny_run(tmp_path / "run", steps=6)
    path = tmp_path / "run" / "metrics.jsonl"
    good = path.read_bytes()
    path.write_bytes(good + b'{"kind": "train", "step": 7}\n{"kind": "tra')
    tiny_run(tmp_path / "run", steps=6)  # resumed at its end: nothing to do but to put the file right
    assert path.read_bytes() == good
    path.write_bytes(b"\xff\xfe\n[1]\n" + b"[" * 10_000 + b'\n{"step": true}\n')
    assert read_metrics(path) == []


def test_sources_that_cannot_be_used_are_named():
    class Empty:
        def count(self, epoch=0):
            return 0

        def epoch(self, epoch=0, start=0):
            return iter(())

    class Liar(Empty):
        def count(self, epoch=0):
            return 3

    with pytest.raises(TrainingError, match="no batches in epoch 1"):
        tiny_run(None, steps=2, source=Empty())
    with pytest.raises(TrainingError, match=r"ended at batch 0 of 3: .* disagree"):
        tiny_run(None, steps=2, source=Liar())


def test_an_unusable_folder_shows_before_the_first_step(tmp_path):
    (tmp_path / "file").write_text("")
    steps = []
    with pytest.raises(CheckpointError, match="cannot be used as the folder of a run"):
        tiny_run(tmp_path / "file", steps=2, resume=False, loss=lambda model, batch: steps.append(1))
    assert steps == []
