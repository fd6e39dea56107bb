"""The command line as a user meets it: in a process of its own."""

import json
import os
import subprocess
import sys

import pytest

from minitransformer import __version__


def minitransformer(*arguments: str, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "minitransformer", *arguments]
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_without_a_command_it_explains_itself():
    result = minitransformer()
    assert result.returncode == 0 and "commands:" in result.stdout and "backends" in result.stdout


def test_the_version():
    result = minitransformer("--version")
    assert (result.returncode, result.stdout) == (0, f"minitransformer {__version__}\n")


@pytest.mark.parametrize("arguments", [["generate"], ["classify", "--model", "nowhere"], ["gradcheck", "exp"]])
def test_a_backend_that_the_environment_chose_wrongly(arguments, tmp_path):
    """The variable is blamed, not a file: there is no model here either."""
    result = minitransformer(*arguments, cwd=tmp_path, env={**os.environ, "MINITRANSFORMER_BACKEND": "foo"})
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    assert "MINITRANSFORMER_BACKEND=foo in the environment: unknown backend 'foo'; available here:" in result.stderr


def test_backends_lists_what_works_and_why_the_rest_does_not():
    result = minitransformer("backends")
    assert result.returncode == 0
    assert "numpy" in result.stdout and "in use" in result.stdout
    states = json.loads(minitransformer("backends", "--json").stdout)["backends"]
    for state in states.values():
        assert state["available"] == (state["reason"] is None)


def test_gradcheck_prints_a_table_and_succeeds():
    result = minitransformer("gradcheck", "--backend", "numpy", "softmax", "layer_norm")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("backend numpy") and "worst error" in lines[1]
    assert lines[-1] == "2 rules right, 0 wrong"
    columns = {line.index("e-") for line in lines if "e-" in line and "1e-7" not in line}
    assert len(columns) == 1, "the numbers stand below each other"


def test_gradcheck_takes_names_in_any_case():
    result = minitransformer("gradcheck", "--backend", "numpy", "reshape", "Where", "SoftMax")
    assert result.returncode == 0, result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()[3:6]] == ["Reshape", "Where", "softmax"]


def test_gradcheck_names_its_default():
    told = " ".join(minitransformer("gradcheck", "--help").stdout.split())
    assert "else all that work here, one after the other" in told and "else numba" not in told


def test_gradcheck_fails_when_a_rule_is_wrong():
    """The exit code must say so, and the message must name the rule."""
    code = """
import sys
from autograd.operators import Tanh
Tanh.backward = lambda self, dy: dy * (1 - self.saved[0])
from minitransformer.app.cli.main import main
sys.exit(main(["gradcheck", "--backend", "numpy", "tanh", "exp"]))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert "FAILED" in result.stdout and "1 rules right, 1 wrong" in result.stdout
    assert "numpy: tanh (shape ())" in result.stderr and "analytic" in result.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["gradcheck", "--backend", "tpu"], "unknown backend 'tpu'; available here: numpy"),
        (["gradcheck", "soft_max"], "no rule is called 'soft_max'"),
        (["backends", "--colour"], "unrecognized arguments: --colour"),
    ],
)
def test_mistakes_end_in_one_line(arguments, message):
    result = minitransformer(*arguments)
    assert result.returncode == 2
    assert message in result.stderr and result.stderr.count("\n") == 1 and "Traceback" not in result.stderr
