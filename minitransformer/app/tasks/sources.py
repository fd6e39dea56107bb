"""From a user's file to ids: which tokenizer, which texts are held back, and what cannot be read is refused."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from minitransformer.app.data import LabTokenizer, PieceTokenizer, Tokenizer, WordTokenizer
from minitransformer.app.progress import clocked, counted
from minitransformer.app.tasks.options import DataOptions, TokenizerOptions
from minitransformer.app.tasks.text_codec import TextCodec
from minitransformer.errors import UserError, make_or_refuse

HELD_BACK = 0.05  # of a file without a validation file of its own, at most HELD_BACK_MOST documents
HELD_BACK_MOST = 500
VOCABULARY = 8000  # words or pieces at most, unless told otherwise


def source_name(path: str | None) -> str:
    return "built-in" if path is None else path


def in_pieces(path: str) -> bool:
    return path.endswith(".spm")


def columns(source: DataOptions) -> dict[str, Any]:
    """Where a table has its texts and labels, for the readers; numbers count from 0, without a header."""
    names = {"text": source.text_column, "label": source.label_column}
    given = {name: value for name, value in names.items() if value is not None}
    numbers = {name: int(value) for name, value in given.items() if value.isdecimal()}
    if len(given) > len(numbers) > 0:
        raise UserError("--text-column and --label-column: give two names, or two numbers for a table without a header")
    return given | numbers | {"header": not numbers}


def ids_of(codec: TextCodec, texts: Sequence[str], path: str) -> list[np.ndarray]:
    """The ids of each text of a file, as the model's user would have them."""
    shown = counted(texts, f"cutting {path}")
    if not in_pieces(path):
        return [np.array(codec.encode(text), dtype=np.int32) for text in shown]
    ids = codec.tokenizer.encode_all(shown, in_pieces=True)
    unknown = sum(int((row == Tokenizer.oov).sum()) for row in ids)
    if 2 * unknown > sum(map(len, ids)):
        kind = codec.tokenizer.kind
        raise UserError(
            f"{path}: most of its pieces are unknown to the tokenizer ({kind}); give text, or one that fits"
        )
    return ids


def hold_back(documents: list[Any], path: str) -> tuple[list[Any], list[Any]]:
    """Training and validation: every twentieth document or so is held back, spread over the file."""
    if len(documents) < 2:
        raise UserError(f"{path}: one document only; give at least two, or --valid FILE to validate on")
    count = max(1, min(HELD_BACK_MOST, int(HELD_BACK * len(documents))))
    chosen = set(np.linspace(0, len(documents) - 1, count).astype(int).tolist())
    kept = [document for number, document in enumerate(documents) if number not in chosen]
    return kept, [documents[number] for number in sorted(chosen)]


def tokenizer_for(texts: Sequence[str], path: str, words: TokenizerOptions, specials: Sequence[str] = ()) -> Tokenizer:
    """A tokenizer for a file: the labs' dictionary where one is given or the text is in its pieces, else a
    sentencepiece model that is given, else one learnt from the text."""
    if in_pieces(path):
        beside = os.path.join(os.path.dirname(path), "dict.txt")
        if words.dict is None and not os.path.exists(beside):
            raise UserError(f"{path}: text in pieces needs their dictionary; give --dict dict.txt")
        return make_or_refuse(
            LabTokenizer.from_files, words.dict or beside, words.sentencepiece, extra_specials=specials
        )
    if words.dict is not None:
        if words.sentencepiece is None:
            raise UserError(f"--dict numbers pieces, but {path} is text: give --sentencepiece FILE to cut it")
        return make_or_refuse(LabTokenizer.from_files, words.dict, words.sentencepiece, extra_specials=specials)
    if words.sentencepiece is not None:
        return make_or_refuse(PieceTokenizer.from_file, words.sentencepiece, extra_specials=specials)
    return trained_tokenizer(texts, words, "pieces", specials)


def trained_tokenizer(
    texts: Sequence[str], words: TokenizerOptions, usual: str, specials: Sequence[str] = ()
) -> Tokenizer:
    """usual: the kind, words or pieces, unless one was asked for"""
    kind, vocabulary = words.tokenizer or usual, words.vocabulary or VOCABULARY
    with clocked(f"choosing {kind} from {sum(map(len, texts)):,} letters"):
        if kind == "words":
            return make_or_refuse(WordTokenizer.train, texts, max_size=vocabulary, lower=True, extra_specials=specials)
        return make_or_refuse(PieceTokenizer.train, texts, vocab_size=vocabulary, extra_specials=specials)


def cut_texts(documents: Iterable[Any], max_len: int) -> int:
    """How many are longer than a model has room for, behind <sos>."""
    return sum(len(document) >= max_len for document in documents)


def cut_note(documents: Sequence[Any], max_len: int) -> list[str]:
    """What a user should know before the training."""
    cut = cut_texts(documents, max_len)
    longer = f"{cut:,} of {len(documents):,} texts are longer than {max_len - 1} words or pieces"
    return [f"{longer}: only their beginning is read (--max-len)"] if cut else []


def digest(*parts: Iterable[Any]) -> str:
    """A few letters that change with the ids, their order, and where one text ends: to see on resuming that the data
    are those of the run."""
    value = 0
    for document in (document for part in parts for document in part):
        ids = np.asarray(document, dtype=np.int64)
        value = zlib.crc32(ids.tobytes(), zlib.crc32(len(ids).to_bytes(8, "little"), value))
    return f"{value:08x}"
