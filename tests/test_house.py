"""The four floors, what an import costs, and the packages that must not be mistaken for ours."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = ["kernels", "autograd", "minitransformer", "lessons"]


def imported_packages(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("level", range(3), ids=FLOORS[:3])
def test_a_lower_floor_never_imports_a_higher_one(level):
    higher = set(FLOORS[level + 1 :])
    files = list((ROOT / FLOORS[level]).rglob("*.py"))
    assert files
    for file in files:
        assert not imported_packages(file) & higher, file


def run(code: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True
    )


def test_import_is_light():
    """No compiled code, no plotting, no GPU library. The time is printed, not asserted: machines differ."""
    code = """
import sys, time
start = time.perf_counter()
import minitransformer
print(time.perf_counter() - start)
print(sorted(sys.modules.keys() & {"numba", "llvmlite", "matplotlib", "cupy", "sentencepiece", "torch", "tqdm"}))
"""
    seconds, heavy = run(code).stdout.splitlines()
    print(f"import minitransformer: {float(seconds):.2f} s")
    assert heavy == "[]"


@pytest.mark.parametrize("name", ["kernels", "autograd"])
@pytest.mark.parametrize("victim", ["minitransformer", "autograd"])
def test_a_foreign_package_is_named_with_a_remedy(tmp_path, name, victim):
    if name == victim:
        return  # the foreign package itself; nothing of ours is there to complain
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("grad = None\n")
    result = run(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {victim}")
    assert result.returncode != 0
    last = result.stderr.strip().splitlines()[-1]
    assert f"the package '{name}' that Python found" in last and f"pip uninstall {name}" in last
    assert str(tmp_path) in last


def imported_modules(file: Path) -> set[str]:
    """Full names; `from a.b import c` may mean the module a.b.c, too."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def test_nothing_below_the_command_line_imports_from_it():
    """Only what starts it, python -m minitransformer, may."""
    cli, package = "minitransformer.app.cli", ROOT / "minitransformer"
    files = [
        file for file in package.rglob("*.py")
        if not file.is_relative_to(package / "app" / "cli") and file != package / "__main__.py"
    ]  # fmt: skip
    assert files
    for file in files:
        assert not any(name == cli or name.startswith(f"{cli}.") for name in imported_modules(file)), file


def test_tasks_are_asked_by_types():
    """What a task is asked for is a dataclass whose fields a checker knows, never `options: Any`."""
    for file in (ROOT / "minitransformer" / "app" / "tasks").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.arg) and node.arg in ("options", "arguments") and node.annotation is not None:
                assert ast.unparse(node.annotation) not in ("Any", "argparse.Namespace"), f"{file}:{node.lineno}"
