"""Find the broken engine: the run shows every symptom and does not name the fault."""

from pathlib import Path

import pytest

from lessons.harness import blind
from tests.lessons.harness.test_trial import GOOD, SHOW, run

LESSONS = Path(__file__).parents[3] / "lessons"
SCRIPTS = sorted(LESSONS.glob("[0-9][0-9]_*.py"))
TWICE = "trial.check(world.colour == 'blue', 'first')\ntrial.check(1 + 1 == 2, 'second')\n" + GOOD
OWN = "controls=[repainted]"  # a control that the script makes itself
SHARED = "controls=[faults.scale_off]"


@pytest.fixture
def tiny(write_lesson):
    """A lesson about the engine's own attention, with a control of lessons.faults."""

    def write(body, more=""):
        script = write_lesson(body, more=more)
        text = script.read_text().replace(OWN, SHARED).replace("import types\n", IMPORTS)
        script.write_text(text, encoding="utf-8")
        return script

    return write


IMPORTS = """import types

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons import faults
"""
ATTENTION = "q = Tensor(np.arange(8.0).reshape(1, 1, 2, 4) / 8)\nwhole = F.attention(q, q, q).numpy()\n"
ATTENTION += "scaled = F.attention(q, q, q, scale=0.5).numpy()\n"


def test_every_check_is_run_and_nothing_is_named(python, write_lesson, tmp_path):
    result = run(python, write_lesson(TWICE), tmp_path, "--blind")
    assert result.returncode == 1, result.stderr
    for line in ("FAILED  first", "ok      second", "FAILED  the sky is red"):
        assert line in result.stdout
    before, question, after = result.stdout.partition("Which of these is it?")
    assert question and "a)  somebody painted the sky" in after
    assert "repainted" not in result.stdout and "painted" not in before
    assert "engine 1 of 1: 2 of 3 checks failed" in before
    assert not list((tmp_path / "build").rglob("*.json")), "a broken engine leaves no record"


def test_the_engine_is_broken_from_the_first_line_on(python, tiny, tmp_path):
    body = ATTENTION + "trial.check(np.allclose(whole, scaled), 'scaled')\nreturn 'proved', 'it is 1'"
    more = ATTENTION + "print('outside of trials:', np.allclose(whole, scaled))"
    sound = run(python, tiny(body, more), tmp_path)
    assert sound.returncode == 0 and "outside of trials: True" in sound.stdout, sound.stdout + sound.stderr
    result = run(python, tiny(body, more), tmp_path, "--blind", "1")
    assert result.returncode == 1 and "outside of trials: False" in result.stdout, result.stderr
    assert "scale-off" not in result.stdout


def test_figures_are_drawn_beside_those_of_the_sound_engine(python, write_lesson, tmp_path):
    result = run(python, write_lesson(GOOD, more=SHOW), tmp_path, "--blind")
    assert [file.name for file in (tmp_path / "build").rglob("*.png")] == ["01_engine1_sky.png"]
    assert "A sky." not in result.stdout, "a caption tells what a sound engine shows"


@pytest.mark.parametrize("where", ["trial", "between"])
def test_a_breakdown_is_a_symptom(python, write_lesson, tmp_path, where):
    body, more = ("1 / 0\n" + GOOD, "") if where == "trial" else (GOOD, "1 / 0")
    result = run(python, write_lesson(body, more=more), tmp_path, "--blind")
    assert result.returncode == 1 and "ZeroDivisionError: division by zero" in result.stdout
    assert "Which of these is it?" in result.stdout and "Traceback" not in result.stderr


def test_reveal_names_the_engine_and_runs_nothing(python, write_lesson, tmp_path):
    result = run(python, write_lesson(GOOD), tmp_path, "--blind", "1", "--reveal")
    assert result.returncode == 0 and result.stdout.startswith("engine 1 of 1 is repainted; `python lessons/01_tiny.py")
    assert "before any trial" not in result.stdout


@pytest.mark.parametrize(
    "options, message",
    [
        (("--blind", "2"), "--blind 2: 01_tiny has the broken engines 1 to 1"),
        (("--blind", "--break", "unheard-of"), "01_tiny has no control 'unheard-of'; there are: repainted"),
        (("--reveal",), "--reveal needs the number of an engine"),
    ],
)
def test_mistakes_end_in_one_line_and_2(python, write_lesson, tmp_path, options, message):
    result = run(python, write_lesson(GOOD), tmp_path, *options)
    assert result.returncode == 2 and message in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_numbers_and_names_of_a_lesson_belong_together(script):
    from lessons import faults

    controls = blind.controls_of(script)
    found = [blind.choose(script, number, None) for number in range(1, 1 + len(controls))]
    assert sorted(hidden.name for hidden in found) == sorted(controls) != []
    for hidden in found:
        assert blind.choose(script, 0, hidden.name) == hidden
        assert hasattr(faults, hidden.name.replace("-", "_")), hidden.name
