"""Sentencepiece: pieces of words learnt from text, so that rare words are spelt out instead of lost."""

from __future__ import annotations

import hashlib
import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from minitransformer.app.data.readers.lines import Path, read_bytes
from minitransformer.app.data.tokenizers.json_files import FilesInFolder, entry
from minitransformer.app.data.tokenizers.piece_model import (
    BYTE,
    NORMAL,
    UNUSED,
    USER_DEFINED,
    ModelPiece,
    load_processor,
)
from minitransformer.app.data.tokenizers.tokenizer import BASE_SPECIALS, Tokenizer
from minitransformer.errors import DataError, excerpt

MODEL_FILE = "sentencepiece.model"
# The trainer skips a sentence over 4,192 bytes without a word. 1,000 characters are at most 4,000 bytes.
_LONGEST_SENTENCE = 1000


class PieceTokenizer(Tokenizer):
    """Pieces in the model's order. Its control symbols (`<s>`, `</s>`, `<unk>`) are left out for ours."""

    kind = "sentencepiece"

    def __init__(
        self,
        model: bytes,
        *,
        extra_specials: Sequence[str] = (),
        name: str | None = None,
        path: Path = "<model>",
    ):
        self.model = model
        self._processor, table = load_processor(path, model)
        super().__init__([piece.text for piece in table if _is_text(piece)], extra_specials, name)
        self._ours, self._theirs = match_ids(table, self)

    @classmethod
    def from_file(cls, path: Path, *, extra_specials: Sequence[str] = (), name: str | None = None) -> PieceTokenizer:
        """A model that sentencepiece wrote, ours or another's."""
        return cls(read_bytes(path), extra_specials=extra_specials, name=name, path=path)

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        *,
        vocab_size: int = 8000,
        model_type: str = "unigram",
        character_coverage: float = 1.0,
        byte_fallback: bool = False,
        threads: int = 1,
        extra_specials: Sequence[str] = (),
        name: str | None = None,
    ) -> PieceTokenizer:
        """Learn pieces from lines of text. `vocab_size` is the tokenizer's, specials included; little text
        may give fewer. The same lines and `threads` give the same model, byte for byte (the number of threads
        changes the order of sums). `byte_fallback` spells unknown characters as bytes: nothing is `<oov>`."""
        if model_type not in ("unigram", "bpe"):
            raise ValueError(f"model_type={model_type!r}: choose 'unigram' or 'bpe'")
        model = _train(
            lines,
            # One more than our pieces: sentencepiece counts its own <unk>.
            vocab_size=vocab_size - len(BASE_SPECIALS) - len(extra_specials) + 1,
            model_type=model_type,
            character_coverage=character_coverage,
            byte_fallback=byte_fallback,
            num_threads=threads,
        )
        return cls(model, extra_specials=extra_specials, name=name)

    def encode(self, text: str) -> list[int]:
        return encode_with(self._processor, self._ours, text)

    def _join(self, ids: list[int]) -> str:
        return join_with(self._processor, self._theirs, self, ids)

    def _pack(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        return pack_model(self.model)

    @classmethod
    def _read(
        cls, files: FilesInFolder, path: str, description: dict[str, Any], extra: list[str], name: str
    ) -> PieceTokenizer:
        model_path, model = read_model(files, path, description)
        return cls(model, extra_specials=extra, name=name, path=model_path)


def match_ids(table: list[ModelPiece], tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Two tables of ids: `ours[their id]` (oov for what we do not have), `theirs[our id]` (-1 likewise)."""
    ours = np.full(len(table), tokenizer.oov)
    theirs = np.full(tokenizer.vocab_size, -1)
    for index, piece in enumerate(table):
        token = tokenizer._id_of.get(piece.text)
        if token is not None and _is_text(piece):
            ours[index] = token
            theirs[token] = index
    return ours, theirs


def encode_with(processor: Any, ours: np.ndarray, text: str) -> list[int]:
    """Ask for ids, not strings: a normalizer may cut a character, and its half would not decode as text."""
    try:
        return ours[processor.encode(text)].tolist() if text else []
    except RuntimeError:
        # The library takes UTF-8 only, and half a surrogate pair has none.
        raise ValueError(f"text that is not valid Unicode: {excerpt(text)}; remove lone surrogates") from None


def join_with(processor: Any, theirs: np.ndarray, tokenizer: Tokenizer, ids: list[int]) -> str:
    """Let sentencepiece join runs of its own pieces; show what it does not know between them."""
    parts: list[str] = []
    run: list[int] = []
    for token in ids:
        if theirs[token] >= 0:
            run.append(int(theirs[token]))
        else:
            parts += [processor.decode(run), tokenizer.piece(token)]
            run = []
    parts.append(processor.decode(run))
    return " ".join(part.strip() for part in parts if part.strip())


def pack_model(model: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """A model as a file; the description keeps its checksum, so that damage is found before it is loaded."""
    return {"model": MODEL_FILE, "sha256": hashlib.sha256(model).hexdigest()}, {MODEL_FILE: model}


def read_model(files: FilesInFolder, path: str, description: dict[str, Any]) -> tuple[str, bytes]:
    """The path and bytes of the model that the description at `path` names."""
    file = entry(path, description, "model", str)
    if file != MODEL_FILE:  # also keeps a description from reaching outside its folder
        raise DataError(path, 1, f"the model file {excerpt(file)}", MODEL_FILE, "save the tokenizer again")
    model_path, model = files.path(file), files.read(file)
    if hashlib.sha256(model).hexdigest() != entry(path, description, "sha256", str):
        found, expected = "a file that was changed", "the checksum in tokenizer.json"
        raise DataError(model_path, 0, found, expected, "copy the folder again")
    return model_path, model


def _train(lines: Iterable[str], **options: Any) -> bytes:
    import sentencepiece

    failure: list[Exception] = []

    def sentences() -> Iterator[str]:
        # The library turns any exception from here into a RuntimeError of its own: keep the real one.
        try:
            for line in lines:
                line.encode("utf-8")
                yield from _short_sentences(line)
        except Exception as error:
            failure.append(error)

    written = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=sentences(),
            model_writer=written,
            hard_vocab_limit=False,
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            minloglevel=2,
            **options,
        )
    except (RuntimeError, ValueError) as error:
        reason = str(error).rpartition("] ")[2].strip() or "too few pieces, or no text at all"
        if not failure:
            advice = "give more text or another size of the vocabulary (a few more than there are letters, at least)"
            raise ValueError(f"sentencepiece cannot learn this: {reason}; {advice}") from None
    if failure:
        raise failure[0]
    return written.getvalue()


def _short_sentences(line: str) -> Iterator[str]:
    if len(line) <= _LONGEST_SENTENCE:
        yield line
    else:
        yield from textwrap.wrap(line, _LONGEST_SENTENCE, break_on_hyphens=False)


def _is_text(piece: ModelPiece) -> bool:
    return piece.type in (NORMAL, USER_DEFINED, UNUSED, BYTE)
