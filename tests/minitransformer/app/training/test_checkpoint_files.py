"""Writing checkpoints: what is in the files, and what is left when the disk refuses."""

import errno
import hashlib
import json
import os
import resource
import shutil
import tempfile

import numpy as np
import pytest
import safetensors.numpy
from training_support import digest, forked, saved_digest, tiny_model, tiny_run

import kernels
from minitransformer.app.training.checkpoints import CheckpointError, RunFolder, Snapshot, find, load_into
from minitransformer.app.training.checkpoints.arrays import inspect_arrays, load_arrays, write_arrays
from minitransformer.app.training.checkpoints.files import replacing
from minitransformer.optim import Adam


@pytest.fixture(autouse=True)
def numpy_backend():
    with kernels.use("numpy"):
        yield


def files(folder):
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))}


def awkward_arrays():
    generator = np.random.default_rng(0)
    return {
        "scalar": np.float64(1.5).reshape(()), "empty": np.zeros((0, 3), np.float32), "odd": np.float32([1, 2, 3]),
        "transposed": generator.normal(size=(5, 7)).T, "big-endian": np.arange(5, dtype=">i8"),
        "special": np.float32([np.nan, np.inf, -0.0, 1e-45]), "flags": np.array([True, False]), "é\n": np.int32([[7]]),
    }  # fmt: skip


def test_the_files_are_safetensors_as_the_library_knows_them(tmp_path):
    arrays = awkward_arrays()
    path = tmp_path / "arrays.safetensors"
    with replacing(path) as file:
        size, sha256 = write_arrays(file, arrays)
    content = path.read_bytes()
    assert (size, sha256) == (len(content), hashlib.sha256(content).hexdigest())
    read_by_library = safetensors.numpy.load_file(path)
    read_by_us = load_arrays(path, inspect_arrays(path))
    for name, array in arrays.items():
        for loaded in (read_by_library[name], read_by_us[name]):
            assert loaded.dtype == array.dtype.newbyteorder("=")
            assert loaded.shape == array.shape
            assert loaded.tobytes() == array.astype(loaded.dtype).tobytes()
    with pytest.raises(TypeError, match="half is float16"), open(os.devnull, "wb") as file:
        write_arrays(file, {"half": np.zeros(3, np.float16)})


def test_everything_comes_back_bit_for_bit(tmp_path):
    trained, _ = tiny_run(tmp_path / "run", steps=6)
    model = tiny_model()
    optimizer = Adam(model.named_parameters(), lr=1.0)
    checkpoint = find(tmp_path / "run", "latest")
    load_into(checkpoint, model, optimizer)
    assert digest(model.state_dict()) == digest(trained.state_dict())
    assert model.rng_state() == trained.rng_state() == checkpoint.model["rng"]
    assert model.rng_state()["counter"] > 0
    again = RunFolder(tmp_path / "again")
    again.open()
    again.save(Snapshot(6, 0, 0), model, optimizer)
    again.close()
    name = "step-00000006.safetensors"
    assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


def test_a_checkpoint_is_found_by_any_of_its_names(tmp_path):
    tiny_run(tmp_path / "run", steps=3)
    for name in ("", "step-00000003.json", "step-00000003.safetensors"):
        assert find(tmp_path / "run" / name).step == 3
    with pytest.raises(CheckpointError, match=r"09\.json: cannot be read: it does not exist; check the path"):
        find(tmp_path / "run" / "step-00000009.json")
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        find(tmp_path)


def test_what_a_killed_process_left_is_swept_and_nothing_else(tmp_path):
    run = tmp_path / "run"
    tiny_run(run, steps=2)
    before = set(os.listdir(run))
    strangers = {"notes.txt", "step-1.safetensors", "mine.tmp", "tokenizer.json", "step-final.safetensors"}
    litter = {"step-00000007.safetensors", "step-00000008.json.123.tmp", "metrics.jsonl.9.tmp"}
    for name in strangers | litter:
        (run / name).write_text("x")
    tiny_run(run, steps=2)
    assert set(os.listdir(run)) == before | strangers


# --------------------------------------------------------------------------------------------- a disk that refuses


def failing(number, at, real):
    """A function that raises OSError(number) the at-th time, and works otherwise."""
    calls = []

    def call(*arguments, **options):
        calls.append(1)
        if len(calls) == at:
            raise OSError(number, os.strerror(number))
        return real(*arguments, **options)

    return call


@pytest.mark.parametrize("at", range(1, 4))
@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_full_disk_leaves_the_former_checkpoint_and_no_litter(tmp_path, monkeypatch, function, at):
    run = tmp_path / "run"
    tiny_run(run, steps=3)
    before, expected = files(run), saved_digest(run)
    model = tiny_model()
    folder = RunFolder(run)
    with monkeypatch.context() as patch:
        patch.setattr(os, function, failing(errno.ENOSPC, at, getattr(os, function)))
        try:
            folder.save(Snapshot(4, 0, 4), model, Adam(model.named_parameters()))
            assert (function, at) == ("replace", 3)  # there are two renames, and four or more times fsync
            return
        except CheckpointError as error:
            assert "cannot be written: the disk is full; free some space" in str(error)
            assert "\n" not in str(error)
    after = files(run)
    assert {name: after[name] for name in before} == before
    # the second fsync is that of the folder, after the arrays got their name: the next sweep finds them
    assert set(after) - set(before) <= ({"step-00000004.safetensors"} if (function, at) == ("fsync", 2) else set())
    assert saved_digest(run) == expected
    tiny_run(run, steps=3)
    assert set(files(run)) == set(before)


def test_a_limit_of_the_system_on_file_sizes(tmp_path):
    """A real refusal in the middle of a write, in a process of its own."""
    run = tmp_path / "run"
    tiny_run(run, steps=3)
    before = files(run)

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))  # the arrays take some 11 kB
        try:
            tiny_run(run, steps=5)
        except CheckpointError as error:
            (tmp_path / "message").write_bytes(str(error).encode()[:5000])

    pid = forked(limited)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    message = (tmp_path / "message").read_text()
    path = run / "step-00000004.safetensors"
    assert message.startswith(f"{path}: cannot be written: the file is larger than this system allows; ")
    after = files(run)
    assert after.pop("metrics.jsonl").startswith(before.pop("metrics.jsonl"))  # step 4 was done, but not saved
    assert after == before
    tiny_run(run, steps=5)
    assert RunFolder(run).latest().step == 5


def test_a_folder_that_may_not_be_written():
    base = tempfile.mkdtemp()  # not tmp_path: its parents are closed to the unprivileged user that this test becomes
    former = os.geteuid()
    try:
        os.chmod(base, 0o755)
        run = os.path.join(base, "run")
        tiny_run(run, steps=3)
        os.chmod(run, 0o555)
        model = tiny_model()
        adam = Adam(model.named_parameters())
        names = sorted(os.listdir(run))
        if former == 0:  # root may write anywhere
            os.seteuid(65534)
        with pytest.raises(CheckpointError, match="cannot be written: permission denied; choose a folder"):
            RunFolder(run).save(Snapshot(4, 0, 4), model, adam)
        with pytest.raises(CheckpointError, match="permission denied"):
            tiny_run(os.path.join(run, "new"), steps=1, resume=False)
        assert RunFolder(run).latest().step == 3
        assert sorted(os.listdir(run)) == names
    finally:
        os.seteuid(former)
        os.chmod(run, 0o755)
        shutil.rmtree(base)


def test_a_full_disk_under_the_metrics(tmp_path, monkeypatch):
    run = tmp_path / "run"
    tiny_run(run, steps=3)
    if not os.path.exists("/dev/full"):
        pytest.fail("this system has no /dev/full: find another way to provoke a full disk here")
    os.remove(run / "metrics.jsonl")
    monkeypatch.setattr("minitransformer.app.training.metrics.MetricsFile.restart", lambda *_: None)
    os.symlink("/dev/full", run / "metrics.jsonl")
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl: cannot be written: the disk is full"):
        tiny_run(run, steps=9)
    assert RunFolder(run).latest().step == 3


def test_the_json_is_readable_and_complete(tmp_path):
    tiny_run(tmp_path / "run", steps=6, settings={"data": "built-in"})
    document = json.loads((tmp_path / "run" / "step-00000006.json").read_text())
    assert document["version"] == 2
    assert (document["step"], document["epoch"], document["batch"]) == (6, 0, 6)
    assert document["model"]["kind"] == "LanguageModel"
    assert document["optimizer"]["kind"] == "Adam"
    assert document["training"]["settings"] == {"data": "built-in"}
    assert document["best"]["metric"] == "loss"
    assert set(document["metrics"]) == {"train", "evaluation"}
    assert document["environment"]["backend"] == "numpy"
