"""What becomes of a user's data on the way to a model, and what is said about it."""

import json
import shutil

import numpy as np
import pytest
from command_support import TINY, command
from test_commands_errors import TEXT

import kernels
from minitransformer.app.cli.main import main
from minitransformer.app.tasks import sources
from minitransformer.app.tasks.trained import open_model
from minitransformer.app.training.checkpoints import load_model

WORDS = ("--tokenizer", "words", "--max-len", "8", *TINY)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT)
    with kernels.use("numpy"):
        yield tmp_path


def does(capsys, *arguments: str) -> str:
    """All that a command says."""
    capsys.readouterr()
    assert main(list(arguments)) == 0
    return "".join(capsys.readouterr())


def test_a_base_of_the_built_in_language_reads_text_as_it_does_in_use(folder, capsys):
    does(capsys, "pretrain", "--steps", "2", "--texts", "20", "--out", "base", *TINY)
    (folder / "reviews.txt").write_text("I adore this novel.\nI adore it\n" * 3)
    options = ("--valid", "reviews.txt", "--from", "base", "--steps", "2", "--out", "new")
    does(capsys, "pretrain", "reviews.txt", *options)
    trained = open_model("new", "LanguageModel", which="latest")
    (report,) = json.loads(does(capsys, "evaluate", "reviews.txt", "--model", "new", "--last", "--json")).values()
    assert report["loss"] == pytest.approx(trained.checkpoint.metrics["evaluation"]["loss"], rel=1e-6)
    ids = sources.ids_of(trained.codecs["text"], ["I adore it"], "reviews.txt")
    assert ids[0].tolist() == trained.codecs["text"].tokenizer.encode("i adore it .")


def test_a_dictionary_without_its_model_cannot_cut_text(folder, capsys):
    (folder / "dict.txt").write_text("▁the 9\n▁book 5\n")
    (folder / "a.spm").write_text("▁the ▁book\n▁book ▁the\n")
    does(capsys, "pretrain", "a.spm", "--steps", "2", "--out", "base", "--max-len", "8", *TINY)
    for arguments in (("text.txt", "--from", "base"), ("a.spm", "--valid", "text.txt", "--max-len", "8", *TINY)):
        assert main(["pretrain", *arguments, "--out", "new", "--steps", "2"]) == 2
        assert "without the sentencepiece model that cuts them" in capsys.readouterr().err


def test_what_is_cut_is_told(folder, capsys):
    (folder / "long.txt").write_text("one two three four five six seven eight nine ten\nshort\n" * 4)
    (folder / "long.tsv").write_text("text\tlabel\n" + "one two three four five six seven eight\ta\nshort\tb\n" * 4)
    told = "of 7 texts are longer than 7 words or pieces: only their beginning is read (--max-len)"
    assert f"3 {told}" in does(capsys, "pretrain", "long.txt", *WORDS, "--steps", "2", "--out", "language")
    assert f"3 {told}" in does(capsys, "finetune", "long.tsv", "--scratch", *WORDS, "--epochs", "1", "--out", "classes")
    assert "4 of the texts, longer than the 7 words" in does(capsys, "evaluate", "long.tsv", "--model", "classes")
    assert "are longer" not in does(capsys, "pretrain", "text.txt", *WORDS, "--steps", "2", "--out", "short")


def test_words_of_texts_held_back_are_not_learnt(folder, capsys):
    (folder / "text.txt").write_text("zyzzyva quux\n" + TEXT)  # the first line is held back
    (folder / "labels.tsv").write_text("text\tlabel\nzyzzyva\ta\n" + "small\tb\nlast\ta\n" * 3)
    (folder / "pairs.tsv").write_text("zyzzyva\tquux\n" + "one\tun\ntwo\tdeux\n" * 3)
    for name, data in ("pretrain", "text.txt"), ("finetune", "labels.tsv"), ("train-translator", "pairs.tsv"):
        scratch = ["--scratch"] if name == "finetune" else []
        does(capsys, name, data, *scratch, *WORDS, "--epochs", "1", "--out", name)
        for codec in open_model(name, None).codecs.values():
            assert not {"zyzzyva", "quux"} & set(codec.tokenizer.pieces)


def test_resuming_with_other_data_is_told(folder, capsys):
    run = ("pretrain", "text.txt", *WORDS, "--preset", "lab")
    does(capsys, *run, "--steps", "2")
    shutil.copytree("runs", "kept")
    again = does(capsys, *run, "--steps", "4", "--resume")
    assert "resuming" in again and "no longer bit for bit" not in again
    (folder / "other.txt").write_text("the small text .\n")
    reversed_text = "\n".join(TEXT.splitlines()[::-1]) + "\n"
    for more, change in (
        (("--batch", "3"), "batch was 4, now 3"),
        (("--valid", "other.txt"), "settings: held back was"),
        ((), "settings: texts was"),
    ):
        shutil.rmtree("runs")
        shutil.copytree("kept", "runs")
        if not more:
            (folder / "text.txt").write_text(reversed_text)
        said = does(capsys, *run, *more, "--steps", "3", "--resume")
        assert change in said and "no longer bit for bit" in said


def test_a_digest_knows_ids_order_and_ends():
    texts = [[1, 2], [3]]
    others = ([[1, 2, 3]], [[3], [1, 2]], [[1], [2, 3]], [[1, 2], [3], []], [[1, 2], [4]])
    assert len({sources.digest(one) for one in (texts, *others)}) == 6
    assert sources.digest(texts) == sources.digest([np.array([1, 2], np.int32)], [np.array([3])])


def test_a_column_of_a_table_for_a_language_model(folder, capsys):
    rows = "".join(f"{i},{line}\n" for i, line in enumerate(TEXT.splitlines()))
    (folder / "table.csv").write_text("number,review\n" + rows)
    (folder / "bare.csv").write_text(rows)
    for name, column in ("table.csv", "review"), ("bare.csv", "1"):
        does(capsys, "pretrain", name, "--text-column", column, *WORDS, "--steps", "2", "--out", name[:-4])
        said = does(capsys, "evaluate", name, "--text-column", column, "--model", name[:-4])
        assert "9 texts of" in said
    assert load_model("table")[0].config == load_model("bare")[0].config


def test_all_default_runs_are_measured_but_those_of_other_data(folder, capsys):
    does(capsys, "pretrain", "text.txt", *WORDS, "--steps", "2")
    assert main(["evaluate"]) == 2 and "give it data of its own" in capsys.readouterr().err
    assert main(["evaluate", "text.txt", "--label-column", "x"]) == 2 and "omit it" in capsys.readouterr().err
    does(capsys, "finetune", "--scratch", "--epochs", "1", "--texts", "16", *TINY)
    said = does(capsys, "evaluate", "--texts", "20")
    assert "left out: runs/pretrain" in said and "accuracy" in said and "perplexity" not in said


def test_a_terminal_with_few_letters_shows_what_it_can(folder, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = command(folder, "train-translator", "--steps", "2", "--texts", "20", *TINY)
    assert done.returncode == 0 and "it says" in done.stdout, done.stderr
