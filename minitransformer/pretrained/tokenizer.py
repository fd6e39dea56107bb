"""What every tokenizer here can do: text to ids and back, with special tokens cut out before anything else.

Two ways to cut words into pieces live beside this file: `wordpiece` (BERT) and `byte_pair` (GPT-2, Llama, Whisper).

Both are plain Python and fast enough for a book: a word that was met before is looked up. Seconds for 600,000 letters,
line by line, on one core of an AMD EPYC, and those of the package `tokenizers` (Rust, one thread), both with empty
caches; ids are the same:

    MiniLM's word pieces   English reviews 0.23 and 0.16   French novels 0.25 and 0.21
    SmolLM2's byte pairs                   0.22 and 0.16                 0.22 and 0.19
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain

from minitransformer.errors import UserError
from minitransformer.pretrained.unicode_patterns import WHITE_SPACE

CACHED_WORDS = 200_000  # a novel has some ten thousand different ones
CACHED_LENGTH = 100  # longer words are hardly met twice


class Tokenizer(ABC):
    """Text to ids and back.

    vocab_size     ids are below it
    special        tokens that are no text, by name: special["[MASK]"], special["<|im_end|>"]
    added          tokens that are text, but are cut out like special ones
    before, after  ids that `encode` puts around a text, [CLS] and [SEP] say
    absorb_left, absorb_right   special tokens that swallow the white space on that side (BART's <mask>)"""

    def __init__(
        self,
        ids: Iterable[int],
        special: Mapping[str, int],
        added: Mapping[str, int] | None = None,
        before: Iterable[int] = (),
        after: Iterable[int] = (),
        absorb_left: Collection[str] = (),
        absorb_right: Collection[str] = (),
    ):
        self.special, self.added = dict(special), dict(added or {})
        self._cut = self.special | self.added
        self.vocab_size = max(chain(ids, self._cut.values()), default=-1) + 1
        self.before, self.after = list(before), list(after)
        self.absorb_left, self.absorb_right = frozenset(absorb_left), frozenset(absorb_right)
        self._special_ids = frozenset(self.special.values())

        def any_of(names: Iterable[str]) -> re.Pattern[str]:
            space = f"[{WHITE_SPACE}]*"
            longest_first = sorted(filter(None, names), key=len, reverse=True)
            patterns = [
                (space if name in absorb_left else "") + re.escape(name) + (space if name in absorb_right else "")
                for name in longest_first
            ]
            return re.compile("|".join(patterns) or "(?!)")  # (?!) matches nowhere

        self._all_cuts, self._added_cuts = any_of(self._cut), any_of(self.added)

    @abstractmethod
    def _encode_plain(self, text: str) -> list[int]:
        """The ids of a text in which nothing is special."""

    @abstractmethod
    def _texts(self, ids: Iterable[int]) -> Iterator[str]:
        """The text that each id completes."""

    def encode(
        self, text: str, *, add_special: bool = True, parse_special: bool = True, max_len: int | None = None
    ) -> list[int]:
        """The ids of a text.

        add_special    put `before` and `after` around it
        parse_special  "[MASK]" in the text means the special token; if False, it is text like any other (for what a
                       stranger wrote, who should not be able to end his own turn in a chat)
        max_len        at most so many ids, those around the text included; the end of the text is cut off"""
        _check(text)
        ids, end = [], 0
        for match in (self._all_cuts if parse_special else self._added_cuts).finditer(text):
            found = match.group()
            ids += self._encode_plain(text[end : match.start()])
            ids.append(self._cut[found if found in self._cut else found.strip()])
            end = match.end()
        ids += self._encode_plain(text[end:])
        around = len(self.before) + len(self.after) if add_special else 0
        if max_len is not None:
            del ids[room(max_len, around) :]
        return self.before + ids + self.after if add_special else ids

    def encode_batch(self, texts: Iterable[str], **options) -> list[list[int]]:
        """The ids of each text; the options are those of `encode`."""
        return [self.encode(text, **options) for text in texts]

    def decode(self, ids: Iterable[int], *, keep_special: bool = False) -> str:
        """The text of ids; special tokens are left out unless they are to be kept."""
        return "".join(self.decode_stream(ids, keep_special=keep_special))

    def decode_stream(self, ids: Iterable[int], *, keep_special: bool = False) -> Iterator[str]:
        """The text of ids that are still coming: after each id, what can be said for certain."""
        return self._texts(self._checked(ids, keep_special))

    def _checked(self, ids: Iterable[int], keep_special: bool) -> Iterator[int]:
        for i in ids:
            if not 0 <= i < self.vocab_size:
                raise UserError(f"id {i} is outside the vocabulary, 0 ... {self.vocab_size - 1}")
            if keep_special or i not in self._special_ids:
                yield i


class KnownWords(dict[str, list[int]]):
    """word → ids, worked out at the first meeting: text repeats its words, so this decides the speed."""

    def __init__(self, encode_word: Callable[[str], list[int]]):
        super().__init__()
        self._encode_word = encode_word

    def __missing__(self, word: str) -> list[int]:
        ids = self._encode_word(word)
        if len(word) <= CACHED_LENGTH:
            if len(self) >= CACHED_WORDS:
                self.clear()
            self[word] = ids
        return ids


def room(max_len: int, around: int) -> int:
    """How many ids of text fit between those around it."""
    if max_len < around:
        raise UserError(f"max_len = {max_len} leaves no room: {around} special tokens go around the text")
    return max_len - around


def _check(text: str) -> None:
    if not isinstance(text, str):
        raise TypeError(f"a text must be a str, not {type(text).__name__}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        half = ord(text[error.start])
        raise UserError(
            f"the text holds half a character (U+{half:04X} at position {error.start}), so it is not Unicode; read it "
            f"again as UTF-8, or drop such halves with text.encode('utf-8', 'ignore').decode()"
        ) from None
