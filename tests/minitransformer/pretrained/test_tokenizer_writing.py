"""Tokenizers written as others' files, and read again by us; in test_oracle_tokenizers.py others read them."""

import json

import pytest

from minitransformer.errors import UserError
from minitransformer.pretrained.byte_pair import PATTERNS, BytePair, pairs_of_ranks
from minitransformer.pretrained.byte_pair_training import train
from minitransformer.pretrained.characters import Characters
from minitransformer.pretrained.tokenizer_folder import read_folder, with_the_rest
from minitransformer.pretrained.tokenizer_writing import files_of
from minitransformer.pretrained.wordpiece import SPECIAL, WordPiece


def written(tokenizer, folder):
    folder.mkdir(exist_ok=True)
    for name, content in files_of(tokenizer).items():
        (folder / name).write_bytes(content)
    return read_folder(folder)


def word_piece(**options):
    pieces = [*SPECIAL, "the", "cat", "Cat", "e", "é", "##s", "##e", "中", "文", "##文", ".", "new"]
    return WordPiece({piece: i for i, piece in enumerate(pieces)}, **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lower": False},
        {"strip_accents": False},
        {"chinese": False},
        {"added": {"new": 16}},
        {"absorb_left": ["[MASK]"]},
    ],
    ids=str,
)
def test_word_piece_comes_back(options, hard_texts, tmp_path):
    ours = word_piece(**options)
    again = written(ours, tmp_path)
    texts = hard_texts(400, SPECIAL) + ["the  cats [MASK] new", "Cat é 中文."]
    assert [again.encode(text) for text in texts] == [ours.encode(text) for text in texts]
    assert again.encode_pair("the cat", "cats") == ours.encode_pair("the cat", "cats")
    if not {"added", "absorb_left"} & options.keys():  # which vocab.txt has no room for
        (tmp_path / "tokenizer.json").unlink()
        settings = {
            "do_lower_case": ours.lower,
            "strip_accents": ours.strip_accents,
            "tokenize_chinese_chars": ours.chinese,
        }
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        assert [read_folder(tmp_path).encode(text) for text in texts] == [ours.encode(text) for text in texts]


OWN = r"\p{L}+|\d"


@pytest.mark.parametrize("pattern", [*PATTERNS, with_the_rest(OWN)])
@pytest.mark.parametrize("around", [{}, {"before": [0]}, {"before": [0], "after": [1, 1]}], ids=str)
def test_byte_pairs_come_back(small, pattern, around, hard_texts, tmp_path):
    options = {"whole_words": pattern == "llama3", "added": {"<tool>": 401}, "absorb_right": ["<|im_end|>"]}
    ours = BytePair(small.tokens, small.pairs, small.special, pattern=pattern, **options, **around)
    again = written(ours, tmp_path)
    texts = hard_texts(400, [*small.special, "<tool>"])
    assert [again.encode(text) for text in texts] == [ours.encode(text) for text in texts]
    assert (again.tokens, again.vocab_size) == (ours.tokens, ours.vocab_size)
    assert PATTERNS.get(again.pattern, again.pattern) == PATTERNS.get(pattern, pattern)
    assert [*again.pairs] == sorted(ours.pairs, key=lambda pair: ours.pairs[pair][0])
    if pattern not in PATTERNS:
        assert json.loads((tmp_path / "tokenizer.json").read_text())["pre_tokenizer"]["pretokenizers"][0][
            "pattern"
        ] == {"Regex": OWN}


def test_of_several_ways_to_make_a_token_the_one_of_training_is_written(tmp_path):
    """A rank file tells tokens in their order only: every way to make one is a pair then."""
    trained = train(["banana nana anna ban an na " * 3 + "bananas cabana"], 280)
    ours = BytePair(trained.tokens, pairs_of_ranks(trained.tokens))
    assert len(ours.pairs) > len(trained.pairs)
    assert [*written(ours, tmp_path).pairs] == [*trained.pairs]


def test_what_others_do_not_know_is_refused():
    with pytest.raises(UserError, match="WordPiece and byte pairs"):
        files_of(Characters({"a": 0}, {}))
