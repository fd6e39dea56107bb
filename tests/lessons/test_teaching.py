"""The page for teachers: every lesson has a class in minutes, and what a plan names is there."""

import re
from pathlib import Path

import pytest

from lessons.exercises import catalogue
from lessons.harness import blind

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
SCRIPTS = sorted((ROOT / "lessons").glob("[0-9][0-9]_*.py"))
PARTS = [("15 to 35", "Show"), ("35 to 55", "Ask"), ("55 to 75", "Break"), ("75 to 90", "Do")]


def plan(number):
    """part → what happens"""
    (block,) = re.findall(rf"^### Class {number}: .*?(?=^##)", PAGE, re.DOTALL | re.MULTILINE)
    rows = re.findall(r"^\| ([\d to]+) \| \*\*(\w+)\.\*\* (.*) \|$", block, re.MULTILINE)
    parts = [("0 to 15", "Begin"), *PARTS] if number == 1 else PARTS  # no exercise comes before the first class
    assert [(minutes, part) for minutes, part, _ in rows] == parts, "ninety minutes without a gap, in the usual order"
    return {part: text for _, part, text in rows}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_class_in_minutes(script):
    number, prose = int(script.name[:2]), script.read_text(encoding="utf-8")
    parts = plan(number)
    assert "Usual answer" in parts["Show"] + parts["Ask"]
    ((file, engine),) = re.findall(r"`python (\S+) --blind (\d+)`", parts["Break"])
    assert ROOT / file == script
    ((control, listed),) = re.findall(rf"^\| {number} \| `([\w-]+)` \| (\d+) \|", PAGE, re.MULTILINE)
    assert engine == listed
    assert blind.choose(script, int(engine), None).name == control, "a new control may have moved the others' numbers"
    assert control not in parts["Break"], "the class must not read the name"

    known = {one.name: one for one in catalogue.ours()}
    named = re.findall(r"`([a-z-]+)`", parts["Do"])
    assert set(named) <= known.keys() and "Hand out" in parts["Do"]
    assert known[named[0]].lesson == script.name[:2], "the exercise begun in class is the lesson's own"

    figures = re.findall(r"`(\d\d)_(\w+)`", " ".join(parts.values()))
    assert {lesson for lesson, _ in figures} <= {script.name[:2]}
    assert all(f'"{name}"' in prose for _, name in figures), "a figure that the lesson draws"


def test_the_game_is_played_with_a_number_that_does_not_tell():
    game = PAGE.partition("## Find the broken engine")[2]
    commands = re.findall(r"^python (lessons/\S+) (?:--blind (\d+)|--break (\S+))", game, re.MULTILINE)
    assert len(commands) == 3 and len({file for file, *_ in commands}) == 1
    engines = {blind.choose(ROOT / file, int(number or 0), name or None).name for file, number, name in commands}
    assert len(engines) == 1, "all three commands are about one engine"
    assert f"`--blind {commands[0][1]}` runs engine {commands[0][1]}," in game


def test_the_first_class_votes_on_claims_that_are_tried_later():
    begin = plan(1)["Begin"]
    claims = re.findall(r'"([^"]+\.)"', begin)
    (days,) = re.findall(r"each is tried: today, in class (\d+), in class (\d+)", begin)
    assert len(claims) == 3
    for claim, number in zip(claims, (1, *map(int, days)), strict=True):
        assert f'"{claim}",' in SCRIPTS[number - 1].read_text(encoding="utf-8"), "a trial of that lesson, word for word"
