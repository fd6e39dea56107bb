"""WordPiece, the tokenizer of BERT: words of a fixed vocabulary, and pieces of words for all others.

First the text becomes plain words: control characters go; white space ends a word; accents and capitals go (for models
"uncased"); punctuation marks and Chinese characters are words of their own. Then each word is cut from the left: the
longest piece that the vocabulary has, then the longest that goes on from there. Pieces inside a word are written with
##; a word that cannot be cut is [UNK].

    >>> vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "un", "##aff", "##able", "cat", "."]
    >>> tokenizer = WordPiece({piece: i for i, piece in enumerate(vocabulary)})
    >>> tokenizer.cut("The unaffable cat.")
    ['the', 'un', '##aff', '##able', 'cat', '.']
    >>> tokenizer.encode("Thé cat")
    [2, 5, 9, 3]
    >>> tokenizer.encode_pair("The cat.", "[MASK]")
    ([2, 5, 9, 10, 3, 4, 3], [0, 0, 0, 0, 0, 1, 1])
    >>> tokenizer.decode([2, 5, 6, 7, 8, 9, 10, 3])
    'the unaffable cat.'
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from typing import Any

from minitransformer.errors import UserError
from minitransformer.pretrained.tokenizer import KnownWords, Tokenizer, room

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LONGEST_WORD = 100  # characters; a longer word is [UNK]
INSIDE = "##"

_NO_SPACE = re.compile("[^\t\n\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")  # the rest is control
_CHINESE = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B81F), (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


class WordPiece(Tokenizer):
    """vocabulary: piece → id, with the special tokens. `added` and the like are passed to Tokenizer.

    lower          capitals become small letters
    strip_accents  é becomes e; as `lower` if not given
    chinese        each Chinese character is a word"""

    def __init__(
        self,
        vocabulary: Mapping[str, int],
        *,
        lower: bool = True,
        strip_accents: bool | None = None,
        chinese: bool = True,
        **cuts: Any,
    ):
        missing = [name for name in SPECIAL if name not in vocabulary]
        if missing:
            raise UserError(f"the vocabulary has no {missing[0]}; BERT's has {', '.join(SPECIAL)}")
        self.vocabulary, self.lower, self.chinese = dict(vocabulary), lower, chinese
        self.strip_accents = lower if strip_accents is None else strip_accents
        special = {name: vocabulary[name] for name in SPECIAL}
        frame: dict[str, Any] = {"before": [special["[CLS]"]], "after": [special["[SEP]"]]}
        super().__init__(vocabulary.values(), special, **frame, **cuts)
        self._unknown = special["[UNK]"]
        self._pieces = {i: piece for piece, i in chain(self.vocabulary.items(), self.added.items())}
        self._known = KnownWords(self._encode_chunk)

    def encode_pair(self, first: str, second: str, max_len: int | None = None) -> tuple[list[int], list[int]]:
        """[CLS] first [SEP] second [SEP], and the segment of each: 0 for the first text, 1 for the second.

        Where max_len forbids all of it, the longer text is cut down to the other, then both."""
        a, b = (self.encode(text, add_special=False) for text in (first, second))
        if max_len is not None:
            space = room(max_len, 3)
            if len(a) + len(b) > space:
                shorter = min(len(a), len(b), space // 2)
                keep = (shorter, space - shorter) if len(a) <= len(b) else (space - shorter, shorter)
                a, b = a[: keep[0]], b[: keep[1]]
        ids = self.before + a + self.after + b + self.after
        return ids, [0] * (len(a) + 2) + [1] * (len(b) + 1)

    def cut(self, text: str) -> list[str]:
        """The pieces of a text, to look at."""
        return [self._pieces[i] for i in self.encode(text, add_special=False)]

    def _encode_plain(self, text: str) -> list[int]:
        return list(chain.from_iterable(map(self._known.__getitem__, _NO_SPACE.findall(text))))

    def _encode_chunk(self, chunk: str) -> list[int]:
        """What stands between two spaces: several words where it holds punctuation."""
        return [i for word in self._words(chunk) for i in self._encode_word(word)]

    def _words(self, chunk: str) -> list[str]:
        chunk = "".join(c for c in chunk if not _is_control(c))
        if self.strip_accents:  # é is e and an accent in Unicode's decomposed form
            chunk = "".join(c for c in unicodedata.normalize("NFD", chunk) if unicodedata.category(c) != "Mn")
        if self.lower:  # each character alone: str.lower of a whole word writes the last Σ as ς
            chunk = "".join(c.lower() for c in chunk)
        return "".join(f" {c} " if _is_punctuation(c) or self.chinese and _is_chinese(c) else c for c in chunk).split()

    def _encode_word(self, word: str) -> list[int]:
        if len(word) > LONGEST_WORD:
            return [self._unknown]
        ids, start = [], 0
        while start < len(word):
            prefix = INSIDE if start else ""
            for end in range(len(word), start, -1):
                piece = self.vocabulary.get(prefix + word[start:end])
                if piece is not None:
                    break
            else:
                return [self._unknown]
            ids.append(piece)
            start = end
        return ids

    def _texts(self, ids: Iterable[int]) -> Iterator[str]:
        """Words with a space between them, but none before . , ? !"""
        first = True
        for i in ids:
            piece = self._pieces.get(i, "")
            if first:
                yield piece
            elif piece.startswith(INSIDE):
                yield piece[len(INSIDE) :]
            else:
                yield piece if piece[:1] in (".", ",", "?", "!") else f" {piece}"
            first = False


@cache
def _is_control(c: str) -> bool:
    """Control and format characters, private ones, and the mark of undecodable bytes."""
    return c == "\ufffd" or unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs")


@cache
def _is_punctuation(c: str) -> bool:
    """Unicode's punctuation, and all of ASCII that is neither letter, digit nor space ($ + < = > ^ ` | ~)."""
    return unicodedata.category(c)[0] == "P" or (c.isascii() and c.isprintable() and not c.isalnum() and c != " ")


def _is_chinese(c: str) -> bool:
    return any(first <= ord(c) <= last for first, last in _CHINESE)
