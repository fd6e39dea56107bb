"""A run that is stopped, by whatever means and at whatever moment, and resumed, ends with the same bytes."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from training_support import digest, evaluate, loss_of, saved_digest, tiny_batches, tiny_model, tiny_run

import autograd.functional as F
import kernels
from minitransformer.app.training import environment, resume_command
from minitransformer.app.training.checkpoints import CheckpointError, RunFolder
from minitransformer.errors import TrainingError
from minitransformer.optim import SGD, Adam, warmup_cosine

SUPPORT = os.path.join(os.path.dirname(__file__), "training_support.py")


@pytest.fixture(autouse=True)
def numpy_backend(monkeypatch):
    monkeypatch.setattr("minitransformer.app.training.run.draw_curve", lambda *_: None)  # many runs: no pictures
    with kernels.use("numpy"):
        yield


def support(*arguments):
    return subprocess.run([sys.executable, SUPPORT, *map(str, arguments)], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("kills", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_killed_at_random_moments(tmp_path, kills):
    undisturbed = support("train", tmp_path / "undisturbed", 40)
    assert undisturbed.returncode == 0, undisturbed.stderr
    killed = support("random", tmp_path, 1, kills)
    assert killed.returncode == 0, killed.stderr
    report = json.loads(killed.stdout)
    assert report["kills"] >= kills
    expected = json.loads(json.dumps(saved_digest(tmp_path / "undisturbed")))
    for number, end in enumerate(report["ends"]):
        assert end == expected, f"run {number} of {report['runs']}, {report['kills']} kills"


@pytest.mark.slow
def test_killed_at_every_request_to_the_disk(tmp_path):
    killed = support("places", tmp_path)
    assert killed.returncode == 0, killed.stderr
    report = json.loads(killed.stdout)
    # for each file of a checkpoint open, writes, fsync, rename, fsync of the folder; then the removal of an older one
    assert report["kills"] == report["places"] >= 15
    for place, end in enumerate(report["ends"]):
        assert end == report["ends"][0], f"killed at request {place}"


def after(steps, action, function=loss_of):
    """A loss that does something once, in the middle of step number `steps`."""
    calls = []

    def loss(model, batch):
        calls.append(1)
        if len(calls) == steps:
            action()
        return function(model, batch)

    return loss


def test_interrupted_in_every_step(tmp_path):
    tiny_run(tmp_path / "whole", steps=12, save_every=5)
    expected = saved_digest(tmp_path / "whole")
    for step in range(1, 12):
        folder = tmp_path / str(step)
        stopping = after(step, lambda: signal.raise_signal(signal.SIGINT))
        _, result = tiny_run(folder, steps=12, save_every=5, loss=stopping)
        assert (result.reason, result.step, result.signal) == ("interrupted", step, signal.SIGINT)
        assert RunFolder(folder).latest().step == step
        tiny_run(folder, steps=12, save_every=5, resume=True)
        assert saved_digest(folder) == expected


def test_an_abandoned_evaluation_is_made_up_for(tmp_path):
    tiny_run(tmp_path / "whole", steps=12)
    calls = []

    def stopping(model):
        calls.append(1)
        if len(calls) == 2:  # at step 10
            signal.raise_signal(signal.SIGTERM)
        return evaluate(model)

    _, result = tiny_run(tmp_path / "stopped", steps=12, evaluate=stopping)
    assert (result.step, result.signal) == (10, signal.SIGTERM)
    assert result.best["step"] == 5
    tiny_run(tmp_path / "stopped", steps=12)
    assert saved_digest(tmp_path / "stopped") == saved_digest(tmp_path / "whole")


def test_no_line_of_metrics_comes_twice(tmp_path, monkeypatch):
    """Stopped in the evaluation of step 10 and saved without it; resumed, evaluated, and killed before the next save:
    the evaluation's line belongs to the checkpoint's step, but not to the checkpoint."""
    run = tmp_path / "run"
    first = after(10, lambda: signal.raise_signal(signal.SIGINT))
    tiny_run(run, steps=12, evaluate_every=10, loss=first, evaluate=lambda model: 1 / 0)

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save", dies)
        with pytest.raises(KeyboardInterrupt):
            tiny_run(run, steps=12, evaluate_every=10)
    tiny_run(run, steps=12, evaluate_every=10)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    places = [(line["kind"], line["step"]) for line in lines]
    assert ("evaluation", 10) in places
    assert len(places) == len(set(places))


def test_a_second_interrupt_stops_at_once_and_harms_nothing(tmp_path):
    def twice():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    former = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        tiny_run(tmp_path / "a", steps=12, loss=after(4, twice))
    assert signal.getsignal(signal.SIGINT) is former
    assert RunFolder(tmp_path / "a").latest().step == 3
    tiny_run(tmp_path / "a", steps=12)
    tiny_run(tmp_path / "b", steps=12)
    assert saved_digest(tmp_path / "a") == saved_digest(tmp_path / "b")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_from_outside_saves_and_says_how_to_go_on(tmp_path, number):
    command = [sys.executable, SUPPORT, "train", str(tmp_path / "run"), "1000000"]
    lines = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            lines.append(line)
            if line.startswith("step 3/"):
                process.send_signal(number)
    assert process.returncode == 128 + number
    step = RunFolder(tmp_path / "run").latest().step
    saved = tmp_path / "run" / f"step-{step:08}.json"
    assert lines[-1] == f"stopped at step {step}; saved {saved}; resume with: train again --resume\n"
    assert "Traceback" not in "".join(lines)


def test_dropout_without_a_seed_of_its_own_resumes_too(tmp_path):
    def noisy(model, batch):
        return loss_of(model, batch) + F.dropout(model.head.weight, 0.5).sum() * 0.01

    whole, _ = tiny_run(tmp_path / "whole", steps=9, loss=noisy)
    F.manual_seed(1)
    tiny_run(tmp_path / "parts", steps=4, loss=noisy)
    F.manual_seed(2)
    parts, _ = tiny_run(tmp_path / "parts", steps=9, loss=noisy)
    assert digest(parts.state_dict()) == digest(whole.state_dict())


def test_a_model_of_todays_parts_resumes_too(tmp_path):
    parts = {"norm": "rms", "activation": "swiglu", "positions": "rotary", "n_kv_heads": 1, "bias": False,
             "head_bias": False, "norm_first": True}  # fmt: skip
    whole, _ = tiny_run(tmp_path / "whole", steps=9, model=tiny_model(**parts))
    tiny_run(tmp_path / "halved", steps=4, model=tiny_model(**parts))
    halved, _ = tiny_run(tmp_path / "halved", steps=9, model=tiny_model(**parts))
    assert digest(halved.state_dict()) == digest(whole.state_dict())


def test_evaluating_and_saving_change_nothing(tmp_path):
    ends = {
        digest(tiny_run(folder, steps=9, **options)[0].state_dict())
        for folder, options in (
            (None, {"evaluate": None}),
            (None, {"evaluate_every": 1}),
            (tmp_path / "a", {"save_every": 2, "evaluate_every": 3}),
            # an evaluation that uses dropout, and so moves the model's random state
            (None, {"evaluate_every": 2, "evaluate": lambda model: float(model.train() and loss_of(model, first()))}),
        )
    }
    assert len(ends) == 1


def first():
    return next(tiny_batches().epoch(0))


class Notes:
    def __init__(self):
        self.notes = []

    def update(self, status):
        pass

    def close(self):
        pass

    def note(self, text):
        self.notes.append(text)


def test_what_differs_from_the_former_run_is_said(tmp_path):
    tiny_run(tmp_path / "run", steps=3, settings={"data": "a.txt"})
    same = Notes()
    tiny_run(tmp_path / "run", steps=5, settings={"data": "a.txt"}, keep=4, progress=same)
    assert not any("bit for bit" in note for note in same.notes)
    other = Notes()
    model = tiny_model()
    adam = Adam(model.named_parameters(), lr=0.02)
    tiny_run(tmp_path / "run", steps=7, settings={"data": "b.txt"}, model=model, optimizer=adam, progress=other)
    (note,) = [note for note in other.notes if "bit for bit" in note]
    assert "optimizer: lr was 0.01, now 0.02" in note
    assert "settings: data was 'a.txt', now 'b.txt'" in note
    assert adam.lr == 0.02 * warmup_cosine(5, 40)(7)  # the new rate, not the one saved with the moments


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": lambda: tiny_model(d_ff=9)}, "another model: d_ff was 8, now 9"),
        ({"optimizer": lambda: SGD(tiny_model().named_parameters())}, "was trained with Adam, not SGD"),
        ({"source": lambda: tiny_batches(documents=4)}, "stands at batch 3 of epoch 1, which has 2 here"),
    ],
)
def test_a_run_that_does_not_fit_is_not_resumed(tmp_path, changes, message):
    tiny_run(tmp_path / "run", steps=3)
    before = sorted(os.listdir(tmp_path / "run"))
    with pytest.raises(CheckpointError, match=message):
        tiny_run(tmp_path / "run", steps=5, **{name: make() for name, make in changes.items()})
    assert sorted(os.listdir(tmp_path / "run")) == before


def test_starting_and_resuming_are_not_confused(tmp_path):
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        tiny_run(tmp_path / "empty", steps=3, resume=True)
    tiny_run(tmp_path / "run", steps=3)
    with pytest.raises(CheckpointError, match=r"already holds a run of 3 steps; add --resume"):
        tiny_run(tmp_path / "run", steps=3, resume=False)
    with pytest.raises(TrainingError, match="nothing to resume"):
        tiny_run(None, steps=3, resume=True)


def test_two_processes_do_not_share_a_folder(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.open()
    with pytest.raises(CheckpointError, match="another process is training in this folder"):
        tiny_run(tmp_path / "run", steps=3)
    folder.close()
    tiny_run(tmp_path / "run", steps=3)


def test_the_command_that_resumes():
    assert resume_command("minitransformer", ["pretrain", "--out", "my run"]) == (
        "minitransformer pretrain --out 'my run' --resume"
    )
    assert resume_command("minitransformer", ["pretrain", "--resume"]) == "minitransformer pretrain --resume"


# --------------------------------------------------------------------------------------------- another machine


def resumed(tmp_path, **environment):
    """What a run says that began here and goes on in a process with these variables."""
    command = [sys.executable, SUPPORT, "train", str(tmp_path / "run"), "5"]
    result = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return [line for line in result.stderr.splitlines() if "bit for bit" in line]


def test_every_backend_can_be_described(backend):
    found = environment.description()
    assert found["backend"] == backend.name
    json.dumps(found)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"OPENBLAS_CORETYPE": "Nehalem"}, "BLAS was .*, now 'openblas .* Nehalem'"),
        ({"OPENBLAS_NUM_THREADS": "1"}, "BLAS threads was .*, now 1"),
        ({"NPY_DISABLE_CPU_FEATURES": "AVX512_SPR,AVX512_ICL,AVX512_SKX,AVX512_CLX,AVX512_CNL"}, "vector instructions"),
    ],
)
def test_another_blas_is_said(tmp_path, variables, message):
    """On the backend numpy, whose products are the BLAS library's own."""
    before = environment.description()
    now = json.loads(
        subprocess.run(
            [sys.executable, "-c", "import json, kernels; kernels.use('numpy');"
             "from minitransformer.app.training import environment; print(json.dumps(environment.description()))"],
            env={**os.environ, **variables}, capture_output=True, text=True, check=True,
        ).stdout
    )  # fmt: skip
    tiny_run(tmp_path / "run", steps=3)
    said = resumed(tmp_path, **variables)
    if now == before:  # this machine has not got what the variable takes away
        assert not said
    else:
        (line,) = said
        assert re.search(message, line)


@pytest.mark.parametrize("name", ["numpy", "minitransformer", "numba", "llvm", "cpu", "blas", "simd"])
def test_other_software_and_another_processor_are_said(tmp_path, name, monkeypatch):
    with kernels.use("numba"):
        tiny_run(tmp_path / "run", steps=3)
        genuine = environment.description()
        assert isinstance(genuine[name], str)
        assert "blas threads" not in genuine  # the kernels of this backend give the same bits for any number
        other = Notes()
        monkeypatch.setattr(environment, "description", lambda: genuine | {name: "another"})
        tiny_run(tmp_path / "run", steps=5, progress=other)
    (note,) = [note for note in other.notes if "bit for bit" in note]
    assert f"was {genuine[name]!r}, now 'another': the run goes on, but no longer bit for bit" in note


def test_what_a_former_version_did_not_note_is_not_compared():
    assert environment.changes({"backend": "numpy"}, {"backend": "numpy", "blas": "x"}) == []
    assert environment.changes({}, {"backend": "numpy"}) == ["backend was None, now 'numpy'"]
