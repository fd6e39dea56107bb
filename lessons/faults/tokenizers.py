"""Tokenizers that count, merge, cut or spell otherwise than they should."""

from lessons.harness.engine import Engine
from minitransformer.pretrained import byte_pair, byte_pair_training
from minitransformer.pretrained.byte_pair import BytePair
from minitransformer.pretrained.wordpiece import INSIDE, WordPiece


def every_word_counts_once(engine: Engine) -> None:
    """training counts a pair once a word, however often the word occurs"""

    def change(learn):
        return lambda words, counts, *rest: learn(words, [1] * len(counts), *rest)

    engine.replace(byte_pair_training, "_learn", change)


def first_place_only(engine: Engine) -> None:
    """a merge is done only where the pair stands first in a word, not at its other places"""

    def replace(word, pair, new):
        for i in range(len(word) - 1):
            if (word[i], word[i + 1]) == pair:
                return [*word[:i], new, *word[i + 2 :]]
        return word

    engine.replace(byte_pair_training, "_replace", lambda _: replace)


def words_not_separated(engine: Engine) -> None:
    """a text is one long word: pairs join the end of a word with the beginning of the next"""

    class Whole:
        def __init__(self, pattern):
            self.pattern = pattern

        def findall(self, text):
            return [text]

    engine.replace(byte_pair_training, "UnicodePattern", lambda _: Whole)


def merges_from_the_left(engine: Engine) -> None:
    """encoding merges the leftmost pair that may be merged, not the one that was merged earliest in training"""

    def merge(symbols, pairs):
        symbols = list(symbols)
        i = 0
        while i < len(symbols) - 1:
            pair = symbols[i], symbols[i + 1]
            if pair in pairs:
                symbols[i : i + 2] = [pairs[pair][1]]
                i = 0
            else:
                i += 1
        return symbols

    engine.replace(byte_pair, "merge", lambda _: merge)


def merges_last_first(engine: Engine) -> None:
    """encoding does the latest merges first"""

    def change(merge):
        return lambda symbols, pairs: merge(symbols, {pair: (-rank, new) for pair, (rank, new) in pairs.items()})

    engine.replace(byte_pair, "merge", change)


def always_the_fewest(engine: Engine) -> None:
    """encoding looks for the smallest number of pieces instead of replaying the merges"""

    def encode_word(self, word):
        data = word.encode()
        best = [[]]
        for end in range(1, len(data) + 1):
            ways = [
                best[start] + [self.tokens[data[start:end]]] for start in range(end) if data[start:end] in self.tokens
            ]
            best.append(min(ways, key=len))
        return best[-1]

    engine.replace(BytePair, "_encode_word", lambda _: encode_word)


def pieces_decoded_alone(engine: Engine) -> None:
    """each piece is turned into text by itself, though a letter may span two of them"""

    def texts(self, ids):
        for i in ids:
            yield self._bytes.get(i, b"").decode("utf-8", errors="replace")

    engine.replace(BytePair, "_texts", lambda _: texts)


def only_plain_bytes(engine: Engine) -> None:
    """bytes beyond plain English letters have no piece, and are dropped"""

    def change(encode_word):
        return lambda self, word: encode_word(self, word.encode("ascii", "ignore").decode())

    engine.replace(BytePair, "_encode_word", change)


def spaces_trimmed(engine: Engine) -> None:
    """white space around a word is thrown away before it is cut"""

    def change(encode_word):
        return lambda self, word: encode_word(self, word.strip())

    engine.replace(BytePair, "_encode_word", change)


def shortest_piece_first(engine: Engine) -> None:
    """WordPiece takes the shortest piece that fits, not the longest"""

    def encode_word(self, word):
        ids, start = [], 0
        while start < len(word):
            fits = (
                self.vocabulary.get(INSIDE * (start > 0) + word[start:end]) for end in range(start + 1, len(word) + 1)
            )
            piece = next((piece for piece in fits if piece is not None), None)
            if piece is None:
                return [self._unknown]
            ids.append(piece)
            start += len(self._pieces[piece].removeprefix(INSIDE) if start else self._pieces[piece])
        return ids

    engine.replace(WordPiece, "_encode_word", lambda _: encode_word)


def second_thoughts(engine: Engine) -> None:
    """WordPiece goes back and tries shorter pieces before it gives a word up"""

    def encode_word(self, word):
        def rest(start):
            if start == len(word):
                return []
            for end in range(len(word), start, -1):
                piece = self.vocabulary.get(INSIDE * (start > 0) + word[start:end])
                if piece is not None and (after := rest(end)) is not None:
                    return [piece, *after]
            return None

        found = rest(0)
        return [self._unknown] if found is None else found

    engine.replace(WordPiece, "_encode_word", lambda _: encode_word)


def inside_as_outside(engine: Engine) -> None:
    """WordPiece looks for pieces inside a word among those that begin one"""

    def encode_word(self, word):
        ids, start = [], 0
        while start < len(word):
            ends = [end for end in range(len(word), start, -1) if word[start:end] in self.vocabulary]
            if not ends:
                return [self._unknown]
            ids.append(self.vocabulary[word[start : ends[0]]])
            start = ends[0]
        return ids

    engine.replace(WordPiece, "_encode_word", lambda _: encode_word)
