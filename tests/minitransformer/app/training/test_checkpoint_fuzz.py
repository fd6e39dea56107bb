"""More than a thousand damaged checkpoints: each is refused by a CheckpointError of one line, or loaded whole.

Half of them are signed again after the damage (length, SHA-256, checksum), so that the checks behind those are met."""

import collections
import hashlib
import json
import os
import random
import shutil
import signal

import pytest
from training_support import digest, tiny_model, tiny_run

import kernels
from minitransformer.app.training.checkpoints import CheckpointError, find, load_into, load_model
from minitransformer.app.training.checkpoints.document import checksum
from minitransformer.app.training.checkpoints.snapshot import MODEL
from minitransformer.app.training.run import State
from minitransformer.optim import Adam

STEP = "step-00000003"
CASES = 300  # of each kind
JUNK = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.0, 1e308, "", "x", "\x00", "é" * 50, [], {},
    [[]], [1, 2], {"a": 1}, "../x.safetensors", "step-00000003.safetensors", [None] * 20, {"seed": -1}, "float32",
]  # fmt: skip


@pytest.fixture
def run(tmp_path):
    with kernels.use("numpy"):
        tiny_run(tmp_path / "run", steps=3)
        yield tmp_path / "run"


@pytest.fixture(autouse=True)
def no_hang():
    def stop(*_):
        raise AssertionError("a damaged checkpoint takes for ever")

    former = signal.signal(signal.SIGALRM, stop)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, former)


def damaged(content, generator):
    """One to three small accidents."""
    content = bytearray(content)
    for _ in range(generator.choice((1, 1, 2, 3))):
        size = len(content)
        # most of an array file is numbers, whose damage only the digest can see: aim at the header more often
        place = generator.randrange(min(size, generator.choice((9, 3000, size))) or 1) if size else 0
        length = generator.choice((1, 2, 8, 100))
        accident = generator.randrange(7)
        if accident == 0 and size:
            content[place % size] ^= 1 << generator.randrange(8)
        elif accident == 1:
            del content[place:]
        elif accident == 2:
            content[place:place] = generator.randbytes(length)
        elif accident == 3:
            content[place:place] = content[place : place + length]
        elif accident == 4:
            del content[place : place + length]
        elif accident == 5:
            claim = generator.choice((0, 1, 8, size, max(0, size - 8), 2**31, 2**40, 2**63, 2**64 - 1))
            content[:8] = claim.to_bytes(8, "little")
        else:
            digits = [i for i in range(min(size, 3000)) if 48 <= content[i] <= 57]
            if digits:
                content[generator.choice(digits)] = 48 + generator.randrange(10)
    return bytes(content)


def replaced(value, generator):
    """The same JSON with one value, anywhere, turned into junk, removed or doubled."""
    places = []

    def walk(node):
        children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, child in children:
            places.append((node, key))
            walk(child)

    walk(value)
    node, key = generator.choice(places)
    if isinstance(node, dict) and generator.random() < 0.2:
        node[generator.choice(("x", key + "x"))] = node.pop(key)
    else:
        node[key] = generator.choice(JUNK)
    return value


def sign(document, arrays):
    document["arrays"] |= {"bytes": len(arrays), "sha256": hashlib.sha256(arrays).hexdigest()}
    return resign(document)


def resign(document):
    try:
        document["check"] = checksum({k: v for k, v in document.items() if k not in ("format", "version", "check")})
    except (TypeError, ValueError):
        document["check"] = "none possible"
    return json.dumps(document).encode()


def attempt(run, model, optimizer, good, before, outcomes):
    """Loads, and looks that it was all or nothing."""
    try:
        checkpoint = find(run / f"{STEP}.json")
        load_into(checkpoint, model, optimizer)
    except CheckpointError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 1000
        assert whole_state(model, optimizer) == before
        outcomes["refused"] += 1
        return
    assert digest(model.state_dict()) == digest(checkpoint.load(MODEL))
    load_into(good, model, optimizer)  # put right for the next one
    outcomes["loaded"] += 1
    try:
        State.from_checkpoint(checkpoint)
    except CheckpointError:
        outcomes["loop state refused"] += 1


def whole_state(model, optimizer):
    state = optimizer.state_dict()
    arrays = {name: value for name, value in state.items() if hasattr(value, "tobytes")}
    return digest(model.state_dict()), model.rng_state(), digest(arrays), state["lr"], state["steps"]


def test_damaged_checkpoints(run, tmp_path):
    generator = random.Random(7)
    shutil.copytree(run, tmp_path / "good")
    good = find(tmp_path / "good", "latest")
    arrays_path, json_path = run / f"{STEP}.safetensors", run / f"{STEP}.json"
    arrays, text = arrays_path.read_bytes(), json_path.read_bytes()
    model = tiny_model()
    optimizer = Adam(model.named_parameters(), lr=0.5)
    load_into(good, model, optimizer)
    before = whole_state(model, optimizer)
    outcomes = {kind: collections.Counter() for kind in ("arrays", "signed arrays", "text", "signed values")}
    for _ in range(CASES):
        for kind, counter in outcomes.items():
            new_arrays, new_text = arrays, text
            if kind == "arrays":
                new_arrays = damaged(arrays, generator)
            elif kind == "signed arrays":
                new_arrays = damaged(arrays, generator)
                new_text = sign(json.loads(text), new_arrays)
            elif kind == "text":
                new_text = damaged(text, generator)
            else:
                new_text = resign(replaced(json.loads(text), generator))
            arrays_path.write_bytes(new_arrays)
            json_path.write_bytes(new_text)
            if (new_arrays, new_text) != (arrays, text):
                attempt(run, model, optimizer, good, before, counter)
    # what nobody signed again is never taken, unless the JSON still says the same
    assert outcomes["arrays"]["loaded"] == 0
    for kind, counter in outcomes.items():
        assert counter["refused"] > CASES / 4, kind
    # the signed ones do get past the checksums: changed weights are weights, a changed metric is a metric
    assert outcomes["signed arrays"]["loaded"] > CASES / 50
    assert outcomes["signed values"]["loaded"] > CASES / 50


def test_models_made_of_damaged_settings(run):
    generator = random.Random(8)
    json_path = run / f"{STEP}.json"
    text = json_path.read_bytes()
    made = 0
    for _ in range(CASES):
        document = json.loads(text)
        replaced(document["model"], generator)
        json_path.write_bytes(resign(document))
        try:
            model, checkpoint = load_model(json_path)
            assert digest(model.state_dict()) == digest(checkpoint.load(MODEL))
            made += 1
        except CheckpointError as error:
            assert "\n" not in str(error)
    assert 0 < made < CASES / 2


def test_the_folder_is_looked_at_with_the_same_suspicion(run):
    """Names that are nearly ours, folders and links in the place of files."""
    os.mkdir(run / "step-00000099.json")
    with pytest.raises(CheckpointError, match="not an ordinary file"):
        find(run)
    os.rmdir(run / "step-00000099.json")
    os.symlink("nowhere", run / "step-00000098.json")
    with pytest.raises(CheckpointError, match="does not exist"):
        find(run)
    os.remove(run / "step-00000098.json")
    for name in (
        "step-1.json",
        "step-0000000x.json",
        "step-000000009.json",
        f"step-{'9' * 30}.json",
        "step-٣٣٣٣٣٣٣٣.json",
    ):
        (run / name).write_text("{}")
    assert find(run, "latest").step == 3
