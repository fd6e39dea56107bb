"""BERT's WordPiece as a tokenizer of a run: the same pieces, under our numbers.

    ours      <sos>  <pad>  <eos>  <oov>   4 ...
    BERT's    [CLS]  [PAD]  [SEP]  [UNK]   all others in their order

`rows` says which of BERT's ids each of ours is, so that a table of embeddings can be put in our order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitransformer.app.data.tokenizers.json_files import FilesInFolder, entry
from minitransformer.app.data.tokenizers.tokenizer import Tokenizer
from minitransformer.errors import DataError, UserError
from minitransformer.pretrained.wordpiece import WordPiece

MARKS = ("[CLS]", "[PAD]", "[SEP]", "[UNK]")  # in the order of BASE_SPECIALS


class WordPieceTokenizer(Tokenizer):
    """vocabulary: BERT's pieces, in the order of their ids there."""

    kind = "wordpiece"

    def __init__(
        self, vocabulary: Sequence[str], *, lower: bool, strip_accents: bool, chinese: bool, name: str | None = None
    ):
        theirs = {piece: i for i, piece in enumerate(vocabulary)}
        try:
            self.cutter = WordPiece(theirs, lower=lower, strip_accents=strip_accents, chinese=chinese)
        except UserError as error:
            raise ValueError(str(error)) from None
        super().__init__([piece for piece in vocabulary if piece not in MARKS], (), name)
        self.vocabulary = tuple(vocabulary)
        self.rows = np.array([theirs[mark] for mark in MARKS] + [theirs[piece] for piece in self.pieces])  # (V,)
        self._ours = {int(row): i for i, row in enumerate(self.rows)}
        self.specials |= {"[MASK]": self._id_of["[MASK]"]}  # hides words; it stays where BERT has it

    @classmethod
    def of(cls, cutter: WordPiece) -> WordPieceTokenizer:
        """One that was read from BERT's own files."""
        vocabulary = sorted(cutter.vocabulary, key=cutter.vocabulary.__getitem__)
        if cutter.added or [cutter.vocabulary[piece] for piece in vocabulary] != list(range(len(vocabulary))):
            raise UserError("this vocabulary has gaps or words added to it, which cannot be trained on here")
        return cls(vocabulary, lower=cutter.lower, strip_accents=cutter.strip_accents, chinese=cutter.chinese)

    def encode(self, text: str) -> list[int]:
        return [self._ours[i] for i in self.cutter.encode(text, add_special=False, parse_special=False)]

    def _join(self, ids: list[int]) -> str:
        return self.cutter.decode([int(self.rows[i]) for i in ids], keep_special=True)

    def _pack(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        cutter = self.cutter
        how = {"lower": cutter.lower, "strip_accents": cutter.strip_accents, "chinese": cutter.chinese}
        return {**how, "vocabulary": list(self.vocabulary)}, {}

    @classmethod
    def _read(
        cls, files: FilesInFolder, path: str, description: dict[str, Any], extra: list[str], name: str
    ) -> WordPieceTokenizer:
        vocabulary = entry(path, description, "vocabulary", list)
        if not all(isinstance(piece, str) and piece for piece in vocabulary) or extra:
            raise DataError(path, 1, "a piece that is no string", "non-empty strings", "restore it from a copy")
        how = {key: entry(path, description, key, bool) for key in ("lower", "strip_accents", "chinese")}
        return cls(vocabulary, **how, name=name)
