r"""Byte-pair encoding over bytes: the tokenizer of GPT-2, Llama 3, SmolLM2 and Whisper.

A text is cut into words by a regular expression; a word starts as its UTF-8 bytes, one symbol each; then the pair of
neighbours that was merged earliest in training becomes one symbol, again and again, until no pair is left that was ever
merged. Frequent words end as one symbol, rare ones as several, and nothing is unknown: at worst a word stays bytes.

With the merges h+e, l+o, he+l (in this order), "hello" goes h e l l o → he l l o → he l lo → hel lo:

    >>> tokens = {bytes([b]): b for b in range(256)} | {b"he": 256, b"lo": 257, b"hel": 258}
    >>> tokenizer = BytePair(tokens, pairs_of_merges(tokens, [(b"h", b"e"), (b"l", b"o"), (b"he", b"l")]))
    >>> tokenizer.encode("hello hé")
    [258, 257, 32, 104, 195, 169]
    >>> tokenizer.decode([258, 257])
    'hello'
"""

import codecs
import heapq
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from typing import Any, TypeVar

from minitransformer.pretrained.tokenizer import KnownWords, Tokenizer
from minitransformer.pretrained.unicode_patterns import UnicodePattern

# How a text is cut into words. A word carries the space before it; of a run of spaces only the last one goes to the
# word that follows. White space that ends the text stays together.
PATTERNS = {
    # 's 't 're ... of English; letters; numbers; anything else; spaces
    "gpt2": r"'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    # the same after every digit was set apart: no space joins a digit, and one digit is one word
    "smollm": r"'(?:s|t|re|ve|m|ll|d)| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+",
    # up to three digits; a word may carry any one mark before it; marks carry line ends after them
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
T = TypeVar("T", bytes, str)
Pairs = Mapping[tuple[int, int], tuple[int, int]]  # two symbols → when they were merged (0 is first), into which


def _byte_characters() -> dict[int, str]:
    """Byte → the printable character that stands for it in vocabulary files: itself where it has a shape, else the next
    free one from U+0100 on. So a space is Ġ and a line end Ċ."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    shifted = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + i) for i, byte in enumerate(shifted)}


BYTE_CHARACTERS = _byte_characters()  # in the order in which GPT-2 and its heirs number the bytes
CHARACTER_BYTES = {character: byte for byte, character in BYTE_CHARACTERS.items()}


def to_characters(token: bytes) -> str:
    """A token as vocabulary files write it: b" \\xc3\\xa9t" is "ĠÃ©t"."""
    return "".join(BYTE_CHARACTERS[byte] for byte in token)


def from_characters(written: str) -> bytes:
    """The bytes of a written token; KeyError for a character that stands for no byte."""
    return bytes([CHARACTER_BYTES[character] for character in written])


class BytePair(Tokenizer):
    """tokens: bytes → id; pairs: what may be merged; pattern: a name of PATTERNS or an expression.

    whole_words: a word that is a token is taken as it is, merges or not (Llama 3). `around` is passed to Tokenizer."""

    def __init__(
        self,
        tokens: Mapping[bytes, int],
        pairs: Pairs,
        special: Mapping[str, int] | None = None,
        *,
        pattern: str = "gpt2",
        whole_words: bool = False,
        **around: Any,
    ):
        self.tokens, self.pairs, self.pattern, self.whole_words = dict(tokens), pairs, pattern, whole_words
        super().__init__(tokens.values(), special or {}, **around)
        self._bytes = {i: token for token, i in tokens.items()} | {i: name.encode() for name, i in self._cut.items()}
        # A byte may have no token, because training never met it; the text loses it then, as it does elsewhere.
        self._symbols = [[tokens[byte]] if byte in tokens else [] for byte in (bytes([b]) for b in range(256))]
        self._words = UnicodePattern(PATTERNS.get(pattern, pattern))
        self._known = KnownWords(self._encode_word)

    def _encode_plain(self, text: str) -> list[int]:
        return list(chain.from_iterable(map(self._known.__getitem__, self._words.findall(text))))

    def _encode_word(self, word: str) -> list[int]:
        data = word.encode("utf-8")
        if self.whole_words and data in self.tokens:
            return [self.tokens[data]]
        return merge([symbol for byte in data for symbol in self._symbols[byte]], self.pairs)

    def _texts(self, ids: Iterable[int]) -> Iterator[str]:
        """A character may span tokens: what is incomplete waits for the next one; what is no UTF-8 becomes U+FFFD."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        for i in ids:
            yield decoder.decode(self._bytes.get(i, b""))
        yield decoder.decode(b"", final=True)


def merge(symbols: list[int], pairs: Pairs) -> list[int]:
    """Merge the earliest pair (the leftmost of equal ones) until none is left: n merges in n log n steps.

    A heap holds (when the pair was merged, where its left symbol is). Merged symbols keep the place of their left part,
    and each place knows its neighbours, so that nothing is moved."""
    n, gone = len(symbols), -1
    symbols = symbols.copy()
    after, before = list(range(1, n + 1)), list(range(-1, n - 1))
    heap = [(pairs[pair][0], i) for i, pair in enumerate(pairwise(symbols)) if pair in pairs]
    heapq.heapify(heap)
    while heap:
        rank, left = heapq.heappop(heap)
        right = after[left]
        pair = symbols[left], symbols[right] if right < n else gone
        if pair not in pairs or pairs[pair][0] != rank:
            continue  # one of the two has been merged with another meanwhile
        symbols[left], symbols[right] = pairs[pair][1], gone
        after[left] = after[right]
        if after[left] < n:
            before[after[left]] = left
        for i, j in ((before[left], left), (left, after[left])):
            if i >= 0 and j < n and (symbols[i], symbols[j]) in pairs:
                heapq.heappush(heap, (pairs[symbols[i], symbols[j]][0], i))
    return [symbol for symbol in symbols if symbol != gone]


def pairs_of_merges(tokens: Mapping[T, int], merges: Iterable[tuple[T, T]]) -> Pairs:
    """Pairs from merges in the order of training, of bytes or as files write them; KeyError names a missing token."""
    return {(tokens[a], tokens[b]): (rank, tokens[a + b]) for rank, (a, b) in enumerate(merges)}


def pairs_of_ranks(tokens: Mapping[bytes, int]) -> Pairs:
    """Pairs where only tokens are given, numbered in the order of training: any two that make a third may merge."""
    return {
        (tokens[token[:i]], tokens[token[i:]]): (rank, rank)
        for token, rank in tokens.items()
        for i in range(1, len(token))
        if token[:i] in tokens and token[i:] in tokens
    }
