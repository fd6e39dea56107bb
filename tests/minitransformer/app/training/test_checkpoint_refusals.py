"""Files that are no checkpoint, or not this model's: one clear line, and the model is as before."""

import copy
import hashlib
import json
import os
import shutil
import struct
import tracemalloc

import numpy as np
import pytest
import safetensors.numpy
from training_support import digest, tiny_model, tiny_run

import kernels
from minitransformer.app.training.checkpoints import CheckpointError, find, load_into, load_model
from minitransformer.app.training.checkpoints.document import checksum
from minitransformer.models import Classifier
from minitransformer.optim import Adam

STEP = "step-00000003"


@pytest.fixture(autouse=True)
def numpy_backend():
    with kernels.use("numpy"):
        yield


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("original") / "run"
    with kernels.use("numpy"):
        tiny_run(folder, steps=3)
    return folder


@pytest.fixture
def run(original, tmp_path):
    shutil.copytree(original, tmp_path / "run")
    return tmp_path / "run"


def edit(run, change):
    """Changes the JSON and signs it again, as somebody would who wants to get it past the checks."""
    path = run / f"{STEP}.json"
    document = json.loads(path.read_text())
    arrays = (run / f"{STEP}.safetensors").read_bytes()
    document["arrays"] |= {"bytes": len(arrays), "sha256": hashlib.sha256(arrays).hexdigest()}
    document = change(document) or document
    if isinstance(document, dict) and "check" in document:
        signed = {k: v for k, v in document.items() if k not in ("format", "version", "check")}
        document["check"] = checksum(signed)
    path.write_text(json.dumps(document))


def refused(run, message, model=None):
    """Neither loads into a model, nor makes one, and the message has one line."""
    model = tiny_model() if model is None else model
    optimizer = Adam(model.named_parameters(), lr=0.5)
    before, random = digest(model.state_dict()), model.rng_state()
    with pytest.raises(CheckpointError, match=message) as error:
        load_into(find(run, "latest"), model, optimizer)
    assert "\n" not in str(error.value)
    assert str(run) in str(error.value)
    assert (digest(model.state_dict()), model.rng_state()) == (before, random)
    assert len(optimizer.state_dict()) == 2  # lr and steps: no moments
    return str(error.value)


def set_at(*keys):
    *path, last, value = keys

    def change(document):
        place = document
        for key in path:
            place = place[key]
        place[last] = value

    return change


@pytest.mark.parametrize("length", [0, 7, 8, 100, -1])
def test_truncated_arrays(run, length):
    path = run / f"{STEP}.safetensors"
    content = path.read_bytes()[:length]
    path.write_bytes(content)
    refused(run, "truncated: .* bytes instead of")
    edit(run, lambda document: None)  # also when the JSON agrees with the file
    refused(run, "is not a valid safetensors file")


def test_a_single_bit_of_the_weights(run):
    path = run / f"{STEP}.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    refused(run, "SHA-256 differs")


def header(content):
    length = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def rebuilt(entries, data):
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data


def with_entry(**changes):
    def change(entries, data):
        entries["model.head.bias"] |= changes
        return rebuilt(entries, data)

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda entries, data: struct.pack("<Q", 2**63) + b"{}",
        lambda entries, data: struct.pack("<Q", 2**40) + rebuilt(entries, data)[8:],
        lambda entries, data: struct.pack("<Q", 0) + data,
        lambda entries, data: rebuilt([1, 2], data),
        lambda entries, data: struct.pack("<Q", 100_000) + b"[" * 100_000,
        with_entry(shape=[2**62, 4]),
        with_entry(shape=[10**18]),
        with_entry(shape=[-1]),
        with_entry(shape=[float("nan")]),
        with_entry(shape=["12"]),
        with_entry(shape=[0, 10**18], data_offsets=[0, 0]),
        with_entry(data_offsets=[0, 48]),  # another array's place
        with_entry(data_offsets=[2**63, 2**63 + 48]),
        with_entry(data_offsets=[48, 0]),
        with_entry(dtype="F8_E4M3"),
        with_entry(dtype="object"),
        lambda entries, data: rebuilt(entries, data + b"surplus"),
        lambda entries, data: b"\x80\x04\x95" + data,  # how a pickle begins
    ],
)
def test_absurd_headers(run, change):
    path = run / f"{STEP}.safetensors"
    path.write_bytes(change(*header(path.read_bytes())))
    edit(run, lambda document: None)
    tracemalloc.start()
    refused(run, "is not a valid safetensors file|claims the shape|has the type")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6  # what the header asks for would be exabytes; the model itself takes some kilobytes


def replace_arrays(run, change):
    path = run / f"{STEP}.safetensors"
    arrays = safetensors.numpy.load_file(path)
    change(arrays)
    safetensors.numpy.save_file(arrays, path)
    edit(run, lambda document: None)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("model.head.bias", None, "lacks the weight 'head.bias'"),
        ("model.head.extra", np.zeros(3), "holds the unknown weight 'head.extra'"),
        ("model.head.bias", np.zeros(13, np.float32), r"'head.bias' is float32 \(13,\), the model's float32 \(12,\)"),
        ("model.head.bias", np.zeros(12), r"'head.bias' is float64 \(12,\), the model's float32 \(12,\)"),
        ("model.head.bias", np.zeros(12, np.int32), r"'head.bias' is int32"),
        ("optimizer.m.head.bias", None, "state of its optimizer does not fit .*m.head.bias is missing"),
        ("optimizer.m.head.bias", np.zeros((12, 1), np.float32), "state of its optimizer does not fit"),
        ("optimizer.q.head.bias", np.zeros(12, np.float32), "state of its optimizer does not fit"),
        ("stranger", np.zeros(3), "holds the unknown array 'stranger'"),
    ],
)
def test_arrays_that_do_not_fit(run, name, array, message):
    def change(arrays):
        arrays.pop(name, None)
        if array is not None:
            arrays[name] = array

    replace_arrays(run, change)
    refused(run, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: [document], "holds a JSON list, not an object"),
        (lambda document: {"vocabulary": []}, "is JSON, but not a checkpoint of minitransformer"),
        (set_at("version", 3), r"written by a newer minitransformer \(format 3; this one reads up to 2\); upgrade"),
        (set_at("version", "1"), "no valid version"),
        (set_at("step", True), "has bool as 'step'"),
        (set_at("step", -3), "negative"),
        (set_at("epoch", 1.0), "has float as 'epoch'"),
        (set_at("batch", None), "has NoneType as 'batch'"),
        (set_at("best", [1]), "has list as 'best'"),
        (set_at("best", {"step": 1}), "lacks 'best.metric'"),
        (set_at("surplus", 1), "unknown entry 'surplus'"),
        (lambda document: document.pop("state") and None, "lacks 'state'"),
        (set_at("arrays", "file", "../../etc/passwd"), "only a file beside it is taken"),
        (set_at("arrays", "file", "x\x00.safetensors"), "cannot be read"),
        (set_at("arrays", "sha256", "0"), "SHA-256 differs"),
        (set_at("model", "kind", "Translator"), "another model: a Translator, not a LanguageModel"),
        (set_at("model", "config", "d_model", 16), "another model: d_model was 16, now 8"),
        (set_at("model", "rng", None), "random state cannot be used"),
        (set_at("model", "rng", {"seed": 1, "counter": "x"}), "random state cannot be used"),
        (set_at("optimizer", "kind", "SGD"), "was trained with SGD, not Adam"),
        (set_at("optimizer", "values", {}), "state of its optimizer does not fit"),
        (set_at("optimizer", "values", "steps", ["x"]), "state of its optimizer does not fit"),
    ],
)
def test_json_of_the_wrong_shape(run, change, message):
    edit(run, change)
    refused(run, message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"{" * 100, "not valid JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"step": NaN}', "NaN is not JSON"),
        (b'{"step": 1e999}', "too large"),
        (b'{"step": ' + b"9" * 10_000 + b"}", "number that does not belong"),
    ],
)
def test_what_is_no_json(run, content, message):
    (run / f"{STEP}.json").write_bytes(content)
    refused(run, message)


def test_a_changed_digit_without_a_new_signature(run):
    path = run / f"{STEP}.json"
    text = path.read_text()
    assert '"counter": ' in text
    path.write_text(text.replace('"counter": ', '"counter": 1'))
    refused(run, "checksum differs")


def test_a_file_whose_name_lies_about_its_step(run):
    """Copied under another name, an old checkpoint would pass for the latest one."""
    for ending in ("json", "safetensors"):
        shutil.copy(run / f"{STEP}.{ending}", run / f"step-00000010.{ending}")
    with pytest.raises(CheckpointError, match="holds step 3, not the step 10 of its name; .* call it"):
        find(run)
    os.rename(run / "step-00000010.json", run / "mine.json")  # a name that says nothing of a step is no lie
    assert find(run / "mine.json").step == 3


def test_other_models_and_other_things(run, tmp_path):
    refused(run, "another model: d_ff was 8, now 9", tiny_model(d_ff=9))
    refused(
        run,
        "another model: a LanguageModel, not a Classifier",
        Classifier.from_language_model(tiny_model(), n_classes=2),
    )
    os.remove(run / f"{STEP}.json")
    os.mkfifo(run / f"{STEP}.json")  # reading it would wait for ever
    refused(run, "is not an ordinary file")
    with pytest.raises(CheckpointError, match="more than 67,108,864"):
        with open(tmp_path / "large.json", "wb") as file:
            file.truncate(10**12)  # sparse: it takes no room
        find(tmp_path / "large.json")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("d_model", 10**12), ("d_ff", 10**9), ("n_layers", 10**9), ("n_layers", 30), ("max_len", 10**9),
        ("vocab_size", -5), ("n_heads", 0), ("activation", 3), ("dtype", "complex128"), ("dropout", "much"),
        ("unknown", 1), ("d_ff", 16), ("max_len", 2**20), ("seed", "x"), ("seed", -1), ("vocab_size", 10**5),
    ],
)  # fmt: skip
def test_a_model_is_not_made_of_absurd_settings(run, name, value):
    edit(run, set_at("model", "config", name, value))
    if (name, value) == ("max_len", 2**20):  # 8 million positions' numbers are odd, yet affordable
        load_model(run)
        return
    tracemalloc.start()
    with pytest.raises(CheckpointError, match="does not fit this model") as error:
        load_model(run)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6
    assert "\n" not in str(error.value)


def test_a_checkpoint_from_before_a_setting_was_added_means_its_default(run):
    """Models were causal before `causal` existed."""
    before = digest(load_model(run)[0].state_dict())

    def forget(name):
        return lambda document: document["model"]["config"].pop(name) and None

    edit(run, forget("causal"))
    assert "causal" not in find(run).model["config"]
    model, _ = load_model(run)
    assert model.config.causal is True and model.base.causal is True
    assert digest(model.state_dict()) == before
    refused(run, "another model: causal was True, now False", tiny_model(causal=False))


def test_errors_survive_worker_processes():
    error = CheckpointError("a\nb", "found", "advice")
    assert str(copy.copy(error)) == str(error) == "a\\nb: found; advice"
