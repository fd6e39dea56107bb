"""The power of the judge: every right answer of every exercise is accepted, every wrong one rejected and explained."""

from dataclasses import replace

import pytest

import kernels
from lessons.exercises import catalogue
from lessons.exercises.feedback import Wrong
from lessons.exercises.judge import Judge
from lessons.exercises.power import lines, measured, runnable
from lessons.exercises.sandbox import Sandbox


@pytest.fixture(scope="module")
def judge():
    with Sandbox() as sandbox, kernels.use("numpy"):
        yield Judge(sandbox)


def named(one):
    return one.name


def sooner_or_later(exercise):
    """Answers that are compiled or trained take their time: one in Numba and one in CUDA are enough for every day. So
    does one that tries every choice until its time is up."""
    compiled = exercise.kind in ("numba", "cuda") and exercise.name not in ("row-sums", "vector-add")
    later = compiled or exercise.judged is not None or exercise.name == "align-words"
    return pytest.param(exercise, marks=pytest.mark.slow if later else (), id=exercise.name)


@pytest.mark.parametrize("exercise", [sooner_or_later(one) for one in runnable(catalogue.ours())])
def test_the_judge_is_right_about_every_answer(exercise, judge):
    power = measured(exercise, judge)
    assert not power.faults, "\n".join(power.faults)
    assert power.wrong >= 8 and power.rejected == power.wrong and power.accepted == power.right == 2


@pytest.mark.parametrize("exercise", catalogue.ours(), ids=named)
def test_an_exercise_is_complete(exercise, judge):
    assert len(exercise.hints) == 3 and all(exercise.hints)
    assert exercise.track in catalogue.TRACKS and exercise.level in (1, 2, 3) and exercise.minutes > 0
    assert exercise.title and "xample" in exercise.statement
    (lesson,) = catalogue.FOLDER.parent.glob(f"{exercise.lesson}_*.py")
    assert exercise.name in lesson.read_text(encoding="utf-8"), f"{lesson.name} does not name it"
    assert exercise.solution.split() != exercise.another.split()
    assert "#" in exercise.solution or "//" in exercise.solution  # it is commented
    assert all(bool(wrong.tell) != bool(wrong.says) for wrong in exercise.wrong.values())
    longest = max(map(len, (exercise.statement + exercise.stub + exercise.solution).splitlines()))
    assert longest <= 120
    if exercise.kind != "cuda" or kernels.reasons()["emulated"] is None:
        verdict = judge.judge(exercise, exercise.start)
        assert not verdict.passed


def test_all_that_are_promised_are_there():
    promised = [name for _, names in catalogue.TRACKS.values() for name in names]
    assert [one.name for one in catalogue.ours()] == promised


def test_every_lesson_has_exercises_and_the_readme_counts_them():
    lessons = {script.name[:2] for script in catalogue.FOLDER.parent.glob("[0-9][0-9]_*.py")}
    assert lessons == {one.lesson for one in catalogue.ours()}
    readme = (catalogue.FOLDER.parents[1] / "README.md").read_text(encoding="utf-8")
    assert f"{len(catalogue.ours())} exercises, one or more to each lesson" in readme


def test_a_judge_that_is_too_kind_is_found(judge):
    """The measure itself: a right answer among the wrong ones, and a wrong one among the right."""
    exercise = catalogue.named("matmul-gradient", catalogue.ours())
    right = Wrong(edits=(("dy @ w", "(w.T @ dy.T).T"),), says="sign")
    power = measured(replace(exercise, wrong={"right": right}), judge)
    assert power.rejected == 0 and "gets through" in power.faults[0]
    power = measured(replace(exercise, another=exercise.solution.replace("dy @ w", "-dy @ w"), wrong={}), judge)
    assert power.accepted == 1 and "is rejected" in power.faults[0]
    sign = Wrong(edits=(("dy @ w", "-dy @ w"),), says="transposed")
    power = measured(replace(exercise, wrong={"sign": sign}), judge)
    assert power.rejected == 1 and "is explained by" in power.faults[0]
    assert lines([power])[-1] == ("all", "", "1 of 1", "2 of 2")
