"""The four floors, what an import costs, and the packages that must not be mistaken for ours."""

import ast
import os
import re
import subprocess
import sys
from itertools import takewhile
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


def imported_modules(file: Path, root: Path = ROOT) -> set[str]:
    """Every module that a file may import, in dotted form; of `from a import b` both a and a.b, since b may be one."""
    names = set()
    folder = file.relative_to(root).parts[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = folder[: len(folder) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return names


# Which folders of kernels/ the files of each may import from. gpu/ and emulator/ know nothing of each other: what a
# kernel file and a launch are lies in cuda/, below both. The specification stands alone.
MAY_IMPORT = {
    "reference": set(),
    "cpu": {"reference"},
    "cuda": set(),
    "gpu": {"cuda", "reference"},
    "emulator": {"cuda"},
}


def forbidden_imports(folder: str, root: Path = ROOT) -> list[str]:
    """`file: module` for every import from another folder of kernels/ that MAY_IMPORT does not allow."""
    forbidden = {f"kernels.{other}" for other in MAY_IMPORT.keys() - MAY_IMPORT[folder] - {folder}}
    return [
        f"{file.relative_to(root)}: {module}"
        for file in (root / "kernels" / folder).rglob("*.py")
        for module in sorted(imported_modules(file, root))
        if any(f"{module}.".startswith(f"{other}.") for other in forbidden)
    ]


def test_every_folder_of_kernels_has_its_place():
    assert {path.parent.name for path in (ROOT / "kernels").glob("*/__init__.py")} == set(MAY_IMPORT)


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_tiers_import_only_what_lies_below_them(folder):
    assert not forbidden_imports(folder)


@pytest.mark.parametrize(
    "line",
    [
        "import kernels.emulator.device",
        "from kernels.emulator import device",
        "from kernels import emulator",
        "from ..emulator import device",
        "from .. import emulator",
        "def later():\n    from kernels.emulator.device import run",
    ],
)
def test_a_forbidden_import_is_found_however_it_is_written(tmp_path, line):
    (tmp_path / "kernels" / "gpu").mkdir(parents=True)
    file = tmp_path / "kernels" / "gpu" / "grid.py"
    file.write_text("import numpy\nfrom kernels.cuda.launcher import launch\nfrom kernels import contract\n")
    assert not forbidden_imports("gpu", tmp_path)
    file.write_text(f"{line}\n")
    assert "kernels/gpu/grid.py: kernels.emulator" in " ".join(forbidden_imports("gpu", tmp_path))


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
            names = imported_modules(file)
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


def the_map() -> dict[str, str]:
    """What CONTRIBUTING.md says of each floor: its lines, from the one that begins with its name to the next floor."""
    tree = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## The house")[1].split("```")[1]
    floors = re.split(r"^(?=\w+/)", tree.lstrip(), flags=re.MULTILINE)
    return {floor.partition("/")[0]: floor for floor in floors if floor}


def test_the_map_names_every_file_that_people_read():
    """All files of autograd and of minitransformer's own folder, those of its two small folders without their ending,
    every folder, and what lies in app/ itself."""
    package, said = ROOT / "minitransformer", the_map()
    readable = [*package.glob("[!_]*.py"), *(package / "app").glob("[!_]*.py")]
    folders = [*package.glob("[!_]*/"), *(package / "app").glob("[!_]*/")]
    names = [file.name for file in readable] + [f"{folder.name}/" for folder in folders if any(folder.glob("*.py"))]
    assert {"config.py", "ranks.py", "models/", "training/"} <= set(names)
    assert [name for name in names if not re.search(rf"\b{re.escape(name)}", said["minitransformer"])] == []
    for folder in ("models", "decoding"):
        own = said["minitransformer"].split(f"  {folder}/")[1].split("\n  ")[:6]
        lines = [own[0], *takewhile(lambda line: line.startswith("   "), own[1:])]
        files = [file.stem for file in (package / folder).glob("[!_]*.py")]
        assert files and [name for name in files if not re.search(rf"\b{name}\b", " ".join(lines))] == [], folder
    rules = [file.name for file in (ROOT / "autograd").glob("[!_]*.py")]
    assert rules and [name for name in rules if not re.search(rf"\b{name}\b", said["autograd"])] == []


def test_the_map_names_nothing_that_is_gone():
    for floor, text in the_map().items():
        there = {file.name for file in (ROOT / floor).rglob("*.py")}
        assert set(re.findall(r"\b\w+\.py\b", text)) <= there, floor
