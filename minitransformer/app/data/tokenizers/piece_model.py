"""A sentencepiece model file, checked byte by byte before the C++ library is allowed to see it.

The file is a protocol buffer: a sequence of fields, each a key (`number << 3 | wire type`) and a value.
    1 piece, repeated { 1 text, 2 score (float), 3 type }    2 trainer settings    3 normalizer    4 self test
A damaged file can make C++ abort the whole process, print on the terminal or decode to invalid text. Here it
becomes a DataError, whatever the library's version does.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from minitransformer.app.data.readers.lines import Path
from minitransformer.errors import DataError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_PROBE = "Le chat n'a pas 3½ œufs, ﬁn. 漢字 \u00a0 e\u0301"


class ModelPiece(NamedTuple):
    text: str
    score: float
    type: int


def load_processor(path: Path, data: bytes) -> tuple[Any, list[ModelPiece]]:
    """The library's processor and the model's pieces, or a DataError. `path` is for the message only."""
    import sentencepiece

    pieces = model_pieces(path, data)
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(data)
        size = processor.vocab_size()
        processor.decode(list(range(size)))
        processor.decode(processor.encode(_PROBE))
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise _refused(path, f"a model that sentencepiece refuses ({error})") from None
    if size != len(pieces):
        raise _refused(path, f"{len(pieces)} pieces of which sentencepiece sees {size}")
    return processor, pieces


def model_pieces(path: Path, data: bytes) -> list[ModelPiece]:
    """The pieces in order of their ids. Checks what the library takes on trust."""
    pieces: list[ModelPiece] = []
    seen: set[str] = set()
    try:
        for number, wire, value in _fields(data, 0, len(data)):
            if number != 1:
                continue
            if wire != _BYTES:
                raise ValueError("a piece that is no message")
            piece = _piece(data, *value)
            if piece.text in seen:
                raise ValueError(f"the piece {piece.text[:30]!r} twice")
            seen.add(piece.text)
            pieces.append(piece)
        if sum(piece.type == UNKNOWN for piece in pieces) != 1:
            raise ValueError("not exactly one piece for unknown characters")
        if not any(piece.type in (NORMAL, USER_DEFINED, BYTE) for piece in pieces):
            raise ValueError("no piece of text")
    except ValueError as error:
        raise _refused(path, str(error)) from None
    return pieces


def _piece(data: bytes, start: int, end: int) -> ModelPiece:
    text, score, kind = "", 0.0, NORMAL
    for number, wire, value in _fields(data, start, end):
        if number == 1 and wire == _BYTES:
            try:
                text = data[value[0] : value[1]].decode("utf-8")
            except UnicodeDecodeError:
                raise ValueError(f"a piece that is not UTF-8 at byte {value[0]}") from None
        elif number == 2 and wire == _FIXED32:
            score = struct.unpack_from("<f", data, value[0])[0]
        elif number == 3 and wire == _VARINT:
            kind = value[0]
    if not text or "\0" in text:
        raise ValueError(f"an empty piece or one with a NUL at byte {start}")
    if not math.isfinite(score):
        raise ValueError(f"a score that is no number at byte {start}")
    if not NORMAL <= kind <= BYTE or (kind == BYTE and not re.fullmatch("<0x[0-9A-F]{2}>", text)):
        raise ValueError(f"a piece of no known type at byte {start}")
    return ModelPiece(text, score, kind)


def _fields(data: bytes, position: int, end: int) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Yield `(number, wire type, value)`; the value is `(n, 0)` of an integer, `(start, end)` of bytes."""
    while position < end:
        key, position = _varint(data, position, end)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, position = _varint(data, position, end)
            yield number, wire, (value, 0)
            continue
        if wire == _BYTES:
            size, position = _varint(data, position, end)
        elif wire in (_FIXED32, _FIXED64):
            size = 4 if wire == _FIXED32 else 8
        else:
            raise ValueError(f"no sentencepiece model (wire type {wire} at byte {position})")
        if number == 0 or size > end - position:
            raise ValueError(f"a file that is cut off or no sentencepiece model (at byte {position})")
        yield number, wire, (position, position + size)
        position += size


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Seven bits a byte, lowest first; the high bit says that more follow. At most ten bytes (64 bits)."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= end:
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError(f"a number that does not end (at byte {position})")


def _refused(path: Path, found: str) -> DataError:
    return DataError(path, 0, found, "a sentencepiece model", "copy the file again or train a new one")
