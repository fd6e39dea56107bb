"""What a wheel has, and what it leaves to a clone."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Python without the editable install of this environment, as if only the wheel were there
WITHOUT_CLONE = """
import sys
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in repr(finder).lower()]
sys.path = [path for path in sys.path if path not in ("", {root!r}) and "editable" not in path]
from minitransformer.app.cli.main import main
import minitransformer
assert minitransformer.__file__.startswith({installed!r}), minitransformer.__file__
sys.exit(main({arguments!r}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The project, built from a copy (a build leaves things behind) and unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("kernels", "autograd", "minitransformer", "lessons"):
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "source")
    code = f"from setuptools import build_meta; build_meta.build_wheel({str(folder)!r})"
    result = subprocess.run([sys.executable, "-c", code], cwd=folder / "source", capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "installed")
    return folder / "installed"


def run(installed, *arguments):
    code = WITHOUT_CLONE.format(root=str(ROOT), installed=str(installed), arguments=list(arguments))
    environment = os.environ | {"PYTHONPATH": str(installed), "MINITRANSFORMER_BACKEND": "numpy"}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=installed, env=environment, capture_output=True, text=True, timeout=100)


@pytest.mark.slow
def test_a_wheel_has_three_packages(installed):
    packages = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert packages == {"kernels", "autograd", "minitransformer"}
    assert (installed / "kernels" / "gpu" / "attention.cu").exists(), "the CUDA files are data of the package"
    assert (installed / "minitransformer" / "py.typed").exists()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["lessons", "claims", "exercise"])
def test_commands_of_a_clone_say_so(installed, command):
    result = run(installed, command)
    assert result.returncode == 2, result.stderr
    assert result.stderr.count("\n") == 1 and "install from a clone" in result.stderr
    assert command not in [line.split()[0] for line in run(installed, "--help").stdout.splitlines() if line.strip()]


@pytest.mark.slow
def test_other_commands_work(installed):
    result = run(installed, "params", "--preset", "lab")
    assert result.returncode == 0, result.stderr
    assert "21,018,401" in result.stdout
