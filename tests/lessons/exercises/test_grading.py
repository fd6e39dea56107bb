"""minitransformer exercise grade: no student is lost, and no file is passed over in silence."""

import csv
import os
from pathlib import Path

import pytest
from command_support import refused

from lessons.exercises import catalogue
from minitransformer.app.cli.main import main

pytestmark = pytest.mark.usefixtures("desk")


@pytest.fixture
def hand_in(desk):
    def hand_in(file, name="", text=""):
        (desk / "class" / file).parent.mkdir(parents=True, exist_ok=True)
        (desk / "class" / file).write_text(text or catalogue.named(name, catalogue.ours()).solution)

    return hand_in


def graded(capsys, *arguments):
    """(student → [passed, not yet], the lines on what was not judged, what was said on the way)"""
    capsys.readouterr()
    assert main(["exercise", "grade", "class", *arguments]) == 0
    said = capsys.readouterr()
    table, _, left = said.out.partition("\n\n")
    rows = [line.split("  ") for line in table.splitlines()[2:]]
    marks = {row[0].strip(): [cell.strip() for cell in row[1:] if cell.strip()] for row in rows}
    return marks, left.splitlines(), said.err


def marks_file(desk, *columns):
    rows = csv.DictReader((desk / "marks.csv").read_text().splitlines())
    return [tuple(row[column] for column in columns) for row in rows]


def test_answers_are_found_where_start_puts_them_and_with_underscores(capsys, desk, hand_in):
    hand_in("dora/matmul_gradient.py", "matmul-gradient")
    hand_in("ida/exercises/product.py", "product")
    hand_in("ida/exercises/progress.json", text="{}")
    hand_in("ida/exercises/__pycache__/product.pyc", text="?")
    hand_in("ida/.hidden", text="?")
    hand_in("kim/exercises/Matmul Gradient.py", "matmul-gradient")
    marks, left, _ = graded(capsys, "--csv", "marks.csv")
    assert marks == {"dora": ["1 of 1"], "ida": ["1 of 1"], "kim": ["1 of 1"]} and left == []
    assert marks_file(desk, "student", "exercise", "passed", "file") == [
        ("dora", "matmul-gradient", "yes", "dora/matmul_gradient.py"),
        ("ida", "product", "yes", "ida/exercises/product.py"),
        ("kim", "matmul-gradient", "yes", "kim/exercises/Matmul Gradient.py"),
    ]


def test_a_student_without_an_answer_is_in_the_table_and_in_the_file(capsys, desk, hand_in):
    hand_in("anna/product.py", "product")
    (desk / "class" / "emil").mkdir()
    (desk / "class" / "fay" / "exercises").mkdir(parents=True)
    marks, left, said = graded(capsys, "--csv", "marks.csv")
    assert marks == {"anna": ["1 of 1"], "emil": ["0 of 0", "nothing found"], "fay": ["0 of 0", "nothing found"]}
    assert left == [] and "1 answer of 3 students\n" in said
    assert marks_file(desk, "student", "passed", "what") == [
        ("anna", "yes", ""), ("emil", "no", "nothing found"), ("fay", "no", "nothing found"),
    ]  # fmt: skip


def test_of_every_file_that_is_not_judged_the_reason_is_given(capsys, desk, hand_in):
    hand_in("anna/product.py", "product")
    hand_in("anna/old/product.py", "product")
    hand_in("anna/exercises/drafts/a.py", text="?")
    hand_in("bela/matmul-gradent.py", "matmul-gradient")
    hand_in("bela/product (1).py", "product")
    hand_in("bela/notes.py", text="?")
    hand_in("bela/report.txt", text="?")
    hand_in("bela/vector-add.py", text="?")
    hand_in("gerd.py", "product")
    hand_in("marks.csv", text="?")
    marks, left, said = graded(capsys, "--csv", "class/marks.csv")
    assert marks == {"anna": ["1 of 1"], "bela": ["0 of 0", "nothing found"]} and "1 answer of 2 students\n" in said
    where = "a folder with 1 file; answers are looked for in anna/ and anna/exercises/"
    reasons = {
        "anna/exercises/drafts/": where,
        "anna/old/": where,
        "bela/matmul-gradent.py": "no exercise has this name (did you mean matmul-gradient?)",
        "bela/notes.py": "no exercise has this name",
        "bela/product (1).py": "no exercise has this name (did you mean product?)",
        "bela/report.txt": "no answer: those end in .py or .cu",
        "bela/vector-add.py": "an answer to vector-add is a .cu file",
        "gerd.py": "it is in no student's folder",
    }
    assert left == [f"not judged: {path}: {why}" for path, why in reasons.items()]
    rows = list(csv.DictReader((desk / "class" / "marks.csv").read_text().splitlines()))
    assert {row["file"]: row["likely mistake"] for row in rows if row["what"] == "not judged"} == reasons
    assert [row["student"] for row in rows if row["file"] == "gerd.py"] == [""]


def test_of_two_answers_the_one_that_was_judged_is_named(capsys, hand_in):
    wrong = catalogue.named("product", catalogue.ours()).solution.replace("dy * a", "-dy * a")
    hand_in("anna/product.py", text=wrong)
    hand_in("anna/exercises/product.py", "product")
    hand_in("bela/exercises/product.py", "product")
    hand_in("bela/Product.py", "product")
    marks, left, said = graded(capsys)
    assert marks == {"anna": ["0 of 1", "product (wrong numbers)"], "bela": ["1 of 1"]}
    assert left == [
        "not judged: anna/exercises/product.py: a second answer to product; judged was anna/product.py",
        "not judged: bela/exercises/product.py: the same text; judged was bela/Product.py",
    ]
    assert "2 answers of 2 students\n" in said


def test_what_is_due_counts_whether_handed_in_or_not(capsys, desk, hand_in):
    hand_in("anna/product.py", "product")
    hand_in("anna/matmul-gradient.py", "matmul-gradient")
    hand_in("anna/greedy.py", "greedy")
    hand_in("bela/greedy.py", "greedy")
    hand_in("bela/exercises/greedy.py", "greedy")
    hand_in("cora/cut-word.py", "cut-word")
    due = ("--due", "matmul_gradient, product,rotary,product")
    marks, left, said = graded(capsys, *due, "--csv", "marks.csv")
    assert marks == {
        "anna": ["2 of 3", "rotary (nothing found)"],
        "bela": ["0 of 3", "nothing found"],
        "cora": ["0 of 3", "nothing found"],
    }
    assert left == ["not judged: 4 answers to what was not due: greedy (3), cut-word"] and "2 answers of 3" in said
    rows = marks_file(desk, "student", "exercise", "passed", "likely mistake")
    assert [row[1:3] for row in rows if row[0] == "anna"] == [
        ("matmul-gradient", "yes"), ("product", "yes"), ("rotary", "no"), ("greedy", ""),
    ]  # fmt: skip
    assert [mistake for _, exercise, _, mistake in rows if exercise == "greedy"] == ["not due"] * 3


def test_what_cannot_be_due_is_said_in_one_line(capsys, hand_in):
    hand_in("anna/product.py", "product")
    said = refused(capsys, "exercise", "grade", "class", "--due", "product,matmul-gradent")
    assert "--due: no exercise is called 'matmul-gradent'; did you mean matmul-gradient" in said
    assert "name the exercises that count" in refused(capsys, "exercise", "grade", "class", "--due", " , ")


def test_a_class_without_any_answer_is_refused_with_a_reason(capsys, hand_in):
    hand_in("anna/matmul-gradent.py", "matmul-gradient")
    said = refused(capsys, "exercise", "grade", "class")
    assert "no answers there" in said and "did you mean matmul-gradient?" in said


def test_what_cannot_be_read_costs_the_others_nothing(capsys, desk, hand_in, monkeypatch):
    hand_in("anna/product.py", "product")
    hand_in("bela/product.py", "product")
    (desk / "class" / "cora").mkdir()
    (desk / "class" / "cora" / "product.py").write_bytes(b"\xff\xfe")
    listed = os.listdir

    def refusing(path="."):
        if str(path).endswith("bela"):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "listdir", refusing)  # a test run by root could read it in spite of its permissions
    monkeypatch.setattr("pathlib.Path.iterdir", lambda self: (self / name for name in os.listdir(self)))
    marks, left, _ = graded(capsys)
    assert marks == {
        "anna": ["1 of 1"], "bela": ["0 of 0", "nothing found"], "cora": ["0 of 1", "product (not readable)"],
    }  # fmt: skip
    assert left == [
        "not judged: bela/: it cannot be read: Permission denied",
        "not judged: cora/product.py: it is not text in UTF-8",
    ]


def test_the_page_for_teachers_shows_what_is_printed(capsys, desk, hand_in):
    causal = catalogue.named("causal-mask", catalogue.ours())
    hand_in("ada/causal-mask.py", "causal-mask")
    hand_in("bela/causal-mask.py", text=causal.wrong["off by one: sees the next word"].source(causal.solution))
    hand_in("bela/exercises/causal-mask.py", "causal-mask")
    hand_in("bela/padding_mask.py", "padding-mask")
    hand_in("cem/causal-mask.py", text="import torch\n")
    hand_in("cem/padding-mask.py", text="def padding_mask(:\n")
    hand_in("dora/casual-mask.py", "causal-mask")
    hand_in("emil.py", text="?")
    capsys.readouterr()
    assert main(["exercise", "grade", "class", "--csv", "marks.csv", "--due", "causal-mask,padding-mask"]) == 0
    page = (Path(__file__).parents[3] / "docs" / "teaching.md").read_text(encoding="utf-8")
    assert f"```text\n{capsys.readouterr().out}```\n" in page
    assert f"```text\n{chr(10).join((desk / 'marks.csv').read_text().splitlines()[:4])}\n```\n" in page
