"""Odd environments and hand-made input at the door of the command line: one line each."""

import io
import json
import os
import tempfile

import pytest

from minitransformer.app import output
from minitransformer.app.cli import text_input
from minitransformer.app.cli.main import main
from minitransformer.app.cli.surroundings import tidy_up
from minitransformer.app.cli.text_input import TextOptions, texts_from
from minitransformer.app.data import PieceTokenizer
from minitransformer.app.data.readers import lines
from minitransformer.app.data.readers.lines import lines_as_they_come
from minitransformer.app.tasks.text_codec import TextCodec
from minitransformer.errors import DataError


@pytest.mark.parametrize(
    ("name", "value"),
    [("COLUMNS", "9" * 20), ("COLUMNS", "x"), ("CXX", "'"), ("NUMBA_THREADING_LAYER", "nonsense"), ("LINES", "-1")],
)
def test_variables_without_sense_are_left_out_and_that_is_said(monkeypatch, capsys, name, value):
    monkeypatch.setenv(name, value)
    tidy_up()
    assert name not in os.environ
    assert capsys.readouterr().err.startswith(f"note: {name}=")


def test_variables_with_sense_stay(monkeypatch, capsys):
    given = {"COLUMNS": "80", "CXX": "ccache g++", "NUMBA_THREADING_LAYER": "omp", "LINES": "24"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    tidy_up()
    assert {name: os.environ[name] for name in given} == given and capsys.readouterr().err == ""


class Endless(io.RawIOBase):
    def __init__(self, pattern):
        self.pattern, self.given = pattern, 0

    def readable(self):
        return True

    def readinto(self, buffer):
        buffer[:] = (self.pattern * (len(buffer) // len(self.pattern) + 1))[: len(buffer)]
        self.given += len(buffer)
        return len(buffer)


@pytest.mark.parametrize(("pattern", "found"), [(b"\0" * 1000, "a line of more than"), (b"word\n" * 200, "letters")])
def test_a_pipe_without_an_end_is_refused_before_memory_is_full(monkeypatch, pattern, found):
    monkeypatch.setattr(text_input, "MOST_LETTERS", 100_000)
    endless = Endless(pattern)

    class Stdin:
        buffer = io.BufferedReader(endless)

        def isatty(self):
            return False

    monkeypatch.setattr("sys.stdin", Stdin())
    with pytest.raises(DataError, match=found):
        texts_from(TextOptions())
    assert endless.given < 6e6


def test_lines_of_a_pipe_are_handed_on_as_they_come():
    """Before the next ones exist; cut anywhere, with the ends of lines of any system."""
    reading, writing = os.pipe()
    with open(reading, "rb") as stream:
        groups = lines_as_they_come("<pipe>", stream)
        os.write(writing, b"\xef\xbb\xbfone\r\ntwo\nth")
        assert next(groups) == [(1, "one"), (2, "two")]
        os.write(writing, b"ree\n\nf")
        assert next(groups) == [(3, "three"), (4, "")]
        os.write(writing, "ü".encode()[:1])
        os.write(writing, "ü".encode()[1:])
        os.close(writing)
        assert list(groups) == [[(5, "fü")]]


def test_a_closed_pipe_holds_no_lines(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    assert list(text_input.piped()) == []


def test_the_longest_line_of_a_pipe(monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 5)
    for content in (b"12345\n12345\r\n12345", b"12345\r\n"):
        found = [text for group in lines_as_they_come("x", io.BufferedReader(io.BytesIO(content))) for _, text in group]
        assert set(found) == {"12345"}
    for content in (b"123456\n", b"123456", b"1\n123456\n"):
        with pytest.raises(DataError, match="a line of more than 5 bytes"):
            list(lines_as_they_come("x", io.BufferedReader(io.BytesIO(content))))


def test_orders_to_the_terminal_are_shown_and_not_obeyed():
    shown = io.StringIO()
    output.Stream(shown).write("\033[2Ja\x9b31m\x07 b\tc\n\r\033[Kprogress")
    assert shown.getvalue() == "\\x1b[2Ja\\x9b31m\\x07 b\tc\n\r\033[Kprogress"


def test_tokenizers_are_packed_without_temporary_files(monkeypatch):
    tokenizer = PieceTokenizer.train(["some text to learn from"] * 20, vocab_size=40, threads=1)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda *_, **__: pytest.fail("a temporary folder"))
    packed = TextCodec(tokenizer).pack()
    assert TextCodec.unpack(packed, "x").tokenizer.pieces == tokenizer.pieces


@pytest.mark.parametrize("arguments", ["bench --rounds 0", "bench --rounds -1", "pretrain --lr 1e20"])
def test_numbers_that_cannot_be(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        main(arguments.split())
    error = capsys.readouterr().err
    assert stop.value.code == 2 and error.count("\n") == 1
    assert "below 2^63" in error if "lr" in arguments else "from 1 on" in error


@pytest.mark.parametrize(
    "record",
    [
        [], {}, {"lessons": [], "claims": [1], "controls": {}},
        {"lessons": [{"lesson": 1}], "claims": [], "controls": {}},
        {"lessons": [], "claims": [], "controls": []},
    ],
)  # fmt: skip
def test_a_record_of_claims_written_by_hand(tmp_path, monkeypatch, capsys, record):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "claims.json").write_text(json.dumps(record))
    assert main(["claims"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
