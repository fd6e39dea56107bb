"""From a language model of whole texts to a classifier, through the command line."""

import json
from functools import partial

import command_support
import numpy as np
import pytest
from command_support import SHORT, TINY, inside, latest, prepare

from lessons.results import train
from lessons.results.bag_objective import expected
from lessons.results.models import StreamClassifier
from minitransformer.app.tasks.trained import open_model
from minitransformer.app.training.checkpoints import load_model, read

pytestmark = pytest.mark.slow  # trainings of the results page, on toys

KINDS = [["sun", "sea", "sand", "beach", "wave", "shell"], ["oven", "flour", "bread", "salt", "dough", "yeast"]]
says = partial(command_support.says, main=train.main)
refused = partial(command_support.refused, main=train.main, program=train.PROGRAM)
BAG = ("pretrain", "text.txt", "--objective", "bag", *SHORT)


def texts(n, seed=0):
    """Each text is about one of two things, so that half of it tells which words the other half may have."""
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(KINDS[i % 2], 6)) for i in range(n)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with data, and models with each objective."""
    folder = tmp_path_factory.mktemp("bag")
    (folder / "text.txt").write_text("\n".join(texts(80)) + "\n")
    rows = [f"{text}\t{('holiday', 'kitchen')[i % 2]}" for i, text in enumerate(texts(40, 1))]
    (folder / "labels.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    prepare(
        folder,
        (*BAG, "--lr", "0.01", "--steps", "150", "--out", "runs/bag"),
        ("pretrain", "text.txt", "--objective", "masked", "--steps", "2", "--out", "masked", *SHORT),
        ("pretrain", "text.txt", "--steps", "2", *SHORT),
        main=train.main,
    )
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    yield from inside(made, monkeypatch)


def values_of(report: str) -> dict:
    (values,) = json.loads(report).values()
    return values


def test_what_a_text_is_about_is_learnt(folder, capsys):
    report = says(capsys, "evaluate", "text.txt", "--model", "runs/bag", "--json")
    values = values_of(report)
    # Any of twelve words: log 12 = 2.48; one of the six that fit: log 6 = 1.79.
    assert np.log(6) - 0.1 < values["hidden_word_loss"] < 1.95 and values["mask_rate"] == 0.5 and values["texts"] == 80
    assert report == says(capsys, "evaluate", "text.txt", "--model", "runs/bag", "--json")  # the same words each time
    table = says(capsys, "evaluate", "text.txt", "--model", "runs/bag")
    assert "50% of the words" in table and "from the others, wherever it stood" in table


def test_it_names_words_that_a_text_has_not(folder):
    trained = open_model("runs/bag", "LanguageModel")
    codec = trained.codecs["text"]
    given = ["sun sea sun sea", "flour oven flour", "beach", "salt"]
    documents = [[], [codec.tokenizer.oov], *(codec.encode(text) for text in given)]
    lines = expected(trained.model, codec, documents, 2)
    assert len(lines) == 2 and expected(trained.model, codec, documents[:2], 2) == []
    for line, text, kind in zip(lines, given, KINDS, strict=False):
        shown, _, words = line.partition(" … → ")
        assert shown == text and words.split(", ")[0] in set(kind) - set(text.split())


def test_what_the_run_says(folder, capsys):
    out = says(capsys, *BAG, "--steps", "2", "--out", "says", "--mask-rate", "0.3")
    assert "language model of whole texts, 16 words" in out and "nats a missing word" in out
    lines = [line for line in out.splitlines() if line.startswith("expects")]
    assert len(lines) == 2 and all("… →" in line for line in lines)
    assert "it says" not in out and "python -m lessons.results.train finetune --from says" in out
    settings = read(latest(folder / "says")).training["settings"]
    assert settings["objective"] == "bag" and settings["mask_rate"] == 0.3


def test_finetune_reads_it_as_it_was_trained(folder, capsys):
    options = ("--valid", "labels.tsv", "--from", "runs/bag", "--epochs", "6", "--lr", "0.01", "--word-dropout", "0.2")
    says(capsys, "finetune", "labels.tsv", *options, "--out", "classes")
    model = load_model("classes")[0]
    assert type(model) is StreamClassifier and not model.config.causal and model.config.norm_first
    assert values_of(says(capsys, "evaluate", "labels.tsv", "--model", "classes", "--json"))["accuracy"] > 0.9
    assert "kitchen" in says(capsys, "classify", "salt and bread", "--model", "classes")


def test_the_built_in_language(folder, capsys):
    out = says(capsys, "pretrain", "--objective", "bag", "--steps", "3", "--texts", "20", "--out", "own", *TINY)
    assert "expects" in out and "best possible" not in out
    says(capsys, "evaluate", "--texts", "20", "--model", "own")
    says(capsys, "finetune", "--from", "own", "--epochs", "1", "--texts", "16", "--out", "own-classes")


def test_a_run_resumes_bit_for_bit(folder, capsys):
    one, other, batch = command_support.resumed_bytes(
        capsys, folder, "whole", *BAG, "--steps", "50", "--dropout", "0.1", main=train.main
    )
    assert one == other and batch > 0  # in the middle of an epoch


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("pretrain text.txt --objective bag --no-norm-first --out new", "add --norm-first"),
        ("pretrain text.txt --objective bag --preset lab --out new", "add --norm-first"),
        ("pretrain text.txt --objective bag --from masked --out new", "has the objective masked, not bag"),
        ("pretrain text.txt --objective bag --from runs/pretrain --out new", "has the objective next, not bag"),
        ("pretrain text.txt --objective masked --from runs/bag --out new", "has the objective bag, not masked"),
        ("pretrain text.txt --mask-rate 0.2 --out new", "add --objective masked"),
        ("finetune labels.tsv --from runs/bag --pooling last --out new", "omit --pooling last"),
        ("generate --model runs/bag", "cannot go on with a text"),
    ],
)
def test_mistakes(folder, capsys, arguments, message):
    assert message in refused(capsys, *arguments.split())
    assert not (folder / "new").exists(), "what fails before training leaves nothing behind"


def test_the_last_weights_can_be_measured_instead_of_the_best(folder, capsys):
    """Labels that contradict those learnt from: every epoch is worse than the one before, so the first is the best."""
    lines = (folder / "labels.tsv").read_text().splitlines()
    wrong = [line.replace("holiday", "?").replace("kitchen", "holiday").replace("?", "kitchen") for line in lines]
    (folder / "wrong.tsv").write_text("\n".join(wrong) + "\n")
    options = ("--valid", "wrong.tsv", "--from", "runs/bag", "--epochs", "4", "--lr", "0.01", "--out", "astray")
    says(capsys, "finetune", "labels.tsv", *options)
    steps = {}
    for option in ((), ("--last",)):
        report = json.loads(says(capsys, "evaluate", "labels.tsv", "--model", "astray", "--json", *option))
        ((path, values),) = report.items()
        steps[option] = read(path).step, values["loss"]
    assert steps[()][0] < steps["--last",][0] == read(latest(folder / "astray")).step
    assert steps[()][1] > steps["--last",][1]
