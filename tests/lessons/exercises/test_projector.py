"""Wrong answers on a projector: the same program, without a comment in it."""

import ast
import io
import tokenize

import pytest

from lessons.exercises import catalogue
from lessons.exercises.projector import shown, without_comments, without_cuda_comments

WRONG = [(one, name) for one in catalogue.ours() for name in one.wrong]


def test_no_wrong_answer_shows_a_comment_or_becomes_another_program():
    seen = 0
    for exercise, name in WRONG:
        source, program = exercise.wrong[name].source(exercise.solution), shown(exercise, exercise.wrong[name])
        if exercise.kind == "cuda":
            seen += "//" in source
            assert "//" not in program and "/*" not in program
            assert program.count(";") <= source.count(";") and program.count("{") == source.count("{")
            continue
        kinds = [token.type for token in tokenize.generate_tokens(io.StringIO(program).readline)]
        assert tokenize.COMMENT not in kinds, (exercise.name, name)
        assert ast.dump(ast.parse(program)) == ast.dump(ast.parse(source)), (exercise.name, name)
        seen += "#" in source
    assert seen > 100, "there was something to take out"


def test_only_comments_go():
    source = '''
# whole line
def f(x):  # at the end
    """A docstring # with a sign."""
    # inside

    y = [  # after a bracket
        "#1",  # one
        # nothing but this
        1,
    ]
    return f"{x}#", y
'''
    assert (
        without_comments(source)
        == '''
def f(x):
    """A docstring # with a sign."""

    y = [
        "#1",
        1,
    ]
    return f"{x}#", y
'''
    )


@pytest.mark.parametrize(
    "source", ["def f(:  # open\n", "x = (1,  # open\n", "if x:\n        a\n    b  # to nowhere\n"]
)
def test_what_is_no_python_is_shown_all_the_same(source):
    assert without_comments(source).split()[:2] == source.split()[:2]


def test_only_comments_go_in_cuda():
    source = """// first
__global__ void f(real* y) {
    /* two
       lines */

    y[0] = 1;  // one
    printf("// %d /* */", 1 /* two */);
}
"""
    assert (
        without_cuda_comments(source)
        == """__global__ void f(real* y) {

    y[0] = 1;
    printf("// %d /* */", 1 );
}
"""
    )
