"""minitransformer exercise, as students and teachers use it."""

import ast
import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from command_support import refused, says
from snippets import snippets

import kernels
from lessons.exercises import catalogue, power, verdict
from lessons.exercises.grading import judged
from lessons.exercises.handed_in import Submission
from minitransformer.app.cli.main import main

ROOT = Path(__file__).parents[3]


pytestmark = pytest.mark.usefixtures("desk")


def exercise(capsys, *arguments, code=0):
    capsys.readouterr()
    assert main(["exercise", *arguments]) == code
    return capsys.readouterr().out


def solution_of(name):
    return catalogue.named(name, catalogue.ours()).solution


def test_from_the_start_to_a_passed_one(capsys, desk):
    assert "matmul-gradient" in exercise(capsys)
    assert "exercises/matmul-gradient.py" in exercise(capsys, "start", "matmul-gradient")
    file = desk / "exercises" / "matmul-gradient.py"
    assert "still to be written" in exercise(capsys, "check", "matmul-gradient", code=1)
    assert "first try" in refused(capsys, "exercise", "solution", "matmul-gradient")
    file.write_text(file.read_text().replace('raise NotImplementedError("your turn")', "return dy @ w, x.T @ dy"))
    said = exercise(capsys, "check", "matmul-gradient", code=1)
    assert "the example" in said and "transposed" in said and "exercise hint matmul-gradient" in said
    assert exercise(capsys, "hint", "matmul-gradient").count("hint ") == 1
    assert exercise(capsys, "hint", "matmul-gradient").count("hint ") == 2
    exercise(capsys, "hint", "matmul-gradient")
    assert "no more" in exercise(capsys, "hint", "matmul-gradient")
    assert "dy.T @ x" in exercise(capsys, "solution", "matmul-gradient")
    file.write_text(file.read_text().replace("x.T @ dy", "dy.T @ x"))
    assert "right, on all" in exercise(capsys, "check", "matmul-gradient")
    assert "1 of" in exercise(capsys) and "passed" in exercise(capsys)
    kept = json.loads((desk / "exercises" / "progress.json").read_text())["matmul-gradient"]
    assert kept["tries"] == 2 and kept["hints"] == 3 and kept["solution"] and kept["passed"]
    assert "matmul-gradient" not in exercise(capsys, "next", "--track", "derivatives")


def test_after_a_pass_the_same_lesson_goes_on_then_the_same_track(capsys, desk):
    (desk / "exercises").mkdir()
    left = {one.name for one in catalogue.ours()}
    after = {}
    for name in ("cut-word", "merge-pairs"):  # the two of lesson 17
        (desk / "exercises" / f"{name}.py").write_text(solution_of(name))
        said = exercise(capsys, "check", name)
        assert f"compare with ours: minitransformer exercise solution {name}\n" in said
        left.remove(name)
        (after[name],) = re.findall(r"next: minitransformer exercise start (\S+)", said)
    assert after["cut-word"] == "merge-pairs"
    track = catalogue.named("merge-pairs", catalogue.ours()).track
    assert after["merge-pairs"] in left and catalogue.named(after["merge-pairs"], catalogue.ours()).track == track


def test_lists_are_shown_as_python_writes_them(capsys, desk):
    (desk / "exercises").mkdir()
    (desk / "exercises" / "cut-word.py").write_text(exercise(capsys, "wrong", "cut-word", "2"))
    said = exercise(capsys, "check", "cut-word", code=1)
    assert "merges (a list of 3)\n" in said and "merges = [('b', 'c'), ('a', 'b'), ('c', 'd')]\n" in said
    assert "expected  a list of 3: ['a', 'bc', 'd']\n" in said and "got       a list of 2: ['ab', 'cd']\n" in said


def test_a_wrong_answer_for_the_projector(capsys, desk):
    one = catalogue.named("causal-mask", catalogue.ours())
    shown = [exercise(capsys, "wrong", "causal-mask", str(n + 1)) for n in range(len(one.wrong))]
    assert len(set(shown)) == len(one.wrong) >= 8
    assert f"1 to {len(shown)}\n" in exercise(capsys, "wrong", "causal-mask")
    named = exercise(capsys, "wrong", "causal-mask", "--tell")
    for number, (program, (mistake, answer)) in enumerate(zip(shown, one.wrong.items(), strict=True), start=1):
        assert ast.dump(ast.parse(program)) == ast.dump(ast.parse(answer.source(one.solution))), "the program alone"
        told = exercise(capsys, "wrong", "causal-mask", str(number), "--tell")
        assert told.startswith(program) and f"\n{mistake}: " in told and answer.tell in told and mistake in named
        assert len(told.partition(f"\n{mistake}: ")[2]) > 20, "a sentence, also where the file has none"
    for number in ("0", str(len(shown) + 1)):
        assert f"1 to {len(shown)}, not {number}" in refused(capsys, "exercise", "wrong", "causal-mask", number)
    assert "only `exercise wrong NAME NUMBER`" in refused(capsys, "exercise", "start", "causal-mask", "3")


def test_what_nobody_wrote_down_about_a_wrong_answer_the_judge_tells(capsys, desk, monkeypatch):
    said = exercise(capsys, "wrong", "attention-by-hand", "4", "--tell")
    assert "\noverflow: Everything is NaN: exp overflows (subtract the largest first)" in said
    assert "nothing overflows" in solution_of("attention-by-hand") and "nothing overflows" not in said, "a comment"
    program, _, told = exercise(capsys, "wrong", "attention-by-hand", "9", "--tell").partition("\nqueries and keys")
    assert (
        "swapped: the judge finds this (error: ValueError; 0 of 7 inputs pass before the first that fails):\n" in told
        and "mismatch" in told
    )
    number, line = re.search(r"line (\d+): (.*)", told).groups()
    assert program.splitlines()[int(number) - 1].strip() == line, "lines are counted in what is shown"
    monkeypatch.setattr(kernels, "reasons", lambda: {"emulated": "there is no compiler 'g++'; install g++"})
    assert "\none too far: the judge" in (said := exercise(capsys, "wrong", "vector-add", "2", "--tell"))
    assert "install g++" in said


def test_wrong_answers_that_only_test_the_judge_are_marked(capsys, desk):
    assert "only test the judge: 13, 14\n" in exercise(capsys, "wrong", "attention-by-hand")
    named = exercise(capsys, "wrong", "attention-by-hand", "--tell").splitlines()
    marked = [line.split()[0] for line in named if line.endswith("only tests the judge")]
    assert marked == ["13", "14"]
    assert "exercise wrong bug-mask 4\n" in exercise(capsys, "wrong", "bug-mask"), "the first that is worth it"
    tests = ("not to call", "That is not it")  # a call of the engine; the name of another line than the faulty one
    for one in catalogue.ours():
        assert sum(answer.projector for answer in one.wrong.values()) >= 6, f"{one.name} has too few to show"
        for name, answer in one.wrong.items():
            test = name in ("only the example", "the example", "not mended") or answer.says in tests
            assert answer.projector != test, (one.name, name)


def test_a_student_reads_what_is_not_allowed_and_what_is_not_right(capsys, desk):
    (desk / "exercises").mkdir()
    file, solution = desk / "exercises" / "product.py", solution_of("product")
    file.write_text("import torch\n" + solution)
    assert exercise(capsys, "check", "product", code=1).startswith("product: not allowed: imports torch (0 of ")
    file.write_text(solution.replace("dy * a", "-dy * a"))
    assert exercise(capsys, "check", "product", code=1).startswith("product: not yet right: wrong numbers (0 of ")
    file.write_text(solution.replace("dy * a", "dy[99] * a"))
    assert exercise(capsys, "check", "product", code=1).startswith("product: not yet right: error: IndexError (0 of ")
    row = catalogue.named("softmax-row", catalogue.ours())
    kind = verdict.refused(row, row.wrong["the engine's own"].source(row.solution)).kind
    assert kind == "not allowed: calls block_max"
    assert verdict.refused(row, "#include <cub/cub.cuh>\n").kind == "not allowed: includes <cub/cub.cuh>"


def test_a_name_alone_starts_or_checks(capsys, desk):
    assert "exercises/product.py" in exercise(capsys, "product")
    assert "still to be written" in exercise(capsys, "product", code=1)


def test_work_is_never_overwritten(capsys, desk):
    exercise(capsys, "start", "product")
    file = desk / "exercises" / "product.py"
    file.write_text("mine")
    assert "left as it is" in exercise(capsys, "start", "product") and file.read_text() == "mine"


def test_a_failed_try_after_a_passed_one_takes_nothing_away(capsys, desk):
    exercise(capsys, "start", "matmul-gradient")
    file = desk / "exercises" / "matmul-gradient.py"
    file.write_text(solution_of("matmul-gradient"))
    exercise(capsys, "check", "matmul-gradient")
    file.write_text("def matmul_gradient(dy, x, w): return 1")
    exercise(capsys, "check", "matmul-gradient", code=1)
    assert "passed" in exercise(capsys, "list", "--track", "derivatives")


def test_what_cannot_be_done_is_said_in_one_line(capsys, desk):
    assert "did you mean matmul-gradient" in refused(capsys, "exercise", "start", "matmul")
    assert "which one?" in refused(capsys, "exercise", "check")
    assert "begin with: minitransformer exercise start product" in refused(capsys, "exercise", "check", "product")
    assert "'sart' is neither an action (list, start" in refused(capsys, "exercise", "sart", "product")
    assert "no track is called 'tensors'" in refused(capsys, "exercise", "list", "--track", "tensors")
    assert "there is no such folder" in refused(capsys, "exercise", "grade", "nowhere")
    assert "--more nowhere" in refused(capsys, "exercise", "--more", "nowhere")
    (desk / "empty").mkdir()
    assert "no answers there" in refused(capsys, "exercise", "grade", "empty")
    (desk / "exercises").mkdir()
    (desk / "exercises" / "progress.json").write_text("{")
    assert "is damaged; move it away" in refused(capsys, "exercise")
    assert (desk / "exercises" / "progress.json").read_text() == "{"


def test_without_a_compiler_cuda_is_refused_plainly(capsys, desk, monkeypatch):
    monkeypatch.setattr(kernels, "reasons", lambda: {"emulated": "there is no compiler 'g++'; install g++"})
    assert "install g++" in refused(capsys, "exercise", "check", "vector-add")
    assert "cannot be judged here: there is no compiler" in exercise(capsys)


def test_a_class_is_graded(capsys, desk):
    for student, source in (
        ("anna", solution_of("product")),
        ("bert", solution_of("product").replace("dy * a", "-dy * a")),
    ):
        (desk / "class" / student).mkdir(parents=True)
        (desk / "class" / student / "product.py").write_text(source)
    (desk / "class" / "bert" / "matmul-gradient.py").write_bytes(b"\xff\xfe")
    (desk / "class" / "anna" / "notes.txt").write_text("not an answer")
    said = exercise(capsys, "grade", "class", "--csv", "marks.csv")
    assert "anna" in said and "1 of 1" in said and "product (wrong numbers)" in said
    rows = list(csv.DictReader((desk / "marks.csv").read_text().splitlines()))
    assert [(row["student"], row["exercise"], row["passed"]) for row in rows] == [
        ("anna", "product", "yes"), ("anna", "", ""), ("bert", "product", "no"), ("bert", "matmul-gradient", "no"),
    ]  # fmt: skip
    assert rows[1]["what"] == "not judged" and rows[1]["file"] == "anna/notes.txt"
    assert "sign" in rows[2]["likely mistake"] and rows[3]["what"] == "not readable"


def test_a_class_is_graded_on_the_backend_in_use(desk):
    used = []
    product = catalogue.named("product", catalogue.ours())

    def expected(*arguments):
        used.append(kernels.current().name)
        return product.expected(*arguments)

    (desk / "product.py").write_text(product.solution)
    work = [Submission("anna", replace(product, expected=expected), desk / "product.py")]
    assert [verdict.passed for _, verdict in judged(work)] == [True]
    assert set(used) == {"numpy"}


def test_without_a_compiler_the_rest_of_a_class_is_graded(capsys, desk, monkeypatch):
    monkeypatch.setattr(kernels, "reasons", lambda: {"emulated": "there is no compiler 'g++'; install g++"})
    (desk / "class" / "anna").mkdir(parents=True)
    for name, file in (("product", "product.py"), ("vector-add", "vector-add.cu")):
        (desk / "class" / "anna" / file).write_text(solution_of(name))
    said = exercise(capsys, "grade", "class", "--csv", "marks.csv")
    assert "1 of 2" in said and "vector-add (not judged)" in said
    assert "not judged: anna/vector-add.cu: there is no compiler 'g++'; install g++" in said
    assert "install g++" in (desk / "marks.csv").read_text()


def test_a_teacher_adds_an_exercise_by_two_files(capsys, desk, monkeypatch):
    """The recipe of CONTRIBUTING, as it stands there."""
    (recipe,) = [one.code for one in snippets(ROOT / "CONTRIBUTING.md") if "TRACK, LESSON" in one.code]
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (heard,) = re.findall(r"^```toml\n(.*?)^```$", contributing, re.DOTALL | re.MULTILINE)
    (desk / "mine").mkdir()
    (desk / "mine" / "row_means.py").write_text(recipe)
    (desk / "mine" / "row_means.toml").write_text(heard)
    assert power.main(["--more", "mine", "row-means"]) == 0
    assert "5 of 5" in capsys.readouterr().out
    assert "my course" in exercise(capsys, "--more", "mine")
    monkeypatch.setenv("MINITRANSFORMER_EXERCISES", str(desk / "mine"))
    exercise(capsys, "start", "row-means")
    file = desk / "exercises" / "row-means.py"
    file.write_text(file.read_text().replace('raise NotImplementedError("your turn")', "return x.sum(axis=1)"))
    assert "not divided by the number of columns" in exercise(capsys, "check", "row-means", code=1)
    (desk / "mine" / "bad.py").write_text('"""# Bad"""\nTRACK = "x"\n')
    assert "SOLUTION, ANOTHER" in refused(capsys, "exercise", "list")
    undocumented = recipe.replace('    """x (N, C)  →  (N)"""\n', "")
    assert undocumented != recipe
    for text in (undocumented, recipe.replace("def row_means(x):", "row_means = 1 +")):
        (desk / "mine" / "bad.py").write_text(text)
        assert "no STUB, and SOLUTION does not end with a function" in refused(capsys, "exercise", "list")
    (desk / "mine" / "bad.py").write_text(recipe)
    assert "bad.toml: hints and wrong answers are missing" in refused(capsys, "exercise", "list")
    (desk / "mine" / "bad.py").write_text("1 / 0\n")
    assert "ZeroDivisionError" in refused(capsys, "exercise", "list")


def test_another_backend_gives_the_same_verdict(capsys, desk):
    (desk / "exercises").mkdir()
    (desk / "exercises" / "softmax-gradient.py").write_text(solution_of("softmax-gradient"))
    assert "right, on all" in exercise(capsys, "check", "softmax-gradient", "--backend", "numba")
    assert says(capsys, "exercise", "check", "softmax-gradient", "--backend", "numpy")
