"""Files with hints and wrong answers: what is read from them, and what is said about one that is not right."""

import pytest

from lessons.exercises.feedback import Wrong, read_feedback
from minitransformer.errors import FileError

SOLUTION = "def twice(x):\n    return x + x\n"
HINTS = 'hints = ["Add.", "Twice.", "x + x"]\n'


@pytest.fixture
def read(tmp_path):
    def read(text):
        (tmp_path / "twice.toml").write_text(text, encoding="utf-8")
        return read_feedback(tmp_path / "twice.toml", SOLUTION)

    return read


def test_three_ways_to_write_a_wrong_answer(read):
    hints, wrong = read(f"""{HINTS}
["sign"]
old = "x + x"
new = "x - x"
says = "zero"
["both"]
edits = [["twice", "thrice"], ["x + x", '''
x + x + x
''']]
tell = "That is three times x."
["written out"]
answer = '''
def twice(x):
    return "\\\\n"
'''
says = "text"
projector = false
""")
    assert hints == ("Add.", "Twice.", "x + x")
    assert list(wrong) == ["sign", "both", "written out"]
    assert wrong["sign"] == Wrong(edits=(("x + x", "x - x"),), says="zero")
    assert wrong["sign"].source(SOLUTION) == "def twice(x):\n    return x - x\n"
    assert wrong["both"].source(SOLUTION) == "def thrice(x):\n    return x + x + x\n\n"
    assert [one.projector for one in wrong.values()] == [True, True, False]
    assert wrong["both"].tell == "That is three times x."
    assert wrong["written out"].source(SOLUTION) == 'def twice(x):\n    return "\\\\n"\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("hints = [", "not readable as TOML"),
        ('["sign"]\nold = "x + x"\nnew = "0"\nsays = "zero"\n', "no hints"),
        ('hints = ["one", 2]\n', "no hints"),
        (HINTS + 'sign = "x - x"\n', "stands alone"),
        (HINTS + '["a"]\nolt = "x + x"\nnew = "0"\nsays = "zero"\n', "there is no 'olt'"),
        (HINTS + '["a"]\nsays = "zero"\n', "one of `old` with `new`"),
        (HINTS + '["a"]\nold = "x + x"\nnew = "0"\nanswer = "0"\nsays = "zero"\n', "one of `old` with `new`"),
        (HINTS + '["a"]\nold = "x + x"\nsays = "zero"\n', "a text is missing"),
        (HINTS + '["a"]\nnew = "0"\nsays = "zero"\n', "a text is missing"),
        (HINTS + '["a"]\nold = "x + x"\nnew = 0\nsays = "zero"\n', "a text is missing"),
        (HINTS + '["a"]\nedits = ["x + x", "0"]\nsays = "zero"\n', "list of pairs"),
        (HINTS + '["a"]\nold = "x + x"\nnew = "0"\n', "either `tell` or `says`"),
        (HINTS + '["a"]\nold = "x + x"\nnew = "0"\nsays = "zero"\ntell = "Zero."\n', "either `tell` or `says`"),
        (HINTS + '["a"]\nold = "x + x"\nnew = "0"\nsays = ""\n', "a text is empty"),
        (HINTS + '["a"]\nold = "x + x"\nnew = "0"\nsays = "zero"\nprojector = "no"\n', "`projector` is true or false"),
        (HINTS + '["a"]\nanswer = ""\nsays = "zero"\n', "a text is empty"),
        (HINTS + '["a"]\nold = "x + x"\nnew = "x + x"\nsays = "zero"\n', "the same as `old`"),
        (HINTS + '["a"]\nold = "x * x"\nnew = "0"\nsays = "zero"\n', "'x * x' occurs 0 times"),
        (HINTS + '["a"]\nold = "x"\nnew = "0"\nsays = "zero"\n', "'x' occurs 3 times"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(read, text, complaint):
    with pytest.raises(FileError, match="twice.toml") as error:
        read(text)
    assert complaint in str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileError, match="hints and wrong answers are missing"):
        read_feedback(tmp_path / "gone.toml", SOLUTION)
