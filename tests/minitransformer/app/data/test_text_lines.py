"""Lines and errors: what a file may contain, and the one-line message when it contains something else."""

import os
import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from minitransformer.app.data import DataError, read_documents, read_sections
from minitransformer.app.data.readers.lines import numbered_lines
from minitransformer.errors import excerpt


def write(folder, name, data):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    return path


def error_of(path, call=read_documents, **options):
    with pytest.raises(DataError) as caught:
        call(path, **options)
    message = str(caught.value)
    assert "\n" not in message and "\r" not in message
    assert message.startswith(f"{path}:{caught.value.line}: found ")
    assert ", expected " in message and "; " in message
    return caught.value


def test_lines_end_only_at_line_feeds(tmp_path):
    # str.splitlines would find seven lines here, and labels after the first would shift.
    text = "a\u2028b\x0bc\n d\u0085e\x1c\x0c f\r\nlast\rone"
    path = write(tmp_path, "a.txt", text)
    assert list(numbered_lines(path)) == [(1, "a\u2028b\x0bc"), (2, " d\u0085e\x1c\x0c f"), (3, "last\rone")]


def test_spaces_and_tabs_at_the_end_belong_to_the_line(tmp_path):
    assert list(numbered_lines(write(tmp_path, "a.txt", "a\t \r\n\t\n"))) == [(1, "a\t "), (2, "\t")]


def test_byte_order_mark_is_dropped_only_at_the_start(tmp_path):
    path = write(tmp_path, "a.txt", b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")
    assert [line for _, line in numbered_lines(path)] == ["one", "\ufefftwo"]


def test_documents_skip_empty_lines_and_sections_end_at_them(tmp_path):
    path = write(tmp_path, "a.txt", "\none\ntwo\n\n \nthree\n\n")
    assert read_documents(path) == ["one", "two", "three"]
    assert read_sections(path) == [["one", "two"], ["three"]]


def test_not_utf8_names_line_and_byte(tmp_path):
    error = error_of(write(tmp_path, "a.txt", b"good\nbad \xe9t\xe9\n"))
    assert error.line == 2 and "0xe9" in str(error) and "byte 5 of the line" in str(error)


def test_nul_byte(tmp_path):
    error = error_of(write(tmp_path, "a.txt", "ab\ncd\n".encode("utf-16-le")))
    assert error.line == 1 and "NUL" in str(error)


@pytest.mark.parametrize("content", ["", "\n\n  \n"])
def test_empty_file(tmp_path, content):
    assert "empty file" in str(error_of(write(tmp_path, "a.txt", content)))


def test_missing_file_and_directory_and_odd_names(tmp_path):
    assert "no such file" in str(error_of(tmp_path / "none.txt"))
    assert "a directory" in str(error_of(tmp_path))
    for name in ("", "a\0b", "x" * 5000):
        with pytest.raises(DataError):
            read_documents(name)


def test_line_break_in_a_file_name_stays_one_line(tmp_path):
    with pytest.raises(DataError) as caught:
        read_documents(tmp_path / "a\nb.txt")
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user who can be refused a file")
def test_unreadable_file(tmp_path):
    path = write(tmp_path, "a.txt", "x")
    path.chmod(0)
    assert "may not read" in str(error_of(path))


def test_long_line_is_refused_at_the_limit_and_not_before(tmp_path):
    assert read_documents(write(tmp_path, "a.txt", "x" * 100 + "\r\n"), max_line_bytes=100) == ["x" * 100]
    assert read_documents(write(tmp_path, "a.txt", "x" * 100), max_line_bytes=100) == ["x" * 100]
    error = error_of(write(tmp_path, "a.txt", "ok\n" + "x" * 101), max_line_bytes=100)
    assert error.line == 2


def test_a_huge_line_does_not_fill_the_memory(tmp_path):
    path = write(tmp_path, "a.txt", b"x" * 20_000_000)
    tracemalloc.start()
    error_of(path, max_line_bytes=100_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000  # twenty times the limit for one line, a tenth of the file


def test_error_survives_pickling_between_processes():
    error = DataError("f.txt", 3, "a", "b", "c")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) == "f.txt:3: found a, expected b; c" and copy.line == 3


def test_excerpts_are_short_and_printable():
    for value in ("x" * 500, "a\nb", "\ud800", [1] * 1000, 10**5000, 3.5, None, {"a": 1}):
        text = excerpt(value)
        assert len(text) < 80 and text.encode("utf-8") and "\n" not in text


def test_import_does_not_load_sentencepiece():
    code = "import sys, minitransformer.app.data; assert 'sentencepiece' not in sys.modules"
    root = Path(__file__).resolve().parents[4]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, timeout=60)
