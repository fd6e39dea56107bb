"""What the tests of commands share: tiny settings, a folder to run in, and commands that must succeed or refuse."""

import io
import os
import shutil
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import kernels
from minitransformer.app.cli.main import main
from minitransformer.app.training.checkpoints import read

TINY = ("--d-model", "16", "--n-heads", "2", "--n-layers", "1", "--d-ff", "16", "--batch", "4")
SHORT = ("--tokenizer", "words", "--max-len", "12", *TINY)
WORDS = "the cat sees a dog near red house and little tree under old bridge with green bird".split()  # noqa: SIM905


def write_texts(folder) -> list[str]:
    """text.txt, labels.tsv (a word tells good from bad) in a folder, which a tiny model can learn; the plain lines."""
    lines = [" ".join(WORDS[(i + j) % len(WORDS)] for j in range(3 + i % 5)) for i in range(40)]
    opinions = [f"{word} {line}" for line in lines[:4] for word in ("nice", "poor")]
    (folder / "text.txt").write_text("\n".join(lines + opinions) + "\n")
    rows = [f"{('poor', 'nice')[i % 2]} {line}\t{('bad', 'good')[i % 2]}" for i, line in enumerate(lines)]
    (folder / "labels.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    return lines


# ---------------------------------------------------------------------------------------------------- a process


# For a process that trains a small model: no learning curve, since drawing takes as long as the rest, and one thread
# for BLAS, since a second one would only wait for work and take a core from the other tests.
FRUGAL = {"PYTHONPATH": str(Path(__file__).with_name("without_pictures")), "OPENBLAS_NUM_THREADS": "1"}


def start(folder, *arguments: str, backend: str = "numpy", module: str = "minitransformer", **options):
    """On NumPy: nothing to compile, and small models need no more."""
    environment = {**os.environ, **FRUGAL, "MINITRANSFORMER_BACKEND": backend}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, **options,
    )  # fmt: skip


def command(folder, *arguments: str, stdin: str = "", **options) -> subprocess.CompletedProcess:
    process = start(folder, *arguments, **options)
    out, error = process.communicate(stdin)
    return subprocess.CompletedProcess(arguments, process.returncode, out, error)


def succeeds(folder, *arguments: str, stdin: str = "", **options) -> str:
    result = command(folder, *arguments, stdin=stdin, **options)
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    return result.stdout


# ---------------------------------------------------------------------------------------------------- this process


def command_here(folder, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess:
    """As `command`, without a process of its own, which takes a second to start and to build the built-in language."""
    out, error = io.StringIO(), io.StringIO()
    keyboard = mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
    with chdir(folder), kernels.use("numpy"), redirect_stdout(out), redirect_stderr(error), keyboard:
        try:
            code = main(list(arguments))
        except SystemExit as stop:  # argparse
            code = stop.code
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), error.getvalue())


def succeeds_here(folder, *arguments: str, stdin: str = "") -> str:
    result = command_here(folder, *arguments, stdin=stdin)
    assert result.returncode == 0, result.stderr
    return result.stdout


def prepare(folder, *commands, main=main) -> None:
    """Runs commands in a folder, once for many tests."""
    with chdir(folder), kernels.use("numpy"):
        for arguments in commands:
            assert main(list(arguments)) == 0


def inside(made, monkeypatch):
    """The body of a fixture: a test runs in the folder that was prepared, without a keyboard."""
    monkeypatch.chdir(made)
    monkeypatch.setattr("sys.stdin", None)
    with kernels.use("numpy"):
        yield made


def says(capsys, *arguments: str, main=main) -> str:
    capsys.readouterr()
    code = main(list(arguments))
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def refused(capsys, *arguments: str, main=main, program="minitransformer") -> str:
    """The one line with which a command refuses."""
    capsys.readouterr()
    try:
        code = main(list(arguments))
    except SystemExit as stop:  # argparse
        code = stop.code
    error = capsys.readouterr().err
    lines = [line for line in error.splitlines() if not line.startswith(("using ", "note: "))]
    assert code == 2 and len(lines) == 1, error
    assert lines[0].startswith(f"{program} {arguments[0]}: ")
    return lines[0]


def latest(folder) -> str:
    return max(str(path) for path in folder.glob("step-*.json"))


def resumed_bytes(capsys, folder, name: str, *arguments: str, main=main) -> tuple[bytes, bytes, int]:
    """The last weights of a run, those of its copy that lost its last checkpoint and was resumed, and where."""
    says(capsys, *arguments, "--out", name, main=main)
    shutil.copytree(folder / name, folder / f"{name}-again")
    last = os.path.basename(latest(folder / name)).removesuffix(".json")
    for suffix in ("json", "safetensors"):
        os.remove(folder / f"{name}-again" / f"{last}.{suffix}")
    batch = read(latest(folder / f"{name}-again")).batch
    says(capsys, *arguments, "--out", f"{name}-again", "--resume", main=main)
    one, other = ((folder / run / f"{last}.safetensors").read_bytes() for run in (name, f"{name}-again"))
    return one, other, batch
