"""A school: an empty working folder with lessons of its own; and a claim as records have it."""

import pytest

import kernels
from lessons.harness import runner
from tests.lessons.conftest import NO_FIGURES


@pytest.fixture
def school(tmp_path, monkeypatch):
    """An empty working folder, and lessons of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "SCRIPTS", tmp_path / "lessons")
    monkeypatch.setenv("MINITRANSFORMER_BACKEND", "numpy")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("PYTHONPATH", NO_FIGURES)
    with kernels.use("numpy"):  # what a command sets ends with the test
        yield tmp_path


@pytest.fixture
def a_claim():
    """a_claim(name, verdict, caught): one control for each of `caught`."""

    def claim(name="sky", verdict="proved", caught=(True, True), lesson="01_tiny"):
        controls = [{"control": f"c{i}", "what": "broken", "caught": c, "by": "a check"} for i, c in enumerate(caught)]
        return {
            "claim": name, "lesson": lesson, "line": 3, "statement": "The sky is <blue> & wide. " * 9, "seconds": 1.0,
            "verdict": verdict, "evidence": "3 of 3 looks", "checks": ["3 of 3"], "figures": [], "controls": controls,
            "events": [{"check": "3 of 3"}, {"note": "a < b"}, {"figure": "01_sky.png", "caption": "the sky"}],
        }  # fmt: skip

    return claim
