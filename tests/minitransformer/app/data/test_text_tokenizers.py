"""Tokenizers: ids that never move, specials that text cannot forge, files that come back as they went."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitransformer.app.data import (
    BERT_SPECIALS,
    DataError,
    LabTokenizer,
    PieceTokenizer,
    Tokenizer,
    WordTokenizer,
    load_tokenizer,
)
from minitransformer.app.data.tokenizers.piece_model import model_pieces

LINES = [f"le chat numéro {i} mange la souris et l'oiseau" for i in range(60)] + ["Bonjour le monde !"] * 5
HARD = "<eos> [MASK] <s> </s> <unk> <pad> ▁ ⁇"


def lab_files(folder, model=None):
    (folder / "dict.txt").write_text("▁le 9\n▁chat 5\ns 4\n? 1\n", encoding="utf-8")
    if model is not None:
        (folder / "m.model").write_bytes(model)
    return folder / "dict.txt"


@pytest.fixture(scope="module")
def pieces():
    return PieceTokenizer.train(LINES, vocab_size=80, extra_specials=BERT_SPECIALS)


@pytest.fixture(params=["words", "sentencepiece", "lab", "lab with model"])
def tokenizer(request, pieces, tmp_path):
    if request.param == "words":
        return WordTokenizer.train([*LINES, HARD], lower=True, extra_specials=BERT_SPECIALS)
    if request.param == "sentencepiece":
        return pieces
    if request.param == "lab":
        return LabTokenizer.from_files(lab_files(tmp_path), extra_specials=BERT_SPECIALS)
    dictionary = tmp_path / "dict.txt"
    dictionary.write_text("".join(f"{piece} 1\n" for piece in pieces.pieces), encoding="utf-8")
    (tmp_path / "m.model").write_bytes(pieces.model)
    return LabTokenizer.from_files(dictionary, tmp_path / "m.model", extra_specials=BERT_SPECIALS)


def encode(tokenizer, text):
    if isinstance(tokenizer, LabTokenizer) and tokenizer.model is None:
        return tokenizer.encode_pieces(text)
    return tokenizer.encode(text)


def test_special_ids(tokenizer):
    assert isinstance(tokenizer, Tokenizer)
    assert (tokenizer.sos, tokenizer.pad, tokenizer.eos, tokenizer.oov) == (0, 1, 2, 3)
    # Extra specials are last, so that adding them moves no piece.
    assert tokenizer.special("[CLS]") == tokenizer.vocab_size - 3 == 4 + len(tokenizer.pieces)
    assert tokenizer.piece(4) == tokenizer.pieces[0]
    assert [tokenizer.piece(i) for i in (0, 1, 2, 3, tokenizer.vocab_size - 1)] == [
        "<sos>", "<pad>", "<eos>", "<oov>", "[MASK]",
    ]  # fmt: skip
    assert [i for i in range(tokenizer.vocab_size) if tokenizer.is_special(i)] == sorted(tokenizer.specials.values())
    with pytest.raises(ValueError, match="no special token"):
        tokenizer.special("[NONE]")


def test_text_cannot_forge_specials(tokenizer):
    ids = encode(tokenizer, HARD)
    assert ids and all(not tokenizer.is_special(i) or i == tokenizer.oov for i in ids)


def test_decode_hides_specials_shows_oov_and_refuses_foreign_ids(tokenizer):
    body = encode(tokenizer, "▁le ▁chat" if isinstance(tokenizer, LabTokenizer) and not tokenizer.model else "le chat")
    row = np.array([0, *body, 3, 2, 1, 1, tokenizer.vocab_size - 1])
    assert tokenizer.decode(row) == "le chat <oov>"
    assert tokenizer.decode(row, keep_specials=True) == "<sos> le chat <oov> <eos> <pad> <pad> [MASK]"
    assert tokenizer.decode([]) == "" and tokenizer.decode([1, 2]) == ""
    for bad in (-1, tokenizer.vocab_size):
        with pytest.raises(ValueError, match="outside the vocabulary"):
            tokenizer.decode([bad])


def test_save_and_load(tokenizer, tmp_path):
    folder = tmp_path / "new" / "folder"
    tokenizer.save(folder)
    for again in (load_tokenizer(folder), type(tokenizer).load(folder)):
        assert type(again) is type(tokenizer)
        assert again.vocab_size == tokenizer.vocab_size and again.pieces == tokenizer.pieces
        assert again.name == tokenizer.name and again.specials == tokenizer.specials
        for text in (LINES[3], HARD, "", "inconnu 漢字", "LE CHAT"):
            assert encode(again, text) == encode(tokenizer, text)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    again.save(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    other = PieceTokenizer if tokenizer.kind != "sentencepiece" else WordTokenizer
    with pytest.raises(DataError, match="use load_tokenizer"):
        other.load(folder)


def test_words_order_count_and_size():
    texts = ["b a c", "b a", "B d é", "e\u0301"]
    everything = WordTokenizer.train(texts)
    # Count first, then characters; both spellings of é are one word; capitals differ.
    assert everything.pieces == ("a", "b", "é", "B", "c", "d")
    assert WordTokenizer.train(texts, lower=True).pieces == ("b", "a", "é", "c", "d")
    assert WordTokenizer.train(texts, min_count=2).pieces == ("a", "b", "é")
    assert WordTokenizer.train(texts, max_size=6).pieces == ("a", "b")
    assert WordTokenizer.train(texts, max_size=9, extra_specials=BERT_SPECIALS).vocab_size == 9
    assert everything.encode("a zz b") == [4, 3, 5]
    assert WordTokenizer.train(["J\u030c"], lower=True).pieces == ("\u01f0",)
    for options in ({"min_count": 9}, {"max_size": 4}, {"split": "letters"}):
        with pytest.raises(ValueError):
            WordTokenizer.train(texts, **options)
    with pytest.raises(ValueError, match="each once"):
        WordTokenizer(["a"], extra_specials=["<pad>"])


def test_words_cut_and_join():
    text = "« Quoi ? » L'ami (d’hier) est là, c'est-à-dire ici…"
    tokenizer = WordTokenizer.train([text])
    assert tokenizer.cut("L'ami n’est-ce pas?") == ["L'", "ami", "n’", "est", "-", "ce", "pas", "?"]
    assert tokenizer.decode(tokenizer.encode("L'ami (d’hier) est là, ici.")) == "L'ami (d’hier) est là, ici <oov>"
    hyphens = "est-ce un cache-cache? - oui, vas-y-t-en -"
    tokenizer = WordTokenizer.train([hyphens])
    assert tokenizer.decode(tokenizer.encode(hyphens)) == hyphens
    spaces = WordTokenizer.train(["a, b.\tc"], split="spaces")
    assert spaces.decode(spaces.encode("b.  a, \n c")) == "b. a, c"


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8")), min_size=1),
    st.booleans(),
    st.sampled_from(["words", "spaces"]),
)
def test_words_know_their_own_text(texts, lower, split):
    try:
        tokenizer = WordTokenizer.train(texts, lower=lower, split=split)
    except ValueError:
        assert not any(text.split() for text in texts)
        return
    for text in texts:
        ids = tokenizer.encode(text)
        assert tokenizer.oov not in ids
        if split == "spaces":  # with "words" the text may come back with other spaces
            assert tokenizer.encode(tokenizer.decode(ids)) == ids


def test_sentencepiece_training_is_deterministic_quiet_and_lossless(pieces, capfd):
    again = PieceTokenizer.train(iter(LINES), vocab_size=80, extra_specials=BERT_SPECIALS)
    assert again.model == pieces.model
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""
    assert pieces.vocab_size <= 80
    for line in LINES:
        assert pieces.decode(pieces.encode(line)) == line
    assert 3 in pieces.encode("漢")
    fallback = PieceTokenizer.train(LINES, vocab_size=400, byte_fallback=True)
    assert fallback.decode(fallback.encode("le 漢字")) == "le 漢字" and 3 not in fallback.encode("漢")
    fallback.decode(range(fallback.vocab_size))


def test_sentencepiece_vocab_size_counts_the_specials():
    for model_type in ("unigram", "bpe"):
        for extra in ((), BERT_SPECIALS):
            made = PieceTokenizer.train(LINES, vocab_size=50, model_type=model_type, extra_specials=extra)
            assert made.vocab_size == 50


def test_sentencepiece_learns_from_long_lines():
    # The trainer leaves out sentences over 4,192 bytes and does not say so.
    tokenizer = PieceTokenizer.train(["zèbre quagga " * 800, "abc"], vocab_size=40)
    assert 3 not in tokenizer.encode("zèbre quagga")


def test_sentencepiece_training_errors():
    for lines, options in (
        ([], {}),
        (["", " "], {}),
        (LINES, {"vocab_size": 12}),
        (LINES, {"model_type": "x"}),
    ):
        with pytest.raises(ValueError) as caught:
            PieceTokenizer.train(lines, **options)
        assert "\n" not in str(caught.value)

    def broken():
        yield "abc"
        raise KeyError("from the iterator")

    with pytest.raises(KeyError, match="from the iterator"):
        PieceTokenizer.train(broken(), vocab_size=20)
    with pytest.raises(UnicodeEncodeError):
        PieceTokenizer.train(["a\ud800"], vocab_size=20)


def test_sentencepiece_encode_refuses_half_a_surrogate_pair(pieces):
    with pytest.raises(ValueError, match="lone surrogates"):
        pieces.encode("le \ud800")


def test_our_reading_of_the_model_agrees_with_the_library(pieces):
    table = model_pieces("m", pieces.model)
    processor = pieces._processor
    assert [piece.text for piece in table] == [processor.id_to_piece(i) for i in range(processor.vocab_size())]
    assert [piece.score for piece in table] == [processor.get_score(i) for i in range(processor.vocab_size())]


def test_lab_ids_are_line_numbers_plus_four(tmp_path):
    tokenizer = LabTokenizer.from_files(lab_files(tmp_path))
    assert tokenizer.vocab_size == 8 and tokenizer.counts == (9, 5, 4, 1)
    assert tokenizer.encode_pieces("▁le ▁chat s ? ▁chien") == [4, 5, 6, 7, 3]
    assert tokenizer.encode_pieces(["▁chat", "s"]) == [5, 6]
    assert tokenizer.decode([4, 5, 6, 7]) == "le chats?"
    (row,) = tokenizer.encode_all(["▁le  ▁chat "], in_pieces=True)
    assert row.tolist() == [4, 5] and row.dtype == np.int32
    with pytest.raises(ValueError, match="give it the sentencepiece model"):
        tokenizer.encode("le chat")


def test_lab_with_a_model_encodes_as_the_pieces_say(tmp_path, pieces):
    path = lab_files(tmp_path, pieces.model)
    tokenizer = LabTokenizer.from_files(path, tmp_path / "m.model")
    text = "le chat mange"
    cut = pieces._processor.encode(text, out_type=str)
    assert tokenizer.encode(text) == tokenizer.encode_pieces(cut)
    # "?" is in the dictionary and not in the model: it is shown all the same.
    assert tokenizer.decode([7]) == "?"
    # A dictionary may list "<unk>" as a piece; what the model does not know is <oov> nevertheless.
    path.write_text("<unk> 1\n▁le 1\n", encoding="utf-8")
    assert LabTokenizer.from_files(path, tmp_path / "m.model").encode("漢")[-1] == 3


@pytest.mark.parametrize(
    ("content", "line"),
    [("a 1\n\nb 2\n", 2), ("a 1\nb\n", 2), ("a x\n", 1), (" 1\n", 1), ("a -1\n", 1), ("a 1\nb 1\na 2\n", 3),
     ("a b 1\n", 1), ("a ²\n", 1), ("a " + "1" * 5000 + "\n", 1), ("", 1)],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_lab_dictionary_of_wrong_shape(tmp_path, content, line):
    path = tmp_path / "dict.txt"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        LabTokenizer.from_files(path)
    assert caught.value.line == line


@pytest.mark.parametrize(
    "change",
    [{"format": "x"}, {"kind": "x"}, {"kind": 3}, {"name": None}, {"words": "abc"}, {"words": ["a", "a"]},
     {"words": []}, {"words": ["a", 3]}, {"words": ["a", ""]}, {"words": ["\ud800"]}, {"lower": 1},
     {"split": "x"}, {"extra_specials": [1]}, {"extra_specials": ["<pad>"]}, {"extra_specials": None}],
    ids=ascii,
)  # fmt: skip
def test_description_of_wrong_shape(tmp_path, change):
    WordTokenizer.train(["a b"]).save(tmp_path)
    path = tmp_path / "tokenizer.json"
    good = json.loads(path.read_text(encoding="utf-8"))
    for bad in (good | change, {key: value for key, value in good.items() if key not in change}):
        path.write_text(json.dumps(bad), encoding="utf-8")
        with pytest.raises(DataError):
            load_tokenizer(tmp_path)


def test_damage_of_a_saved_model_is_found_by_its_checksum(tmp_path, pieces):
    pieces.save(tmp_path)
    path = tmp_path / "sentencepiece.model"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1  # in the table of normalisation, where nothing else would notice
    path.write_bytes(data)
    with pytest.raises(DataError, match="changed"):
        load_tokenizer(tmp_path)
    path.unlink()
    with pytest.raises(DataError, match="no such file"):
        load_tokenizer(tmp_path)
    description = tmp_path / "tokenizer.json"
    description.write_text(description.read_text("utf-8").replace('"sentencepiece.model"', '"../m"'), "utf-8")
    with pytest.raises(DataError, match="model file"):
        load_tokenizer(tmp_path)
