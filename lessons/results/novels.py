"""Cuts the hundred French novels into training and held-out text: python -m lessons.results.novels NOVELS FOLDER

Every twentieth novel is held out whole: a paragraph of a novel whose other half was read would be too easy.
lab.txt has as many lines as the labs' file: 50,000 paragraphs, drawn from all the training novels.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterable

from minitransformer.app.cli.main import orderly
from minitransformer.errors import UserError

HELD_OUT = 20  # every so many novels, one is held out
LAB_LINES = 50_000
VALID_LINES = 1_000


def cut(novels: str, folder: str) -> dict[str, int]:
    """Writes train.txt, lab.txt and valid.txt, one paragraph a line, and returns how many lines each has."""
    try:
        with open(novels, encoding="utf-8") as file:
            books = [book.split("\n") for book in file.read().split("\n\n") if book.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"cannot read {novels} ({error}); give the file of novels, an empty line between them"
        ) from None
    draw = random.Random(0)
    train = [line for n, book in enumerate(books) if n % HELD_OUT for line in _paragraphs(book)]
    held = [line for n, book in enumerate(books) if not n % HELD_OUT for line in _paragraphs(book)]
    if len(train) < LAB_LINES or len(held) < VALID_LINES:
        found = f"{len(train):,} paragraphs to learn from and {len(held):,} held out"
        raise UserError(f"{novels}: {found}; at least {LAB_LINES:,} and {VALID_LINES:,} are needed")
    files = {"train": train, "lab": draw.sample(train, LAB_LINES), "valid": draw.sample(held, VALID_LINES)}
    os.makedirs(folder, exist_ok=True)
    for name, lines in files.items():
        with open(os.path.join(folder, f"{name}.txt"), "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    return {name: len(lines) for name, lines in files.items()}


def _paragraphs(book: Iterable[str]) -> list[str]:
    return [line.strip() for line in book if line.strip()]


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        raise UserError("give the file of novels and the folder to write to")
    for name, lines in cut(*arguments).items():
        print(f"{name}.txt: {lines:,} paragraphs")
    return 0


if __name__ == "__main__":
    sys.exit(orderly("novels", lambda: main(sys.argv[1:])))
