"""Byte-pair encoding: the algorithm, bytes, special tokens, decoding piece by piece."""

import doctest
import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitransformer.errors import UserError
from minitransformer.pretrained import byte_pair, tokenizer
from minitransformer.pretrained.byte_pair import (
    BYTE_CHARACTERS,
    BytePair,
    from_characters,
    merge,
    pairs_of_merges,
    pairs_of_ranks,
    to_characters,
)  # fmt: skip

BYTES = {bytes([b]): b for b in range(256)}


def test_the_example_in_the_text():
    assert doctest.testmod(byte_pair).failed == 0


def merged_slowly(symbols, pairs):
    """The definition: look through all pairs, merge the earliest, look again."""
    symbols = list(symbols)
    while True:
        there = [(pairs[pair][0], i) for i, pair in enumerate(zip(symbols, symbols[1:], strict=False)) if pair in pairs]
        if not there:
            return symbols
        i = min(there)[1]
        symbols[i : i + 2] = [pairs[symbols[i], symbols[i + 1]][1]]


@given(
    st.lists(st.integers(0, 4), max_size=40),
    st.dictionaries(st.tuples(st.integers(0, 9), st.integers(0, 9)), st.tuples(st.integers(0, 9), st.integers(5, 9))),
)
def test_merging_is_its_definition(symbols, pairs):
    """Any table of merges, also ones that no training makes: equal ranks, cycles, overlaps as in aaa."""
    before = list(symbols)
    assert merge(symbols, pairs) == merged_slowly(symbols, pairs)
    assert symbols == before


def test_a_pair_that_changed_waits_its_turn():
    """2+3 goes first and makes 1+4 out of 1+2; 1+4 comes later than 0+1, although 1+2 would have come before it."""
    pairs = {(2, 3): (0, 4), (1, 2): (1, 5), (0, 1): (2, 6), (1, 4): (3, 7)}
    assert merge([0, 1, 2, 3], pairs) == [6, 4]


def test_a_word_of_a_hundred_thousand_letters():
    """Would take minutes if every merge looked through the word."""
    tokens = BYTES | {b"ab": 256, b"abab": 257}
    tokenizer = BytePair(tokens, pairs_of_merges(tokens, [(b"a", b"b"), (b"ab", b"ab")]))
    assert tokenizer.encode("ab" * 50_000) == [257] * 25_000


def test_bytes_have_characters_that_can_be_seen():
    assert len(set(BYTE_CHARACTERS.values())) == len(BYTE_CHARACTERS) == 256
    assert all(unicodedata.category(c)[0] in "LNPSM" for c in BYTE_CHARACTERS.values())
    assert to_characters(" été\n".encode()) == "ĠÃ©tÃ©Ċ"
    everything = bytes(range(256))
    assert from_characters(to_characters(everything)) == everything
    assert list(BYTE_CHARACTERS.values()) == sorted(BYTE_CHARACTERS.values())  # the order of GPT-2's ids


@pytest.mark.parametrize(
    "pattern, text, words",
    [
        ("gpt2", "It's  2024, isn't\n\n it? ", ["It", "'s", " ", " 2024", ",", " isn", "'t", "\n\n", " it", "?", " "]),
        ("gpt2", "HE'S a\u00a0b\x1cc", ["HE", "'", "S", " a", "\u00a0", "b", "\x1c", "c"]),
        ("smollm", "in 2024  a1  ", ["in", " ", "2", "0", "2", "4", " ", " a", "1", "  "]),
        ("smollm", "a  1 ½", ["a", "  ", "1", " ", "½"]),
        ("llama3", "HE'S 12345!\n\n (x)", ["HE", "'S", " ", "123", "45", "!\n\n", " (", "x", ")"]),
    ],
)
def test_how_words_are_cut(pattern, text, words):
    tokenizer = BytePair(BYTES, {}, pattern=pattern)
    assert tokenizer._words.findall(text) == words


def test_text_comes_back_whatever_it_is(small, hard_texts):
    for text in hard_texts(2000, small.special):
        assert small.decode(small.encode(text), keep_special=True) == text


def test_special_tokens_are_cut_out_first(small):
    end = small.special["<|im_end|>"]
    plain = small.encode("the cat", add_special=False)
    assert small.encode("the cat<|im_end|>the cat") == [*plain, end, *plain]
    assert end not in small.encode("the cat<|im_end|>", parse_special=False)
    assert small.decode(small.encode("<|im_end|>", parse_special=False)) == "<|im_end|>"
    assert small.decode([end, *plain]) == "the cat"
    assert small.decode([end, *plain], keep_special=True) == "<|im_end|>the cat"


def test_of_two_special_tokens_the_longer_is_meant():
    tokenizer = BytePair(BYTES, {}, {"<a>": 256, "<a><b>": 257})
    assert tokenizer.encode("<a><b><a>") == [257, 256]


def test_added_tokens_are_text_and_some_swallow_spaces():
    tokenizer = BytePair(BYTES, {}, {"<mask>": 256}, added={"<think>": 257}, absorb_left={"<mask>"})
    assert tokenizer.encode("a  <mask> <think>") == [97, 256, 32, 257]
    assert tokenizer.encode("<mask><think>", parse_special=False)[-1] == 257
    assert tokenizer.decode([256, 257]) == "<think>"
    assert tokenizer.vocab_size == 258


def test_ids_around_a_text_and_its_greatest_length():
    tokenizer = BytePair(BYTES, {}, {"<s>": 256, "</s>": 257}, before=[256], after=[257])
    assert tokenizer.encode("abc") == [256, 97, 98, 99, 257]
    assert tokenizer.encode("abc", max_len=4) == [256, 97, 98, 257]
    assert tokenizer.encode("abc", max_len=2, add_special=False) == [97, 98]
    assert tokenizer.encode_batch(["a", ""]) == [[256, 97, 257], [256, 257]]
    with pytest.raises(UserError, match="max_len = 1 leaves no room"):
        tokenizer.encode("abc", max_len=1)


def test_whole_words_need_no_merges():
    tokens = BYTES | {b"abc": 256}
    assert BytePair(tokens, {}).encode("abc") == [97, 98, 99]
    assert BytePair(tokens, {}, whole_words=True).encode("abc abc") == [256, 32, 97, 98, 99]


def test_a_byte_without_a_token_is_left_out():
    tokens = {token: i for token, i in BYTES.items() if token != b"b"}
    assert BytePair(tokens, {}).encode("abc") == [97, 99]


def test_ranks_allow_every_way_to_make_a_token():
    tokens = {b"a": 0, b"b": 1, b"c": 2, b"ab": 3, b"bc": 4, b"abc": 5}
    assert pairs_of_ranks(tokens) == {(0, 1): (3, 3), (1, 2): (4, 4), (0, 4): (5, 5), (3, 2): (5, 5)}


def test_a_stream_waits_for_whole_characters():
    tokenizer = BytePair(BYTES, {})
    assert list(tokenizer.decode_stream("é!👍".encode())) == ["", "é", "!", "", "", "", "👍", ""]


@given(st.binary(max_size=12))
def test_bytes_that_are_no_text_become_replacement_characters(data):
    tokenizer = BytePair(BYTES, {})
    assert tokenizer.decode(data) == data.decode("utf-8", errors="replace")


@pytest.mark.parametrize("bad", [-1, 256, 10**9])
def test_ids_outside_the_vocabulary(bad):
    with pytest.raises(UserError, match=rf"id {bad} is outside the vocabulary, 0 ... 255"):
        BytePair(BYTES, {}).decode([97, bad])


def test_half_a_character_is_refused(small):
    with pytest.raises(UserError, match=r"half a character \(U\+D800 at position 2\)") as error:
        small.encode("ab\ud800")
    assert "\n" not in str(error.value)
    with pytest.raises(TypeError, match="must be a str, not bytes"):
        small.encode(b"ab")


def test_the_memory_of_words_is_bounded(monkeypatch, small):
    monkeypatch.setattr(tokenizer, "CACHED_WORDS", 50)
    fresh = BytePair(small.tokens, small.pairs)
    rng = random.Random(0)
    text = " ".join("".join(rng.choices("abcde", k=4)) for _ in range(500)) + " " + "long" * 100
    assert fresh.encode(text) == small.encode(text)
    assert len(fresh._known) <= 50 and max(map(len, fresh._known)) <= tokenizer.CACHED_LENGTH
