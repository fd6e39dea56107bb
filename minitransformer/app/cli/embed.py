"""Turn texts into vectors: texts of like meaning lie close together, whatever their words.

With two texts or a few it prints how close they are (1: the same, 0: nothing in common). --out writes the vectors, one
row of length 1 a text. --search finds the lines of files, or of all text files in a folder, nearest to a question.

examples:
  minitransformer embed "The cat sat on the mat." "A kitten lay on the rug." "Interest rates went up."
  minitransformer embed --file reviews.txt --out reviews.npy
  minitransformer embed --search "Which animals are there?" notes/ letter.txt
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minitransformer.app.cli import numbers
from minitransformer.app.cli import text_input as _input
from minitransformer.app.cli.main import add_backend
from minitransformer.app.cli.namespace import options_of
from minitransformer.app.tasks import borrowed
from minitransformer.errors import UserError, excerpt, system_error

if TYPE_CHECKING:
    import numpy as np

MERELY_PRINTS = True
FEW = 12  # texts whose closeness still fits a table
WIDTH = 100  # of a line that was found
LARGEST = 16 * 2**20  # bytes of a file to search in
LEAST = 3  # letters of a line worth finding


@dataclass(frozen=True)
class Options(_input.TextOptions):
    search: str | None = None
    out: str | None = None
    count: int = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _input.add_input(parser, "texts, or files and folders to search in")
    parser.add_argument("--search", metavar="QUESTION", help="find the lines nearest to this")
    parser.add_argument(
        "--count", type=numbers.at_least_one, default=5, metavar="N", help="how many lines to find (default: 5)"
    )
    parser.add_argument("--out", metavar="FILE.npy", help="write the vectors there")
    parser.add_argument("--model", metavar="MODEL", default="minilm", help=f"{borrowed.SOURCES} (default: minilm)")
    add_backend(parser)


def run(arguments: argparse.Namespace) -> int:
    options = options_of(Options, arguments)
    if options.search is not None:
        if options.out or options.file:
            raise UserError("--search prints lines: leave out --out and --file, and name files or folders")
        question = _input.checked(options.search).strip()
        if not question:
            raise UserError("--search: the question is empty")
        _search(question, options)
        return 0
    texts = _input.texts_from(options)
    if not texts:
        raise UserError("there is nothing to embed: give texts, --file FILE, or lines through a pipe")
    if options.out is None and len(texts) > FEW:
        raise UserError(f"{len(texts):,} texts are too many for a table: name a file for their vectors, --out FILE.npy")
    if options.out is not None and not options.out.endswith(".npy"):
        raise UserError(f"--out {excerpt(options.out)}: vectors go to a file of NumPy, whose name ends in .npy")
    if options.out is not None and not os.path.isdir(os.path.dirname(options.out) or "."):
        raise UserError(f"--out {options.out}: there is no folder {os.path.dirname(options.out)}")
    for name in filter(os.path.isfile, options.text):
        print(f"note: {name} is taken for a text; for what is in this file: --file {name}", file=sys.stderr, flush=True)
    made = _vectors(options, texts)
    if options.out is None:
        _table(texts, made)
    else:
        _write(made, options.out)
    return 0


def _vectors(options: Options, texts: Sequence[str]) -> np.ndarray:
    from minitransformer.download import Line
    from minitransformer.pretrained.sentences import vectors

    model, tokenizer = borrowed.borrow(options.model or "minilm", "sentences", "minilm can")
    line = Line(sys.stderr)
    try:
        return vectors(model.fuse(), tokenizer, texts, lambda done: line.show("reading", f"{done:,} of {len(texts):,}"))
    finally:
        line.close()


def _table(texts: Sequence[str], made: np.ndarray) -> None:
    from minitransformer.app.tables import table

    rows = [(str(i + 1), *(f"{one:.2f}" for one in made @ made[i]), _short(texts[i])) for i in range(len(texts))]
    header = ["", *(str(i + 1) for i in range(len(texts))), "text"]
    print(table(header, rows, right=range(len(texts) + 1)))


def _write(made: np.ndarray, path: str) -> None:
    import io

    import numpy as np

    from minitransformer.durable import write_whole

    content = io.BytesIO()
    np.save(content, made, allow_pickle=False)
    try:
        write_whole(path, content.getvalue())
    except OSError as error:
        raise system_error(path, "cannot be written", error) from None
    vectors = "vector" if len(made) == 1 else "vectors"
    print(f"{len(made):,} {vectors} of {made.shape[1]} numbers written to {path}")


def _search(question: str, options: Options) -> None:
    import numpy as np

    if not options.text:
        raise UserError("search where? name files or folders after the question")
    places = [one for path in options.text for one in _lines_in(_input.checked(path))]
    if not places:
        raise UserError(f"there are no lines of text in {', '.join(options.text[:3])}")
    different = list(dict.fromkeys(text for _, _, text in places))
    made = _vectors(options, [question, *different])
    close = dict(zip(different, (made[1:] @ made[0]).tolist(), strict=True))
    order = np.argsort([-close[text] for _, _, text in places], kind="stable")[: options.count]
    for path, number, text in (places[i] for i in order):
        print(f"{close[text]:.2f}  {path}:{number}  {_short(text)}")


def _lines_in(path: str) -> Iterator[tuple[str, int, str]]:
    """File, number and text of every line that says something. A folder's files that are not text are passed over."""
    if not os.path.exists(path):
        raise UserError(f"{path}: there is no such file or folder")
    if not os.path.isdir(path):
        yield from _lines_of(path, asked=True)
        return
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith("."):
                yield from _lines_of(os.path.join(folder, name), asked=False)


def _lines_of(path: str, asked: bool) -> Iterator[tuple[str, int, str]]:
    """asked: it was named by the user, who must hear why it cannot be read."""
    problem: Any = None
    try:
        if not os.path.isfile(path):  # reading a pipe might never end
            problem = "is not an ordinary file"
        elif os.path.getsize(path) > LARGEST:
            problem = f"is larger than {LARGEST // 2**20} MB"
        else:
            with open(path, encoding="utf-8-sig", newline=None) as file:
                content = file.read()
            if "\0" not in content:
                for number, line in enumerate(content.split("\n"), 1):
                    if sum(map(str.isalpha, line)) >= LEAST:
                        yield path, number, line.strip()
                return
            problem = "is not text"
    except UnicodeDecodeError:
        problem = "is not text in UTF-8"
    except OSError as error:
        problem = system_error(path, "cannot be read", error).found
    if asked:
        raise UserError(f"{path}: {problem}; name a file of text")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
