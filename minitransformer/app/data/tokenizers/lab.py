"""The labs' form: text already cut into pieces (`.spm`) and a `dict.txt` that numbers them.

`dict.txt` has "piece count" on each line; the piece on line i, counted from 0, has the id i + 4.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, BinaryIO

from minitransformer.app.data.readers.lines import Path, numbered_lines, read_bytes, require_some
from minitransformer.app.data.tokenizers.json_files import FilesInFolder, entry
from minitransformer.app.data.tokenizers.piece_model import load_processor
from minitransformer.app.data.tokenizers.pieces import encode_with, join_with, match_ids, pack_model, read_model
from minitransformer.app.data.tokenizers.tokenizer import Tokenizer
from minitransformer.errors import DataError, excerpt

DICT_FILE = "dict.txt"
_SPACE = "▁"  # sentencepiece's mark for the space before a word


class LabTokenizer(Tokenizer):
    """Pieces from a dictionary. With the sentencepiece model that made them, raw text can be encoded too."""

    kind = "lab"

    def __init__(
        self,
        pieces: Sequence[str],
        counts: Sequence[int],
        *,
        model: bytes | None = None,
        extra_specials: Sequence[str] = (),
        name: str | None = None,
        model_path: Path = "<model>",
    ):
        super().__init__(pieces, extra_specials, name)
        self.counts = tuple(counts)
        self.model = model
        if model is not None:
            self._processor, table = load_processor(model_path, model)
            self._ours, self._theirs = match_ids(table, self)

    @classmethod
    def from_files(
        cls,
        dict_path: Path,
        model_path: Path | None = None,
        *,
        extra_specials: Sequence[str] = (),
        name: str | None = None,
    ) -> LabTokenizer:
        """Read `dict.txt` and, if given, the sentencepiece model."""
        pieces, counts = read_dict(dict_path)
        model = None if model_path is None else read_bytes(model_path)
        where = "<model>" if model_path is None else model_path
        return cls(pieces, counts, model=model, extra_specials=extra_specials, name=name, model_path=where)

    def encode(self, text: str) -> list[int]:
        """Raw text to ids. For a line of an `.spm` file use `encode_pieces`."""
        if self.model is None:
            raise ValueError(
                "this tokenizer has a dictionary only, and cannot cut raw text into pieces: "
                "give it the sentencepiece model, or call encode_pieces with text already cut"
            )
        return encode_with(self._processor, self._ours, text)

    def _join(self, ids: list[int]) -> str:
        if self.model is not None:
            return join_with(self._processor, self._theirs, self, ids)
        shown = (f"{_SPACE}{self.piece(t)}{_SPACE}" if self.is_special(t) else self.piece(t) for t in ids)
        return " ".join("".join(shown).replace(_SPACE, " ").split())

    def _pack(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        lines = (f"{piece} {count}\n" for piece, count in zip(self.pieces, self.counts, strict=True))
        entries, files = ({"model": None}, {}) if self.model is None else pack_model(self.model)
        return entries, files | {DICT_FILE: "".join(lines).encode("utf-8")}

    @classmethod
    def _read(
        cls, files: FilesInFolder, path: str, description: dict[str, Any], extra: list[str], name: str
    ) -> LabTokenizer:
        pieces, counts = read_dict(files.path(DICT_FILE), io.BytesIO(files.read(DICT_FILE)))
        model_path, model = "<model>", None
        if "model" not in description or description["model"] is not None:
            entry(path, description, "model", str)
            model_path, model = read_model(files, path, description)
        return cls(pieces, counts, model=model, extra_specials=extra, name=name, model_path=model_path)


def read_dict(path: Path, content: BinaryIO | None = None) -> tuple[list[str], list[int]]:
    """The pieces and counts of a `dict.txt`, or of its content. A line out of shape would shift every id after it: no
    line is skipped, empty ones included."""
    pieces: list[str] = []
    counts: list[int] = []
    first_line: dict[str, int] = {}
    for number, line in numbered_lines(path, content=content):
        piece, _, count = line.rpartition(" ")
        if not piece or " " in piece or not (count.isascii() and count.isdigit() and len(count) < 19):
            advice = "each line is a piece, a space and a whole number"
            raise DataError(path, number, excerpt(line), "'piece count'", advice)
        if piece in first_line:
            found, expected = (
                f"the piece {excerpt(piece)} of line {first_line[piece]} again",
                "no piece twice",
            )
            raise DataError(path, number, found, expected, "remove one of the two")
        first_line[piece] = number
        pieces.append(piece)
        counts.append(int(count))
    require_some(path, len(pieces), "piece")
    return pieces, counts
