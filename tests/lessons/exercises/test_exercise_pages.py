"""The exercises as pages of the book."""

import importlib.util
from pathlib import Path

import pytest

from lessons.exercises import catalogue
from lessons.exercises.power import Power

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture
def module():
    spec = importlib.util.spec_from_file_location("exercise_pages", DOCS / "exercise_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_lesson_leads_to_the_exercises_that_it_names(module):
    said = module.linked("`product` here\n\n`minitransformer exercise rotary` and `greedy`, not `grady`: run `make`.")
    assert said == (
        "`product` here\n\n[`minitransformer exercise rotary`](#exercise-rotary) and [`greedy`](#exercise-greedy), not "
        "`grady`: run `make`."
    )


def test_every_exercise_has_its_place_and_its_solution_is_elsewhere(module):
    made = module.pages([Power("product", "derivatives", 11, 12, 1, 2)])
    assert "11 of 12" in made["exercises/index.md"] and "1 of 2" in made["exercises/index.md"]
    for one in catalogue.ours():
        page = made[f"exercises/{one.track}.md"]
        assert f"(exercise-{one.name})=" in page and all(hint in page for hint in one.hints)
        assert one.solution.strip() not in page and one.solution.strip() in made["exercises/solutions.md"]
