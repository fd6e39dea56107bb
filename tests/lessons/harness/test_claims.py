"""The records of lessons: whether one is out of date, and how far its lesson came."""

import pytest

from lessons.harness import claims


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project in small, with a lesson about the sky."""
    monkeypatch.setattr(claims, "ROOT", tmp_path)
    for name in ("kernels/gpu/sky.cu", "autograd/sky.py", "minitransformer/models/sky.py", "lessons/harness/trial.py",
                 "lessons/sequence_layers.py", "lessons/faults/sky.py", "lessons/figures/sky.py", "lessons/01_sky.py",
                 "lessons/02_sea.py", "lessons/figures/sea.py", "lessons/results/runs.py", "lessons/evidence/sky.py",
                 "lessons/evidence/sea.py"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("colour = 'blue'\n")
    return tmp_path


@pytest.mark.parametrize(
    "name, matters",
    [
        ("kernels/gpu/sky.cu", True), ("autograd/sky.py", True), ("minitransformer/models/sky.py", True),
        ("lessons/harness/trial.py", True), ("lessons/sequence_layers.py", True), ("lessons/faults/sky.py", True),
        ("lessons/figures/sky.py", True), ("lessons/evidence/sky.py", True), ("lessons/01_sky.py", True),
        ("lessons/02_sea.py", False), ("lessons/figures/sea.py", False), ("lessons/evidence/sea.py", False),
        ("lessons/results/runs.py", False),
    ],
)  # fmt: skip
def test_a_record_is_out_of_date_when_what_its_lesson_uses_has_changed(project, name, matters):
    def key():
        return claims.sources_key(project / "lessons" / "01_sky.py", "numpy", False, None)

    before = key()
    (project / name).write_text("colour = 'red'\n")
    assert (key() != before) == matters


@pytest.mark.parametrize(
    "finished, verdicts, caught, state",
    [
        (True, ["proved", "refuted"], [True], "passed"),
        (True, ["proved", "FAILED"], [True], "failed"),
        (True, ["proved"], [True, False], "failed"),
        (False, ["proved", "FAILED"], [True], "failed"),
        (False, ["proved"], [True], "not finished"),
        (False, [], [], "not finished"),
    ],
)
def test_the_state_of_a_lesson(a_claim, finished, verdicts, caught, state):
    tried = [a_claim(verdict=verdict, caught=caught) for verdict in verdicts]
    assert claims.state({"finished": finished, "claims": tried}) == state
