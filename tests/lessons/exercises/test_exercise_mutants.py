"""Wrong answers that nobody thought of: every solution with one operator, comparison or number changed is rejected."""

import ast
import copy

import pytest

import kernels
from lessons.exercises import catalogue
from lessons.exercises.judge import Judge
from lessons.exercises.sandbox import Sandbox

OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.MatMult: ast.Mult,
}  # fmt: skip
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
# Changes that change nothing, line by line: what is added to a row of -inf, what 0 is divided by, a factor of 1; and in
# bug-residual normalized words give small scores, from which nothing needs to be subtracted.
SAME = {
    "padding-mask": {"top = np.where(np.isfinite(top), top, 1.0)", "return e / np.where(total == 0, 2.0, total)"},
    "eight-bits": {"safe = np.where(step == 0, 2.0, step)[:, None]"},
    "clip-gradients": {"factor = most / norm if norm >= most else 1.0"},
    "bug-residual": {"e = np.exp(scores + scores.max(axis=-1, keepdims=True))"},
}


def mutants(source):
    """(the changed line, the changed source)"""
    tree = ast.parse(source)
    plain = ast.unparse(tree).splitlines()
    for place, node in enumerate(ast.walk(tree)):
        other = copy.deepcopy(tree)
        twin = list(ast.walk(other))[place]
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            twin.op = OPERATORS[type(node.op)]()
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
            twin.ops = [COMPARISONS[type(node.ops[0])]()]
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            twin.value += 1
        else:
            continue
        changed = ast.unparse(other)
        lines = [line.strip() for line, was in zip(changed.splitlines(), plain, strict=True) if line != was]
        yield lines[0], changed


@pytest.mark.slow
@pytest.mark.parametrize(
    "exercise",
    # where many answers are right, one with another width or another number of steps is right too
    [one for one in catalogue.ours() if one.kind in ("python", "engine") and one.judged is None],
    ids=lambda exercise: exercise.name,
)
def test_every_small_change_of_a_solution_is_noticed(exercise):
    with Sandbox() as sandbox, kernels.use("numpy"):
        judge = Judge(sandbox, seconds=3)
        found = {line: judge.judge(exercise, source).passed for line, source in mutants(exercise.solution)}
    assert found
    assert {line for line, passed in found.items() if passed} == SAME.get(exercise.name, set())
