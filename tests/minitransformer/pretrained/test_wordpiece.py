"""WordPiece: the rules for words, the longest pieces, pairs of texts."""

import doctest

import pytest

from minitransformer.errors import UserError
from minitransformer.pretrained import wordpiece
from minitransformer.pretrained.wordpiece import SPECIAL, WordPiece

PIECES = [
    *SPECIAL,
    "the",
    "cat",
    "un",
    "##aff",
    "##able",
    "##a",
    "a",
    "b",
    ".",
    ",",
    "'",
    "$",
    "中",
    "##b",
    "ete",
    "##σ",
]
VOCABULARY = {piece: i for i, piece in enumerate(PIECES)}


@pytest.fixture(scope="module")
def uncased():
    return WordPiece(VOCABULARY)


def test_the_example_in_the_text():
    assert doctest.testmod(wordpiece).failed == 0


@pytest.mark.parametrize(
    "text, pieces",
    [
        ("The CAT.", ["the", "cat", "."]),
        ("été e\u0301te\u0301", ["ete", "ete"]),
        ("a\x00\u200d\ufffd\x85\x0bb", ["a", "##b"]),  # control characters go and leave no gap
        ("a\u00a0b\u2028a\t\r\nb", ["a", "b", "a", "b"]),
        ("a中b", ["a", "中", "b"]),
        ("cat,$the'a", ["cat", ",", "$", "the", "'", "a"]),
        ("aΣ AΣ.", ["a", "##σ", "a", "##σ", "."]),  # not ς, as str.lower writes it at the end of a word
        ("unaffable unaffabl", ["un", "##aff", "##able", "[UNK]"]),
        ("a" * 100, ["a"] + ["##a"] * 99),
        ("a" * 101, ["[UNK]"]),
        ("[MASK]cat[mask]", ["[MASK]", "cat", "[UNK]", "[UNK]", "[UNK]"]),
        ("", []),
        (" \n\x01 ", []),
    ],
)
def test_how_text_is_cut(uncased, text, pieces):
    assert uncased.cut(text) == pieces


def test_options():
    assert WordPiece(VOCABULARY, lower=False).cut("The the été") == ["[UNK]", "the", "[UNK]"]
    assert WordPiece(VOCABULARY, lower=False, strip_accents=True).cut("été") == ["ete"]
    assert WordPiece(VOCABULARY, chinese=False).cut("a中") == ["[UNK]"]
    assert WordPiece(VOCABULARY, added={"<new>": 50}).encode("a<new>", add_special=False) == [VOCABULARY["a"], 50]


def test_pairs_are_cut_down_fairly(uncased):
    a, b = VOCABULARY["a"], VOCABULARY["b"]
    cls, sep = VOCABULARY["[CLS]"], VOCABULARY["[SEP]"]

    def lengths(first, second, max_len):
        ids, segments = uncased.encode_pair("a " * first, "b " * second, max_len)
        assert ids == [cls] + [a] * ids.count(a) + [sep] + [b] * ids.count(b) + [sep]
        assert segments == [0] * (ids.count(a) + 2) + [1] * (ids.count(b) + 1)
        assert len(ids) <= max_len
        return ids.count(a), ids.count(b)

    assert lengths(4, 3, 10) == (4, 3)
    assert lengths(9, 3, 10) == (4, 3)
    assert lengths(2, 9, 10) == (2, 5)
    assert lengths(9, 9, 10) == (3, 4)
    assert lengths(9, 8, 10) == (4, 3)
    assert lengths(9, 0, 3) == (0, 0)
    with pytest.raises(UserError, match="max_len = 2 leaves no room: 3 special"):
        uncased.encode_pair("a", "b", 2)


def test_decoding(uncased):
    assert uncased.decode(uncased.encode("The cat, unaffable.")) == "the cat, unaffable."
    assert uncased.decode([VOCABULARY["##aff"], VOCABULARY["##aff"]]) == "##affaff"
    assert list(uncased.decode_stream([VOCABULARY["the"], VOCABULARY["cat"]])) == ["the", " cat"]
    assert uncased.decode(uncased.encode("a"), keep_special=True) == "[CLS] a [SEP]"


def test_errors(uncased):
    with pytest.raises(UserError, match=r"has no \[MASK\]"):
        WordPiece({name: i for i, name in enumerate(SPECIAL[:-1])})
    with pytest.raises(UserError, match="half a character"):
        uncased.encode("\udfff")
    with pytest.raises(UserError, match="id 99 is outside"):
        uncased.decode([99])
