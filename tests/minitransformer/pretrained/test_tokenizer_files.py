"""Tokenizers from files: every layout gives the same tokenizer, every fault one line."""

import base64
import json

import pytest

from minitransformer.errors import DataError, UserError
from minitransformer.pretrained.byte_pair import PATTERNS, to_characters
from minitransformer.pretrained.tokenizer_folder import read_folder
from minitransformer.pretrained.tokenizer_lists import from_gguf, read_ranks
from minitransformer.pretrained.wordpiece import SPECIAL

PIECES = [*SPECIAL, "the", "cat", "##s", "Cat", "é", "e"]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def written(tokenizer):
    """Tokens in the order of their ids, and merges, as files write them."""
    names = {i: to_characters(token) for token, i in tokenizer.tokens.items()}
    names |= {i: name for name, i in tokenizer.special.items()}
    merges = sorted(tokenizer.pairs, key=lambda pair: tokenizer.pairs[pair][0])
    return [names[i] for i in range(len(names))], [(names[a], names[b]) for a, b in merges]


def added(name, i, **options):
    return {"id": i, "content": name, "special": True, "lstrip": False, "rstrip": False, "single_word": False} | options


@pytest.fixture
def bpe_json(small):
    """The contents of a tokenizer.json, to be bent."""
    tokens, merges = written(small)
    return {
        "added_tokens": [added(name, i) for name, i in small.special.items()],
        "normalizer": None,
        "pre_tokenizer": dict(BYTE_LEVEL),
        "post_processor": dict(BYTE_LEVEL),
        "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": [list(m) for m in merges]},
    }


@pytest.fixture
def wordpiece_json():
    vocabulary = {piece: i for i, piece in enumerate(PIECES)}
    return {
        "added_tokens": [added(name, vocabulary[name], normalized=False) for name in SPECIAL],
        "normalizer": {
            "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocabulary,
        },
    }  # fmt: skip


def folder_of(tmp_path, **files):
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / name.replace("__", ".")).write_text(text, encoding="utf-8", newline="")
    return tmp_path


def test_every_layout_gives_the_same_tokenizer(small, bpe_json, tmp_path, hard_texts):
    tokens, merges = written(small)
    pairs = [" ".join(pair) for pair in merges]
    whole = read_folder(folder_of(tmp_path, tokenizer__json=bpe_json))
    bpe_json["model"]["merges"] = pairs  # the older way
    older = read_folder(folder_of(tmp_path, tokenizer__json=bpe_json))
    (tmp_path / "tokenizer.json").unlink()
    names = {"eos_token": "<|endoftext|>", "additional_special_tokens": ["<|im_start|>", {"content": "<|im_end|>"}]}
    two = read_folder(folder_of(
        tmp_path, vocab__json=bpe_json["model"]["vocab"], merges__txt="\r\n".join(["#version: 0.2", *pairs, ""]),
        special_tokens_map__json=names,
    ))  # fmt: skip
    gguf = from_gguf(tokens, pairs, [3 if token in small.special else 1 for token in tokens], "gpt-2")
    for tokenizer in (whole, older, two, gguf):
        assert tokenizer.vocab_size == small.vocab_size and tokenizer.special == small.special
        for text in hard_texts(500, small.special):
            assert tokenizer.encode(text) == small.encode(text)


def test_a_rank_file(small, tmp_path, hard_texts):
    first = len(small.special)
    lines = [f"{base64.b64encode(token).decode()} {i - first}" for token, i in small.tokens.items()]
    tokenizer = read_ranks(folder_of(tmp_path, ranks="\n".join(lines)) / "ranks", ["<|endoftext|>", "<|im_end|>"])
    assert tokenizer.special == {"<|endoftext|>": small.vocab_size - first, "<|im_end|>": small.vocab_size - first + 1}
    for text in hard_texts(500):
        assert tokenizer.encode(text) == [i - first for i in small.encode(text)]


@pytest.mark.parametrize("pre, pattern", [("gpt-2", "gpt2"), ("smollm", "smollm"), ("llama-bpe", "llama3")])
def test_gguf_says_how_words_are_cut(pre, pattern):
    tokenizer = from_gguf(["<s>", "1", "2", "12", "<t>", "<u>"], ["1 2"], [3, 1, 1, 1, 4, 5], pre, before=[0])
    assert tokenizer.pattern == pattern
    assert tokenizer.encode("12<t>") == [0, *([1, 2] if pre == "smollm" else [3]), 4]
    assert tokenizer.decode([0, 3, 4]) == "12<t>" and tokenizer.whole_words == (pre == "llama-bpe")


@pytest.mark.parametrize(
    "splitter, words",
    [
        (BYTE_LEVEL, ["a", " ", " 12"]),
        ([{"type": "Digits", "individual_digits": True}, BYTE_LEVEL], ["a", "  ", "1", "2"]),
        (PATTERNS["llama3"], ["a", " ", " ", "12"]),
        (r"\p{N}", ["a  ", "1", "2"]),  # what the expression leaves out is a word as well
    ],
)
def test_how_tokenizer_json_says_it(bpe_json, tmp_path, splitter, words):
    if isinstance(splitter, str):
        split = {"type": "Split", "pattern": {"Regex": splitter}, "behavior": "Isolated", "invert": False}
        splitter = [split, BYTE_LEVEL | {"use_regex": False}]
    sequence = {"type": "Sequence", "pretokenizers": splitter}
    bpe_json["pre_tokenizer"] = sequence if isinstance(splitter, list) else splitter
    tokenizer = read_folder(folder_of(tmp_path, tokenizer__json=bpe_json))
    assert tokenizer._words.findall("a  12") == words


def test_what_goes_around_a_text(bpe_json, tmp_path):
    end, start = 0, 1
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "S", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {"S": {"id": "S", "ids": [start], "tokens": ["S"]}},
    }
    roberta = {"type": "RobertaProcessing", "sep": ["</s>", end], "cls": ["<s>", start]}
    both = {"type": "Sequence", "processors": [BYTE_LEVEL, template]}
    for processor, ids in ((template, [start]), (roberta, [start, end]), (both, [start]), (None, []), (BYTE_LEVEL, [])):
        bpe_json["post_processor"] = processor
        assert read_folder(folder_of(tmp_path, tokenizer__json=bpe_json)).encode("") == ids


def test_wordpiece_from_both_files(wordpiece_json, tmp_path):
    one = read_folder(folder_of(tmp_path, tokenizer__json=wordpiece_json))
    (tmp_path / "tokenizer.json").unlink()
    two = read_folder(folder_of(tmp_path, vocab__txt="\r\n".join(PIECES) + "\r\n"))
    assert one.encode("Cats é") == two.encode("Cats é") == [2, 6, 7, 10, 3]
    cased = read_folder(folder_of(tmp_path, tokenizer_config__json={"do_lower_case": False}))
    assert cased.encode("Cats é") == [2, 8, 7, 9, 3]
    wordpiece_json["normalizer"] |= {"lowercase": False, "strip_accents": True}
    assert read_folder(folder_of(tmp_path, tokenizer__json=wordpiece_json)).encode("Cat é") == [2, 8, 10, 3]


def fails(read, *arguments):
    with pytest.raises(UserError) as error:
        read(*arguments)
    assert "\n" not in str(error.value) and len(str(error.value)) < 700
    assert "DataError" not in str(error.value)  # told once, not wrapped in another
    return str(error.value)


def set_at(data, path, value):
    *above, last = path.split("/")
    for key in above:
        data = data[key]
    data[last] = value


@pytest.mark.parametrize(
    "path, value, says",
    [
        ("model/merges", [["a", "Ω"]], "a merge with 'Ω'"),
        ("model/merges", [["a", "a"]], "a merge with 'aa'"),
        ("model/merges", ["a b c"], "two tokens"),
        ("model/merges", [3], "two tokens"),
        ("model/vocab", {"a": "1"}, "the id '1' of 'a'"),
        ("model/vocab", {"a": 1, "b": 1}, "the id 1 for 'a' and 'b'"),
        ("model/vocab", {"a": -1}, "from 0 on"),
        ("model/vocab", {}, "no tokens"),
        ("model/vocab", [], "wrong kind"),
        ("model", None, "wrong kind"),
        ("model/byte_fallback", True, "byte_fallback is True"),
        ("model/dropout", 0.1, "dropout is 0.1"),
        ("normalizer", {"type": "NFC"}, "the normalizer is 'NFC'"),
        ("pre_tokenizer", None, "wrong kind"),
        ("pre_tokenizer", {"type": "Metaspace"}, "the pre_tokenizer is (['Metaspace']"),
        ("pre_tokenizer", BYTE_LEVEL | {"add_prefix_space": True}, "add_prefix_space is True"),
        ("post_processor", {"type": "Other"}, "the post_processor is 'Other'"),
        ("added_tokens", [added("<x>", 5, single_word=True)], "single_word, of '<x>' is True"),
        ("added_tokens", [{"id": 3}], "content"),
    ],
)  # fmt: skip
def test_a_bent_tokenizer_json(bpe_json, tmp_path, path, value, says):
    set_at(bpe_json, path, value)
    message = fails(read_folder, folder_of(tmp_path, tokenizer__json=bpe_json))
    assert says in message and "tokenizer.json" in message


@pytest.mark.parametrize("expression", [r"\p{Klingon}", "(", r"\w+"])
def test_an_expression_that_cannot_be_read(bpe_json, tmp_path, expression):
    split = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
    bpe_json["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, BYTE_LEVEL | {"use_regex": False}]}
    assert "an expression for words" in fails(read_folder, folder_of(tmp_path, tokenizer__json=bpe_json))


@pytest.mark.parametrize(
    "path, value, says",
    [
        ("model/type", "Unigram", "the model's type is 'Unigram'"),
        ("model/continuing_subword_prefix", "@@", "'@@'"),
        ("normalizer", None, "the normalizer is (None, None)"),
        ("normalizer/clean_text", False, "False"),
        ("pre_tokenizer", {"type": "Whitespace"}, "Whitespace"),
        ("post_processor", None, "the frame of a text is ([], [])"),
        ("added_tokens", [], "the special tokens"),
        ("model/vocab", {"a": 0}, "[CLS]"),
    ],
)
def test_a_bent_wordpiece(wordpiece_json, tmp_path, path, value, says):
    set_at(wordpiece_json, path, value)
    assert says in fails(read_folder, folder_of(tmp_path, tokenizer__json=wordpiece_json))


@pytest.mark.parametrize(
    "files, says",
    [
        ({}, "no tokenizer"),
        ({"tokenizer__json": '{"model":'}, "tokenizer.json:1: found no JSON"),
        ({"tokenizer__json": "[" * 100_000}, "nested without end"),
        ({"tokenizer__json": "[]"}, "a JSON object"),
        ({"vocab__txt": "a\nb\na\n"}, "vocab.txt:3: found 'a' as on line 1"),
        ({"vocab__txt": "a\n"}, "has no [PAD]"),
        ({"vocab__txt": ""}, "has no [PAD]"),
        ({"vocab__json": {"a": 0, "ab": 1}, "merges__txt": "#version: 0.2\na b c\n"}, "merges.txt:2: found the merge"),
        ({"vocab__json": {"a": 0, "ab": 1}, "merges__txt": "a b\n"}, "a merge with 'b'"),
        ({"vocab__json": {"a b": 0}, "merges__txt": ""}, "' ' in a token"),
        ({"vocab__json": {"a": 0}, "merges__txt": "", "special_tokens_map__json": {"x": {}}}, "_map.json"),
    ],
)  # fmt: skip
def test_broken_folders(tmp_path, files, says):
    assert says in fails(read_folder, folder_of(tmp_path, **files))


def test_files_that_are_no_text(tmp_path):
    (tmp_path / "vocab.txt").write_bytes(b"a\n\xff\n")
    assert "no UTF-8 at byte 2" in fails(read_folder, tmp_path)
    assert "vocab.txt:1: found 'a'" in fails(read_ranks, folder_of(tmp_path, vocab__txt="a\n") / "vocab.txt")
    assert "Is a directory" in fails(read_ranks, tmp_path)
    assert "No such file" in fails(read_ranks, tmp_path / "absent")
    assert "ranks:2: found" in fails(read_ranks, folder_of(tmp_path, ranks="YQ== 0\nYg== x\n") / "ranks")
    assert "the id 0 for b'a' and b'b'" in fails(read_ranks, folder_of(tmp_path, ranks="YQ== 0\nYg== 0\n") / "ranks")


def test_bent_gguf():
    assert "tokenizer.ggml.pre 'qwen2'" in fails(from_gguf, ["a"], [], [1], "qwen2")
    assert "2 token types" in fails(from_gguf, ["a"], [], [1, 1], "gpt-2")
    assert "the merge 'ab'" in fails(from_gguf, ["a"], ["ab"], [1], "gpt-2")
    assert "a merge with 'b'" in fails(from_gguf, ["a"], ["a b"], [1], "gpt-2")
    assert "no tokens" in fails(from_gguf, [], [], [], "gpt-2")
    with pytest.raises(DataError, match="model.gguf:0"):
        from_gguf([], [], [], "gpt-2", source="model.gguf")
