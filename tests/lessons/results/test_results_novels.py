"""Cutting the novels: what is held out has never been trained on."""

import pytest

from lessons.results import novels
from minitransformer.errors import UserError

BOOKS, PARAGRAPHS = 41, 7  # of 41 books, numbers 0, 20 and 40 are held out


@pytest.fixture
def cut(tmp_path, monkeypatch):
    """Every paragraph says of which book it is; blank lines between books, spaces around lines."""
    monkeypatch.setattr(novels, "LAB_LINES", 50)
    monkeypatch.setattr(novels, "VALID_LINES", 10)
    books = ["\n".join(f" livre {book} paragraphe {n} " for n in range(PARAGRAPHS)) for book in range(BOOKS)]
    (tmp_path / "novels.txt").write_text("\n\n".join(books) + "\n\n\n\n", encoding="utf-8")
    counts = novels.cut(str(tmp_path / "novels.txt"), str(tmp_path / "cut"))
    files = {name: (tmp_path / "cut" / f"{name}.txt").read_text(encoding="utf-8").splitlines() for name in counts}
    return counts, files


def test_held_out_novels_never_appear_in_training(cut):
    _, files = cut
    books = {name: {int(line.split()[1]) for line in lines} for name, lines in files.items()}
    assert books["train"] == set(range(BOOKS)) - {0, 20, 40}
    assert books["lab"] <= books["train"]
    assert books["valid"] <= {0, 20, 40}


def test_counts_are_those_of_the_files_and_no_paragraph_is_drawn_twice(cut):
    counts, files = cut
    assert counts == {"train": (BOOKS - 3) * PARAGRAPHS, "lab": 50, "valid": 10}
    for name, lines in files.items():
        assert len(lines) == len(set(lines)) == counts[name]
        assert all(line == line.strip() != "" for line in lines)


def test_the_same_cut_every_time(cut, tmp_path):
    _, files = cut
    novels.cut(str(tmp_path / "novels.txt"), str(tmp_path / "again"))
    for name, lines in files.items():
        assert (tmp_path / "again" / f"{name}.txt").read_text(encoding="utf-8").splitlines() == lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [([], "give the file of novels"), (["nowhere", "x"], "cannot read nowhere"), (["few.txt", "x"], "are needed")],
)
def test_what_is_missing_is_said_in_one_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few.txt").write_text("un\n\ndeux\n", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        novels.main(arguments)
    assert not (tmp_path / "x").exists()
