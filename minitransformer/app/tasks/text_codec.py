"""How a model's text becomes ids and back. A checkpoint holds it, so that its two files are all a user needs."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from minitransformer.app.data import DataError, LabTokenizer, Tokenizer, load_tokenizer
from minitransformer.app.data.tokenizers.json_files import FilesInMemory
from minitransformer.app.language import detokenize
from minitransformer.app.training.checkpoints import CheckpointError
from minitransformer.errors import UserError

STYLES = ("plain", "en", "fr")
# Words of the built-in language: a clitic keeps its apostrophe and lets go of the next word, whether or not a space
# stands between them.
_WORD = re.compile(r"aujourd'hui|\w+(?:-\w+)*(?:'(?=\s*\w))?|[^\w\s]")
_ENDS = (".", "?", "!")
_FILES = ("tokenizer.json", "sentencepiece.model", "dict.txt")


@dataclass(frozen=True)
class TextCodec:
    """A tokenizer, and the style of its text: "plain" as it comes, "en" or "fr" the built-in language's, which is
    lower-case words when a model reads it and proper sentences when a person does."""

    tokenizer: Tokenizer
    style: str = "plain"

    def words(self, text: str, complete: bool = True) -> str:
        """Text as the tokenizer expects it; a complete text of the built-in language ends with a full stop."""
        if self.style == "plain":
            return text
        words = _WORD.findall(text.lower().replace("’", "'"))
        if complete and words and words[-1] not in _ENDS:
            words.append(".")
        return " ".join(words)

    def encode(self, text: str, complete: bool = True) -> list[int]:
        """The ids of what a user typed; `complete=False` for the beginning of a text."""
        if isinstance(self.tokenizer, LabTokenizer) and self.tokenizer.model is None:
            if text.strip() and "▁" not in text:
                raise UserError(
                    "this model was trained on pieces without the sentencepiece model that cuts them: give text "
                    "already cut ('▁this ▁is ▁it'), or train again with --sentencepiece FILE"
                )
            return self.tokenizer.encode_pieces(text)
        try:
            return self.tokenizer.encode(self.words(text, complete))
        except ValueError as error:
            raise UserError(str(error)) from error

    def decode(self, ids: Iterable[int], keep_specials: bool = False) -> str:
        text = self.tokenizer.decode(ids, keep_specials)
        return text if self.style == "plain" else detokenize(text, self.style)

    def unknown(self, text: str) -> list[str]:
        """The words of a text that the tokenizer has never seen, each once."""
        if self.tokenizer.kind != "words":
            return []
        cut = getattr(self.tokenizer, "cut", str.split)
        return list(dict.fromkeys(w for w in cut(self.words(text)) if self.tokenizer.encode(w) == [self.tokenizer.oov]))

    # ------------------------------------------------------------------------------------------ in a checkpoint

    def pack(self) -> dict[str, Any]:
        """The tokenizer's own files, as JSON."""
        files = {name: _packed(name, content) for name, content in sorted(self.tokenizer.files().items())}
        return {"style": self.style, "files": files}

    @classmethod
    def unpack(cls, packed: Any, path: str) -> TextCodec:
        """Undo `pack`; path is the checkpoint's, for errors."""
        advice = "name a checkpoint that one of the commands here has made"
        files = packed.get("files") if isinstance(packed, dict) else None
        if not isinstance(files, dict) or packed.get("style") not in STYLES:
            raise CheckpointError(path, "holds no tokenizer", advice)
        contents = {}
        for name, content in files.items():
            if name not in _FILES or not isinstance(content, str):
                raise CheckpointError(path, f"holds the unknown tokenizer file {name!r}", advice)
            contents[name] = _unpacked(name, content, path)
        try:
            return cls(load_tokenizer(FilesInMemory(contents, path)), packed["style"])
        except DataError as error:
            raise CheckpointError(path, f"its tokenizer cannot be used (found {error.found})", advice) from error


def _packed(name: str, raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii") if name.endswith(".model") else raw.decode("utf-8")


def _unpacked(name: str, content: str, path: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True) if name.endswith(".model") else content.encode("utf-8")
    except (binascii.Error, ValueError) as error:
        raise CheckpointError(path, f"its tokenizer cannot be used ({error})", "restore it from a copy") from error
