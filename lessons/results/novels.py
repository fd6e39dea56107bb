"""Cuts the hundred French novels into training and held-out text: python -m lessons.results.novels NOVELS FOLDER

Every twentieth novel is held out whole: a paragraph of a novel whose other half was read would be too easy.
lab.txt has as many lines as the labs' file: 50,000 paragraphs, drawn from all the training novels. long.txt has the
text of train.txt in pieces of the length of a review: most paragraphs of a novel are a line of dialogue.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterable, Iterator

from lessons.results.figures import run_script
from minitransformer.cli import UserError

HELD_OUT = 20  # every so many novels, one is held out
LAB_LINES = 50_000
VALID_LINES = 1_000
LONG = 100  # words that a line of long.txt has at least, but for the last one of a novel


def cut(novels: str, folder: str) -> dict[str, int]:
    """Writes train.txt, lab.txt, valid.txt and long.txt, and returns how many lines each has."""
    try:
        with open(novels, encoding="utf-8") as file:
            books = [book.split("\n") for book in file.read().split("\n\n") if book.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"cannot read {novels} ({error}); give the file of novels, an empty line between them"
        ) from None
    draw = random.Random(0)
    learnt = [_paragraphs(book) for n, book in enumerate(books) if n % HELD_OUT]
    train = [line for paragraphs in learnt for line in paragraphs]
    held = [line for n, book in enumerate(books) if not n % HELD_OUT for line in _paragraphs(book)]
    if len(train) < LAB_LINES or len(held) < VALID_LINES:
        found = f"{len(train):,} paragraphs to learn from and {len(held):,} held out"
        raise UserError(f"{novels}: {found}; at least {LAB_LINES:,} and {VALID_LINES:,} are needed")
    files = {"train": train, "lab": draw.sample(train, LAB_LINES), "valid": draw.sample(held, VALID_LINES)}
    files["long"] = [line for paragraphs in learnt for line in _joined(paragraphs)]
    os.makedirs(folder, exist_ok=True)
    for name, lines in files.items():
        with open(os.path.join(folder, f"{name}.txt"), "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    return {name: len(lines) for name, lines in files.items()}


def _paragraphs(book: Iterable[str]) -> list[str]:
    return [line.strip() for line in book if line.strip()]


def _joined(paragraphs: Iterable[str]) -> Iterator[str]:
    """Paragraphs that follow each other, in one line until it has LONG words."""
    line: list[str] = []
    for paragraph in paragraphs:
        line.append(paragraph)
        if sum(len(part.split()) for part in line) >= LONG:
            yield " ".join(line)
            line = []
    if line:
        yield " ".join(line)


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        raise UserError("give the file of novels and the folder to write to")
    for name, lines in cut(*arguments).items():
        print(f"{name}.txt: {lines:,} lines")
    return 0


if __name__ == "__main__":
    sys.exit(run_script("novels", lambda: main(sys.argv[1:])))
