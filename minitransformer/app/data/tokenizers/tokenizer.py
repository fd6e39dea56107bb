"""The interface all tokenizers share: text to ids and back, special ids, a folder of readable files.

    id            0      1      2      3      4 .. 4+P-1         4+P .. V-1
    meaning     <sos>  <pad>  <eos>  <oov>    the P pieces       extra specials, e.g. [CLS] [SEP] [MASK]

Extra specials come last so that adding them shifts no piece: a table of embeddings only grows at its end.
Specials never come out of `encode`, whatever the text says: a review that contains "<eos>" ends no document.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from minitransformer.app.data.readers.lines import Path
from minitransformer.app.data.tokenizers.json_files import FilesInFolder, entry, json_bytes, json_object
from minitransformer.durable import make_folder, write_whole
from minitransformer.errors import DataError, FileError, excerpt, system_error

BASE_SPECIALS = ("<sos>", "<pad>", "<eos>", "<oov>")
BERT_SPECIALS = ("[CLS]", "[SEP]", "[MASK]")
DESCRIPTION = "tokenizer.json"
_FORMAT = "minitransformer tokenizer 1"

Self = TypeVar("Self", bound="Tokenizer")


class Tokenizer(ABC):
    """Subclasses give `pieces` to `__init__`, and define `encode`, `_join` and the two halves of storage."""

    kind: ClassVar[str]
    sos, pad, eos, oov = range(4)

    def __init__(self, pieces: Sequence[str], extra_specials: Sequence[str] = (), name: str | None = None):
        self.pieces = tuple(pieces)
        self.extra_specials = tuple(extra_specials)
        self.name = self.kind if name is None else name
        everything = (*BASE_SPECIALS, *self.extra_specials)
        if len(set(everything)) != len(everything) or not all(everything):
            raise ValueError(f"extra_specials={list(extra_specials)}: give new names, each once")
        try:
            "".join((*self.pieces, *everything, self.name)).encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("half a surrogate pair in a piece or a name: remove it") from None
        self.first_extra = len(BASE_SPECIALS) + len(self.pieces)
        self.specials: dict[str, int] = {special: i for i, special in enumerate(BASE_SPECIALS)}
        self.specials |= {special: self.first_extra + i for i, special in enumerate(self.extra_specials)}
        self._id_of = {piece: len(BASE_SPECIALS) + i for i, piece in enumerate(self.pieces)}
        if len(self._id_of) != len(self.pieces):
            raise ValueError("a piece occurs twice in the vocabulary: give each piece once")

    @property
    def vocab_size(self) -> int:
        """V: specials, pieces and extra specials together."""
        return self.first_extra + len(self.extra_specials)

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The ids of a text's pieces, without `<sos>` or `<eos>`: the batches add what their task needs."""

    def decode(self, ids: Iterable[int], keep_specials: bool = False) -> str:
        """Readable text. `<oov>` is shown, other specials only with `keep_specials`."""
        shown: list[int] = []
        for value in ids:
            token = int(value)
            self._check_id(token)
            if keep_specials or token == self.oov or not self.is_special(token):
                shown.append(token)
        return self._join(shown)

    def piece(self, token: int) -> str:
        """The name of one id, special or not."""
        self._check_id(token)
        if token < len(BASE_SPECIALS):
            return BASE_SPECIALS[token]
        if token >= self.first_extra:
            return self.extra_specials[token - self.first_extra]
        return self.pieces[token - len(BASE_SPECIALS)]

    def _check_id(self, token: int) -> None:
        if not 0 <= token < self.vocab_size:
            raise ValueError(f"id {token} is outside the vocabulary: ids go from 0 to {self.vocab_size - 1}")

    def is_special(self, token: int) -> bool:
        return token < len(BASE_SPECIALS) or token >= self.first_extra

    def special(self, name: str) -> int:
        """The id of a special by name; a missing one says how to get it."""
        if name not in self.specials:
            have = " ".join(self.specials)
            raise ValueError(f"no special token {name} (there are {have}): give extra_specials when making it")
        return self.specials[name]

    def encode_all(self, texts: Iterable[str], in_pieces: bool = False) -> list[np.ndarray]:
        """One array of ids (int32) for each text. `in_pieces`: texts are pieces separated by spaces."""
        one = self.encode_pieces if in_pieces else self.encode
        return [np.array(one(text), dtype=np.int32) for text in texts]

    def encode_pieces(self, pieces: str | Iterable[str]) -> list[int]:
        """The ids of text already cut: a sequence of pieces, or one string with spaces between them."""
        if isinstance(pieces, str):
            pieces = pieces.split(" ")
        return [self._id_of.get(piece, self.oov) for piece in pieces if piece]

    def files(self) -> dict[str, bytes]:
        """What `save` writes, by name: a model file where the kind has one, and last `tokenizer.json`."""
        entries, files = self._pack()
        description = {
            "format": _FORMAT,
            "kind": self.kind,
            "name": self.name,
            "extra_specials": list(self.extra_specials),
        }
        return files | {DESCRIPTION: json_bytes(description | entries)}

    def save(self, folder: Path) -> None:
        """Write the files into `folder`, made if missing. The description comes last: where it exists, the files it
        speaks of are complete."""
        try:
            make_folder(folder)
            for name, content in self.files().items():
                write_whole(os.path.join(folder, name), content)
        except OSError as error:
            raise system_error(folder, "the tokenizer cannot be written", error, FileError) from error

    @classmethod
    def load(cls: type[Self], folder: Path) -> Self:
        """Read back what `save` wrote. `load_tokenizer` does the same for a kind not known beforehand."""
        files = FilesInFolder(folder)
        path, description = read_description(files)
        if description["kind"] != cls.kind:
            expected, advice = f"a {cls.kind!r} tokenizer", "use load_tokenizer"
            raise DataError(path, 1, f"the kind {excerpt(description['kind'])}", expected, advice)
        return cls._from_description(files, path, description)

    @classmethod
    def _from_description(cls: type[Self], files: FilesInFolder, path: str, description: dict[str, Any]) -> Self:
        extra = entry(path, description, "extra_specials", list)
        if not all(isinstance(special, str) for special in extra):
            raise DataError(path, 1, "an extra special that is no string", "strings", "repair extra_specials")
        try:
            return cls._read(files, path, description, extra, entry(path, description, "name", str))
        except DataError:
            raise
        except ValueError as error:
            advice = "save the tokenizer again"
            raise DataError(path, 1, f"entries that do not fit ({error})", "what save writes", advice) from None

    @abstractmethod
    def _join(self, ids: list[int]) -> str:
        """Text of ids that are all in range."""

    @abstractmethod
    def _pack(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """This kind's own entries of the description, and its model files by name."""

    @classmethod
    @abstractmethod
    def _read(
        cls: type[Self], files: FilesInFolder, path: str, description: dict[str, Any], extra: list[str], name: str
    ) -> Self:
        """Undo `_pack`."""


def read_description(files: FilesInFolder) -> tuple[str, dict[str, Any]]:
    """The path and content of `tokenizer.json`, its format and kind checked."""
    path = files.path(DESCRIPTION)
    description = json_object(path, files.read(DESCRIPTION))
    if entry(path, description, "format", str) != _FORMAT:
        found, expected = f"the format {excerpt(description['format'])}", repr(_FORMAT)
        raise DataError(path, 1, found, expected, "save the tokenizer with this version")
    entry(path, description, "kind", str)
    return path, description


def load_tokenizer(files: Path | FilesInFolder) -> Tokenizer:
    """The tokenizer saved in a folder, or whose files are in memory, of whichever kind."""
    files = files if isinstance(files, FilesInFolder) else FilesInFolder(files)
    from minitransformer.app.data.tokenizers.lab import LabTokenizer
    from minitransformer.app.data.tokenizers.pieces import PieceTokenizer
    from minitransformer.app.data.tokenizers.wordpiece import WordPieceTokenizer
    from minitransformer.app.data.tokenizers.words import WordTokenizer

    there = (WordTokenizer, PieceTokenizer, LabTokenizer, WordPieceTokenizer)
    kinds: dict[str, type[Tokenizer]] = {kind.kind: kind for kind in there}
    path, description = read_description(files)
    kind = kinds.get(description["kind"])
    if kind is None:
        expected = f"one of {', '.join(kinds)}"
        raise DataError(path, 1, f"the kind {excerpt(description['kind'])}", expected, "check the folder")
    return kind._from_description(files, path, description)
