"""The four floors, what an import costs, and the packages that must not be mistaken for ours."""

import ast
import os
import re
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


def imported_modules(file: Path, package: str) -> set[str]:
    """Dotted names of what a file imports: of modules, and of whatever is taken out of them. `package` is its own."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*parents, *([node.module] if node.module else [])])
            names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return names


@pytest.mark.parametrize("level", range(3), ids=FLOORS[:3])
def test_a_lower_floor_never_imports_a_higher_one(level):
    higher = set(FLOORS[level + 1 :])
    files = list((ROOT / FLOORS[level]).rglob("*.py"))
    assert files
    for file in files:
        assert not imported_packages(file) & higher, file


# a path, an import, a name given to importlib or Path, the command
LESSONS = re.compile(r"\blessons[/\\.]\w|\b(?:import|from) lessons\b|[\"']lessons[\"']|\bminitransformer lessons\b")


@pytest.mark.parametrize("floor", FLOORS[:3])
def test_a_lower_floor_does_not_name_the_lessons(floor):
    """Neither by import nor by path, nor by their command, which is there only where lessons are installed."""
    files = [file for file in (ROOT / floor).rglob("*") if file.suffix in (".py", ".md", ".cu", ".cuh", ".h", ".cpp")]
    assert files
    for file in files:
        found = LESSONS.search(file.read_text(encoding="utf-8"))
        assert not found, f"{file.relative_to(ROOT)}: {found[0]}"


def test_what_people_read_never_imports_what_people_use():
    """minitransformer without app imports nothing of app; `python -m minitransformer` is the command line's door."""
    core = [file for file in (ROOT / "minitransformer").rglob("*.py") if "app" not in file.relative_to(ROOT).parts]
    assert len(core) > 10
    for file in core:
        if file.name != "__main__.py":
            names = imported_modules(file, ".".join(file.relative_to(ROOT).parent.parts))
            used = {name for name in names if (name + ".").startswith("minitransformer.app.")}
            assert not used, f"{file.relative_to(ROOT)}: {', '.join(sorted(used))}"


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
