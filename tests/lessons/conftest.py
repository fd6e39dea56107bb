"""What the tests of the lessons share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NO_FIGURES = str(Path(__file__).parent / "no_figures")  # as PYTHONPATH: half the time of a lesson that draws nothing


def pytest_collection_modifyitems(config, items):
    """The browser tests need a built book: they run when asked for."""
    if "browser" not in (config.getoption("-m") or ""):
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(pytest.mark.skip(reason="opens the book in a browser; run it by: make test-browser"))


def run_python(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    """Python in a process of its own, with everything it says."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


@pytest.fixture
def python():
    return run_python


@pytest.fixture
def write_lesson(tmp_path):
    """Writes a small lesson: `write_lesson("trial body", control="engine.replace(...)")`."""

    def write(body: str, control: str = "engine.replace(world, 'colour', lambda old: 'red')", name="01_tiny", more=""):
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        folder = tmp_path / "lessons"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(
            f"""# %% [markdown]
# # 1. A tiny lesson
# The sky is put on trial.

# %%
import types

import matplotlib.pyplot as plt

from lessons.harness.trial import Lesson

lesson = Lesson(__file__)
world = types.SimpleNamespace(colour="blue")
print("before any trial")


def repainted(engine):
    "somebody painted the sky"
    {control}


# %%
@lesson.trial("sky-{name[:2]}", "The sky is blue.", controls=[repainted])
def sky(trial):
{lines}

# %%
{more}
lesson.finish()
""",
            encoding="utf-8",
        )
        return folder / f"{name}.py"

    return write
