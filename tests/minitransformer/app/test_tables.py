"""Tables fit the terminal, lose nothing in a pipe, and stay aligned."""

import io

from minitransformer.app.tables import NARROWEST, table

LONG = "a reason in many words that no terminal of forty characters could ever show in a single line"
ROWS = [("numpy", 12, "short"), ("numba", 3456, LONG)]
HEADER = ("backend", "tries", "what it is")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def lines_on(stream, monkeypatch, **options) -> list[str]:
    """On a stream that is 40 characters wide, if it has a width."""
    monkeypatch.setenv("COLUMNS", "40")
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", stream)
        return table(HEADER, ROWS, right=(1,), **options).splitlines()


def test_in_a_pipe_every_row_is_one_whole_line(monkeypatch):
    lines = lines_on(io.StringIO(), monkeypatch, shorten=(2,))
    assert len(lines) == 4 and lines[3] == f"numba     3456  {LONG}"


def test_on_a_terminal_long_text_goes_on_below_itself(monkeypatch):
    lines = lines_on(Terminal(), monkeypatch)
    assert max(map(len, lines)) <= 40 and lines[2] == "numpy       12  short"
    start = lines[0].index("what it is")
    assert lines[3].startswith("numba     3456  ") and all(line[:start].isspace() for line in lines[4:])
    assert " ".join(line[start:] for line in lines[3:]) == LONG


def test_a_column_that_is_shortened_keeps_one_line_a_row(monkeypatch):
    lines = lines_on(Terminal(), monkeypatch, shorten=(2,))
    assert len(lines) == 4 and max(map(len, lines)) == 40
    assert lines[3].endswith("…") and LONG.startswith(lines[3][16:-1])


def test_the_widest_column_gives_way_first_and_numbers_never():
    rows = [("x" * 30, "9" * 30, "word " * 20)]
    lines = table(("one", "two", "three"), rows, right=(1,), width=100).splitlines()
    assert lines[1] == "  ".join("-" * width for width in (30, 30, 36))
    lines = table(("one", "two", "three"), rows, right=(1,), width=10).splitlines()
    assert lines[1] == "  ".join("-" * width for width in (NARROWEST, 30, NARROWEST)), "below that nobody can read it"
    assert "9" * 30 in lines[2]


def test_an_indented_entry_keeps_its_indent():
    assert table(("part",), [("  inner part of the whole model",)], width=24).splitlines()[2].startswith("  inner")
