"""Cutting the novels: what is held out has never been trained on."""

import pytest

from lessons.results import novels

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
