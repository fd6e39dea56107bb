"""The page for teachers: every lesson has a class in minutes, and what a plan names is there."""

import re
from pathlib import Path

import pytest

from lessons.exercises import catalogue

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
SCRIPTS = sorted((ROOT / "lessons").glob("[0-9][0-9]_*.py"))
PARTS = [("15 to 35", "Show"), ("35 to 55", "Ask"), ("55 to 75", "Break"), ("75 to 90", "Do")]


def plan(number):
    """part → what happens"""
    (block,) = re.findall(rf"^### Class {number}: .*?(?=^##)", PAGE, re.DOTALL | re.MULTILINE)
    rows = re.findall(r"^\| ([\d to]+) \| \*\*(\w+)\.\*\* (.*) \|$", block, re.MULTILINE)
    assert [(minutes, part) for minutes, part, _ in rows] == PARTS, "ninety minutes without a gap, in the usual order"
    return {part: text for _, part, text in rows}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_class_in_minutes(script):
    number, prose = int(script.name[:2]), script.read_text(encoding="utf-8")
    parts = plan(number)
    assert "Usual answer" in parts["Show"] + parts["Ask"]
    (file, control) = re.findall(r"`python (\S+) --break ([\w-]+) --blind`", parts["Break"])[0]
    assert ROOT / file == script
    (proposed,) = re.findall(rf"^\| {number} \| `([\w-]+)` \|", PAGE, re.MULTILINE)
    assert control == proposed, "the control of the table of broken engines"

    known = {one.name: one for one in catalogue.ours()}
    named = re.findall(r"`([a-z-]+)`", parts["Do"])
    assert set(named) <= known.keys() and "Hand out" in parts["Do"]
    assert known[named[0]].lesson == script.name[:2], "the exercise begun in class is the lesson's own"

    figures = re.findall(r"`(\d\d)_(\w+)`", " ".join(parts.values()))
    assert {lesson for lesson, _ in figures} <= {script.name[:2]}
    assert all(f'"{name}"' in prose for _, name in figures), "a figure that the lesson draws"
