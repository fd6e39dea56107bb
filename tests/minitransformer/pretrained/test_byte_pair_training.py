"""Training of byte pairs: the same merges as by counting everything anew each time."""

import doctest
import random
from collections import Counter
from itertools import pairwise

import pytest

from minitransformer.errors import UserError
from minitransformer.pretrained import byte_pair_training
from minitransformer.pretrained.byte_pair import BYTE_CHARACTERS
from minitransformer.pretrained.byte_pair_training import train
from minitransformer.pretrained.unicode_patterns import UnicodePattern


def test_the_example_in_the_text():
    assert doctest.testmod(byte_pair_training).failed == 0


def trained_slowly(text, vocab_size):
    """The definition: count all pairs of the text, replace the most frequent one, count again."""
    ids = {bytes([byte]): i for i, byte in enumerate(BYTE_CHARACTERS)}
    words = [[bytes([b]) for b in word.encode()] for word in UnicodePattern(r" ?\p{L}+").findall(text)]
    merges = []
    while len(ids) < vocab_size:
        counts = Counter(pair for word in words for pair in pairwise(word))
        if not counts:
            break
        pair = min(counts, key=lambda p: (-counts[p], ids[p[0]], ids[p[1]]))
        merges.append(pair)
        ids[pair[0] + pair[1]] = len(ids)
        for word in words:
            i = 0
            while i + 1 < len(word):
                if (word[i], word[i + 1]) == pair:
                    word[i : i + 2] = [pair[0] + pair[1]]
                i += 1
    return merges, ids


@pytest.mark.parametrize("seed", range(20))
def test_training_is_its_definition(seed):
    """Few letters: long runs as in aaaa, and many ties."""
    rng = random.Random(seed)
    letters = "ab" if seed % 2 else "abcdé"
    text = " ".join("".join(rng.choices(letters, k=rng.randint(1, 12))) for _ in range(60))
    merges, tokens = trained_slowly(text, 256 + 60)
    tokenizer = train([text], 256 + 60, pattern=r" ?\p{L}+")
    assert tokenizer.tokens == tokens
    by_rank = sorted(tokenizer.pairs, key=lambda pair: tokenizer.pairs[pair][0])
    names = {i: token for token, i in tokens.items()}
    assert [(names[a], names[b]) for a, b in by_rank] == merges


def test_texts_are_counted_together_and_apart():
    one = train(["low lower", "lowest low"], 262)
    assert one.tokens == train(["lowest low", "low lower"], 262).tokens
    assert train(["ab"] * 3, 300).tokens.keys() - train(["a", "b"], 300).tokens.keys() == {b"ab"}


def test_sizes_specials_and_counts():
    tokenizer = train(["aaab aaab xy"], 1000, special=["<s>", "</s>"], min_count=2)
    assert tokenizer.special == {"<s>": 0, "</s>": 1} and tokenizer.tokens[b"!"] == 2
    assert b"xy" not in tokenizer.tokens and b"aaab" in tokenizer.tokens
    assert tokenizer.vocab_size == 2 + len(tokenizer.tokens) < 1000
    assert train([], 256).encode("é") == [train([], 256).tokens[bytes([b])] for b in "é".encode()]
    with pytest.raises(UserError, match="vocab_size is 257, but 256 bytes and 2 special tokens need 258"):
        train(["a"], 257, special=["<s>", "</s>"])
