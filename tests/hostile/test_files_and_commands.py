"""Mutated checkpoints under every command, and random command lines in odd environments: exit code 0, 1 or 2, at most
one line about it, never a traceback."""

import hashlib
import json
import os
import shutil

import pytest
from command_support import TINY, command, prepare

import kernels
from minitransformer.app.cli.main import COMMANDS, main, parser_for
from minitransformer.app.training.checkpoints.document import checksum

FILES = 250
LINES = 80
ENVIRONMENTS = 16
JUNK = [
    None, True, 0, -1, 2**31, 2**63, 10**30, 0.5, 1e308, "", "x", "\x1b[2J", "é" * 50, [], {}, [[]], {"a": 1},
]  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "text.txt").write_text("a small text .\nanother small text .\nthe last text .\n" * 3)
    (folder / "labels.tsv").write_text("text\tlabel\n" + "".join(f"text {i}\t{'ab'[i % 2]}\n" for i in range(8)))
    (folder / "pairs.tsv").write_text("".join(f"one {i}\tun {i}\n" for i in range(8)))
    short = ("--steps", "2", "--tokenizer", "words", "--max-len", "8", *TINY)
    trained = (
        ("pretrain", "text.txt", *short),
        ("finetune", "labels.tsv", "--scratch", *short),
        ("train-translator", "pairs.tsv", *short),
    )
    prepare(folder, *trained)
    return folder


USES = {
    "pretrain": [["generate", "a", "--greedy"], ["evaluate", "text.txt", "--model", "runs/pretrain"],
                 ["pretrain", "text.txt", "--steps", "3", "--tokenizer", "words", "--max-len", "8", *TINY, "--resume"]],
    "finetune": [["classify", "a text"], ["evaluate", "labels.tsv", "--model", "runs/finetune"]],
    "translator": [["translate", "one 1"], ["train-translator", "pairs.tsv", "--steps", "3", "--tokenizer", "words",
                                             "--max-len", "8", *TINY, "--resume"]],
}  # fmt: skip


def replace_something(value, generator):
    """The same JSON with one value, anywhere, turned into junk or removed."""
    places = []

    def walk(node):
        for key, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
            places.append((node, key))
            walk(child)

    walk(value)
    node, key = generator.choice(places)
    if isinstance(node, dict) and generator.random() < 0.2:
        del node[key]
    else:
        node[key] = generator.choice(JUNK)


def sign(document, arrays):
    if isinstance(document.get("arrays"), dict):
        document["arrays"] |= {"bytes": len(arrays), "sha256": hashlib.sha256(arrays).hexdigest()}
    entries = {name: value for name, value in document.items() if name not in ("format", "version", "check")}
    return json.dumps(document | {"check": checksum(entries)}).encode()


def attempt(arguments, capsys):
    """The exit code; whatever is wrong has been said in one line."""
    capsys.readouterr()
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = stop.code
    error = capsys.readouterr().err
    assert code in (0, 1, 2), (arguments, code, error)
    assert "Traceback" not in error
    if code == 2:
        assert error.splitlines()[-1].startswith("minitransformer"), (arguments, error)
    return code


def test_mutated_checkpoints_under_every_command(runs, generator, share, capsys, monkeypatch, record_property):
    """Signed again after the damage, so that the checks behind the checksums are met."""
    monkeypatch.chdir(runs)
    monkeypatch.setattr("sys.stdin", None)
    monkeypatch.setattr("minitransformer.app.training.run.draw_curve", lambda *_: None)
    shutil.copytree("runs", "good")
    codes = []
    with kernels.use("numpy"):
        for number in range(share(FILES)):
            kind = generator.choice([*USES])
            shutil.rmtree("runs", ignore_errors=True)
            shutil.copytree("good", "runs")
            for name in os.listdir(f"runs/{kind}"):
                if name.endswith(".json"):
                    path = os.path.join("runs", kind, name)
                    with open(path.removesuffix("json") + "safetensors", "rb") as file:
                        arrays = bytearray(file.read())
                    with open(path, "rb") as file:
                        document = json.loads(file.read())
                    if number % 3:
                        replace_something(document, generator)
                    else:  # numbers among the weights and moments: NaN, infinity, anything
                        place = generator.randrange(len(arrays) // 2, len(arrays) - 4) & ~3
                        arrays[place : place + 4] = generator.choice((b"\0\0\xc0\x7f", generator.randbytes(4)))
                        with open(path.removesuffix("json") + "safetensors", "wb") as file:
                            file.write(arrays)
                    with open(path, "wb") as file:
                        file.write(sign(document, bytes(arrays)))
            codes.append(attempt(generator.choice(USES[kind]), capsys))
    shutil.rmtree("runs")
    os.rename("good", "runs")
    record_property("hostile", f"mutated checkpoints: {len(codes)}, {codes.count(0)} taken, {codes.count(2)} refused")
    assert codes.count(2) > len(codes) / 5


def random_line(generator):
    """A command with some of its flags, sensible values and others mixed."""
    name = generator.choice([name for name in COMMANDS if name not in ("bench", "gradcheck", "data")])
    flags = [a.option_strings[-1] for a in parser_for(name)._actions if a.option_strings and a.dest != "help"]
    values = [
        "0", "1", "2", "-1", "1e20", "nan", "", "x", "text.txt", "labels.tsv", "pairs.tsv", "runs/pretrain", "numpy",
        "\x1b[2J", "9" * 30, "../..", "/dev/null", "\udcff",
    ]  # fmt: skip
    line = [name]
    for _ in range(generator.randrange(4)):
        line.append(generator.choice(flags) if generator.random() < 0.6 else generator.choice(values))
        if generator.random() < 0.7:
            line.append(generator.choice(values))
    # bounded: no line may train for long or write to the good runs
    if name in ("pretrain", "finetune", "train-translator"):
        line += ["--steps", "1", "--out", "new", *TINY, "--max-len", "8", "--texts", "30"]
    return line


def test_random_command_lines(runs, generator, share, capsys, monkeypatch, record_property, tmp_path):
    monkeypatch.chdir(runs)
    monkeypatch.setenv("MINITRANSFORMER_CACHE", str(tmp_path))  # no model of others is here,
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # and none is fetched
    monkeypatch.setattr("sys.stdin", None)
    codes = []
    for _ in range(share(LINES)):
        with kernels.use("numpy"):
            codes.append(attempt(random_line(generator), capsys))
        shutil.rmtree("new", ignore_errors=True)
    record_property(
        "hostile", f"random command lines: {len(codes)}, {codes.count(0)} carried out, {codes.count(2)} refused"
    )
    assert codes.count(0) and codes.count(2)


ODD = {
    "COLUMNS": ["99999999999999999999", "-1", "x", "1"], "LINES": ["x"], "CXX": ["'", "nothing-of-that-name", '"'],
    "NUMBA_THREADING_LAYER": ["nonsense"], "NUMBA_NUM_THREADS": ["x", "0", "1"], "HOME": ["/nowhere", ""],
    "XDG_CACHE_HOME": ["relative", "/proc/nowhere"], "TMPDIR": ["/nowhere"], "LC_ALL": ["C", "xx_XX"],
    "MINITRANSFORMER_BACKEND": ["nonsense", "numpy"], "MINITRANSFORMER_CACHE": ["/proc/nowhere", ""],
    "PYTHONIOENCODING": ["ascii", "latin-1"], "TERM": ["", "dumb"], "MPLCONFIGDIR": ["/proc/nowhere"],
}  # fmt: skip
SIMPLE = [
    ["params"], ["backends"], ["generate", "a", "--greedy"], ["classify", "a"], ["translate", "one 1"], ["data"],
    ["claims"], ["evaluate", "text.txt", "--model", "runs/pretrain"], ["--help"], ["generate", "--help"],
]  # fmt: skip


def test_odd_environments(runs, generator, share, record_property):
    codes = []
    for _ in range(share(ENVIRONMENTS)):
        names = generator.sample([*ODD], 4)
        odd = {name: generator.choice(ODD[name]) for name in names}
        arguments = generator.choice(SIMPLE)
        backend = odd.pop("MINITRANSFORMER_BACKEND", "numpy")
        with pytest.MonkeyPatch.context() as patch:
            for name, value in odd.items():
                patch.setenv(name, value)
            result = command(runs, *arguments, backend=backend)
        where = (arguments, odd, backend, result.stderr)
        assert result.returncode in (0, 2) and "Traceback" not in result.stderr, where
        said = [x for x in result.stderr.splitlines() if not x.startswith(("using", "note:", "seed", "Numba kernels"))]
        assert len(said) <= 1, where
        codes.append(result.returncode)
    record_property("hostile", f"odd environments: {len(codes)}, {codes.count(0)} carried out")
    assert codes.count(0)
