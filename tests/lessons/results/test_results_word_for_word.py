"""A lexicon from pairs of sentences, and reviews that are turned with it."""

import random

import pytest

from lessons.results import word_for_word
from minitransformer.errors import UserError

FRENCH = {"the": "le", "a": "un", "cat": "chat", "dog": "chien", "sees": "voit", "good": "bon", "book": "livre"}


def sentences(count=60):
    """Words in any order, "the" in every sentence: what always stands there must not translate everything."""
    draw, words = random.Random(1), [word for word in FRENCH if word != "the"]
    for _ in range(count):
        chosen = ["the", *draw.sample(words, 3)]
        yield " ".join(chosen), " ".join(draw.sample([FRENCH[word] for word in chosen], 4))


def test_the_lexicon_finds_each_words_partner():
    found = word_for_word.lexicon(list(sentences()), rounds=20)
    assert {word: translations[0] for word, (translations, _) in found.items()} == FRENCH
    for translations, probabilities in found.values():
        assert len(translations) == len(probabilities) <= word_for_word.MOST
        assert probabilities == sorted(probabilities, reverse=True) and min(probabilities) >= word_for_word.PROBABLE


def test_one_round_by_hand():
    """Two pairs, "a b" with "x y" and "a" with "x". At first each French word comes from either English one or from
    nobody, a third each; in the second pair a half each. So a gets x 1/3 + 1/2 times and y 1/3 times."""
    found = word_for_word.lexicon([("a b", "x y"), ("a", "x")], rounds=1)
    assert found["a"][0] == ["x", "y"] and found["a"][1] == pytest.approx([5 / 7, 2 / 7])
    assert found["b"][1] == pytest.approx([0.5, 0.5])


def test_a_text_is_turned_word_for_word():
    known = {"good": (["bon", "bonne"], [0.75, 0.25]), "book": (["livre"], [0.9])}
    draw = random.Random(0)
    assert word_for_word.turned("Book, 3 stars!", known, draw) == "livre , 3 !"
    drawn = [word_for_word.turned("good", known, draw) for _ in range(400)]
    assert set(drawn) == {"bon", "bonne"}
    assert drawn.count("bon") == pytest.approx(300, abs=35)  # four standard deviations, √(400 · 3/16) each


def test_files(tmp_path, capsys):
    data, imdb, folder = tmp_path / "data", tmp_path / "imdb", tmp_path / "made"
    for one in (data / "tatoeba-eng-fra", data / "cls-books-fr", imdb):
        one.mkdir(parents=True)
    (data / "tatoeba-eng-fra/train.tsv").write_text("".join(f"{e}\t{f}\n" for e, f in FRENCH.items()))
    (imdb / "unlabelled.txt").write_text("The cat sees zebras.\nA good book\n")
    for name, text in (("train", '▁Un ▁l ivre , ▁" bon "'), ("valid", "▁le ▁chien")):
        (data / f"cls-books-fr/{name}.review.spm").write_text(f"{text}\n▁non\n")
        (data / f"cls-books-fr/{name}.label").write_text("1\n0\n")
    assert word_for_word.main([str(data), str(imdb), str(folder)]) == 0
    assert "texts.txt: 4 texts" in capsys.readouterr().out
    assert (folder / "train.tsv").read_text() == "text\tlabel\nUn livre, ''bon''\t1\nnon\t0\n"
    assert (folder / "valid.tsv").read_text() == "text\tlabel\nle chien\t1\nnon\t0\n"
    texts = (folder / "texts.txt").read_text().splitlines()
    # zebras are unknown, and nothing is there of the reviews that are judged
    assert texts == ["le chat voit .", "un bon livre", "Un livre, ''bon''", "non"]
    with pytest.raises(UserError, match="give the folder"):
        word_for_word.main([])
