"""What lesson 17 measures: the same tokenizers a second time, by the shortest program that is plainly right and slow.

Training by hand counts every pair of every word anew after each merge, where the engine counts only what has changed.
Encoding by hand replays the merges one after the other over the whole word. The fewest pieces of a word are found by
looking at every place where its last piece could begin."""

import re
from collections import Counter
from itertools import pairwise, product

import numpy as np

from minitransformer.app.language import reviews
from minitransformer.pretrained import byte_pair_training
from minitransformer.pretrained.byte_pair import BytePair
from minitransformer.pretrained.wordpiece import SPECIAL, WordPiece

RINGS = {"sing": 5, "song": 3, "singer": 2, "sung": 4, "ring": 6, "rings": 3}


def pair_counts(words):
    """How often two symbols stand side by side.   words: tuple of symbols → how often the word occurs"""
    counts = Counter()
    for symbols, times in words.items():
        for pair in pairwise(symbols):
            counts[pair] += times
    return counts


def merged(symbols, pair):
    """A word with each occurrence of the pair, from the left, as one symbol."""
    made = []
    for symbol in symbols:
        if made and (made[-1], symbol) == pair:
            made[-1] = made[-1] + symbol
            made.append(None)  # so that the next symbol does not join the new one
        else:
            made.append(symbol)
    return tuple(symbol for symbol in made if symbol is not None)


def by_hand(words, merges, age=None):
    """So many merges: each time the most frequent pair; of equally frequent ones that with the oldest symbols.

    words: word (str or bytes) → how often; age: symbol → its number, by which ties are decided
    → list of (pair, how often it stood there)"""
    cut = {tuple(word[i : i + 1] for i in range(len(word))): times for word, times in words.items()}
    age = dict(age or {symbol: i for i, symbol in enumerate(sorted({s for word in cut for s in word}))})
    made = []
    while len(made) < merges and (counts := pair_counts(cut)):
        best = min(counts, key=lambda pair: (-counts[pair], age[pair[0]], age[pair[1]]))
        made.append((best, counts[best]))
        age[best[0] + best[1]] = len(age)
        cut = {merged(word, best): times for word, times in cut.items()}
    return made


def engine_merges(tokenizer: BytePair):
    """The merges of a trained tokenizer in their order, as pairs of bytes."""
    names = {i: token for token, i in tokenizer.tokens.items()}
    return [(names[a], names[b]) for a, b in sorted(tokenizer.pairs, key=lambda pair: tokenizer.pairs[pair][0])]


def trained_on_words(words, merges):
    """The engine's tokenizer, from words that stand alone."""
    texts = [word for word, times in words.items() for _ in range(times)]
    return byte_pair_training.train(texts, 256 + merges)


def book_reviews(n, seed):
    """Texts of the built-in language, as sentences of words with spaces between them."""
    return [" ".join(words) for words in reviews().sample(n, seed)]


def words_of(texts):
    """Words with the space before them, as GPT-2 cuts these texts, which hold letters and marks only."""
    split = re.compile(r" ?[a-z]+| ?[^\sa-z]+").findall
    return Counter(word.encode() for text in texts for word in split(text))


def training_compared(texts, merges):
    """→ merges of the engine, merges by hand with their counts"""
    tokenizer = byte_pair_training.train(texts, 256 + merges)
    age = {token: i for token, i in tokenizer.tokens.items() if len(token) == 1}
    return engine_merges(tokenizer), by_hand(words_of(texts), merges, age)


def replayed(word, merges):
    """The pieces of a word: each merge in turn is done wherever it can be.   word: bytes"""
    symbols = tuple(word[i : i + 1] for i in range(len(word)))
    for pair in merges:
        symbols = merged(symbols, pair)
    return symbols


def fewest(word, pieces):
    """The smallest number of pieces that make up the word."""
    least = [0] + [len(word) + 1] * len(word)
    for end in range(1, len(word) + 1):
        least[end] = min(least[start] + 1 for start in range(end) if word[start:end] in pieces)
    return least[-1]


def longest_first(word, pieces):
    """A word cut from the left, each time the longest piece that fits."""
    made, start = [], 0
    while start < len(word):
        end = next(end for end in range(len(word), start, -1) if word[start:end] in pieces)
        made.append(word[start:end])
        start = end
    return tuple(made)


def new_words(tokenizer, count, seed=0):
    """Words that were never seen: two or three pieces of the vocabulary in a row, letters only."""
    rng = np.random.default_rng(seed)
    parts = [t.decode() for t in tokenizer.tokens if len(t) > 1 and t.isalpha()]
    return sorted({"".join(rng.choice(parts, rng.integers(2, 4))) for _ in range(count)})


def cuts_compared(tokenizer, words):
    """For each word: pieces by the engine, by replaying the merges, the fewest possible, and longest first."""
    merges, names = engine_merges(tokenizer), {i: token for token, i in tokenizer.tokens.items()}
    found = []
    for word in words:
        data = word.encode()
        ours = tuple(names[i] for i in tokenizer.encode(word))
        found.append(
            (ours, replayed(data, merges), fewest(data, tokenizer.tokens), longest_first(data, tokenizer.tokens))
        )
    return found


def strange_texts(count, seed=0):
    """Letters of many scripts, marks, emoji and control characters, drawn at random."""
    rng = np.random.default_rng(seed)
    blocks = [
        (0x20, 0x7F),
        (0xA0, 0x250),
        (0x370, 0x500),
        (0x5D0, 0x700),
        (0x4E00, 0x9FFF),
        (0x1F300, 0x1F700),
        (0, 32),
    ]
    texts = []
    for _ in range(count):
        low, high = blocks[rng.integers(len(blocks))]
        texts.append("".join(chr(c) for c in rng.integers(low, high, rng.integers(1, 12))))
    return texts


def surprise(words):
    """What WordPiece's training asks of a pair: how often it meets, divided by how often each of the two occurs."""
    cut = {tuple(word): times for word, times in words.items()}
    single = Counter()
    for symbols, times in cut.items():
        for symbol in symbols:
            single[symbol] += times
    return {pair: count / (single[pair[0]] * single[pair[1]]) for pair, count in pair_counts(cut).items()}


def piece_tokenizer(pieces):
    return WordPiece({piece: i for i, piece in enumerate([*SPECIAL, *pieces])})


def can_be_cut(word, pieces):
    """Whether any way to cut the word exists, by trying them all."""
    open_ends = {0}
    for end in range(1, len(word) + 1):
        if any(("##" * (start > 0) + word[start:end]) in pieces for start in open_ends):
            open_ends.add(end)
    return len(word) in open_ends


def unknown_words(with_letters, vocabularies=12, seed=0):
    """All words of up to 6 letters a, b and c, under random vocabularies of 24 pieces.

    with_letters: every letter is a piece too, at the start of a word and inside
    → words tried, [UNK] said, [UNK] said although a cut exists, cuts that are not longest-first"""
    rng, letters = np.random.default_rng(seed), "abc"
    words = ["".join(word) for n in range(1, 7) for word in product(letters, repeat=n)]
    parts = ["".join(part) for n in (1, 2, 3) for part in product(letters, repeat=n)]
    every = [*letters, *(f"##{letter}" for letter in letters)]
    tried = said = needless = other = 0
    for _ in range(vocabularies):
        marks = ["##" * int(inside) for inside in rng.integers(2, size=24)]
        drawn = {mark + str(part) for mark, part in zip(marks, rng.choice(parts, 24), strict=True)}
        pieces = drawn | set(every if with_letters else ())
        tokenizer = piece_tokenizer(sorted(pieces))
        for word in words:
            unknown = (cut := tokenizer.cut(word)) == ["[UNK]"]
            possible = can_be_cut(word, pieces)
            tried, said, needless = tried + 1, said + unknown, needless + (unknown and possible)
            other += cut != from_the_left(word, pieces)
    return tried, said, needless, other


def from_the_left(word, pieces):
    """WordPiece's rule once more: the longest piece from the left, and [UNK] as soon as there is none."""
    made, start = [], 0
    while start < len(word):
        fits = ["##" * (start > 0) + word[start:end] for end in range(len(word), start, -1)]
        piece = next((piece for piece in fits if piece in pieces), None)
        if piece is None:
            return ["[UNK]"]
        made.append(piece)
        start += len(piece) - 2 * (start > 0)
    return made


def pieces_by_size(texts, others, sizes):
    """Pieces a word on unseen texts, for vocabularies of 256 bytes and so many merges."""
    found, words = [], sum(len(text.split()) for text in others)
    for merges in sizes:
        tokenizer = byte_pair_training.train(texts, 256 + merges)
        found.append(sum(len(tokenizer.encode(text)) for text in others) / words)
    return found


def cut_at(texts, sentence, sizes):
    """The pieces of a sentence for each number of merges."""
    cuts = {}
    for merges in sizes:
        tokenizer = byte_pair_training.train(texts, 256 + merges)
        cuts[merges] = [tokenizer.decode([i]) for i in tokenizer.encode(sentence)]
    return cuts
