"""The options that only the results use, through their command line; and that minitransformer has none of them."""

import json
from dataclasses import replace
from functools import partial

import command_support
import numpy as np
import pytest
from command_support import SHORT, TINY, command, inside, prepare, resumed_bytes, succeeds, write_texts

from lessons.results import train
from lessons.results.models import QuietClassifier, QuietStreamClassifier, StreamClassifier
from lessons.results.train import finetuning, predicted, with_layer_rate, with_word_dropout
from minitransformer.app.cli.main import parser_for
from minitransformer.app.data import LanguageModelBatches, MaskedBatches, WordTokenizer
from minitransformer.app.tasks.classifying import FinetuneOptions
from minitransformer.app.tasks.options import DataOptions, TokenizerOptions
from minitransformer.app.tasks.trained import open_model
from minitransformer.app.training.checkpoints import load_model, read

pytestmark = pytest.mark.slow  # trainings of the results page, on toys

MODULE = "lessons.results.train"
says = partial(command_support.says, main=train.main)
refused = partial(command_support.refused, main=train.main, program=train.PROGRAM)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with text, labelled text, and a masked model."""
    folder = tmp_path_factory.mktemp("train")
    write_texts(folder)
    prepare(folder, ("pretrain", "text.txt", "--objective", "masked", "--steps", "5", *SHORT, "--out", "masked"))
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    yield from inside(made, monkeypatch)


RESEARCH = ("--sampled-words", "--word-dropout", "--layer-rate", "--quiet-start")


@pytest.mark.parametrize("name", ["pretrain", "finetune"])
def test_they_are_options_here_and_nowhere_else(name):
    usual, here = (parser.format_help() for parser in (parser_for(name), parser_for(name, instead=train.COMMANDS)))
    assert not any(option in usual for option in (*RESEARCH, "bag", "stream"))
    assert any(option in here for option in RESEARCH)


def test_other_commands_are_those_of_minitransformer(folder, capsys):
    assert "backend" in says(capsys, "backends")
    with pytest.raises(SystemExit):
        train.main(["frobnicate"])
    error = capsys.readouterr().err
    assert "invalid choice: 'frobnicate'" in error and "see python -m lessons.results.train --help" in error


# ---------------------------------------------------------------------------------------------------- sampled words


def test_a_sample_of_the_words_is_enough_to_learn_from_and_a_stopped_run_draws_the_same_ones(made, tmp_path):
    options = ("--tokenizer", "words", "--steps", "10", "--max-len", "12", "--lr", "0.01", *TINY, "--out")
    folder, text = tmp_path / "run", str(made / "text.txt")
    sampled = ("pretrain", text, "--sampled-words", "8", *options, str(folder))
    here = {"module": MODULE}
    succeeds(tmp_path, *sampled, **here)
    succeeds(tmp_path, "pretrain", text, *options, str(tmp_path / "full"))
    last = folder / "step-00000010.safetensors"
    once = last.read_bytes()
    assert once != (tmp_path / "full" / last.name).read_bytes()
    losses = {}
    for name in ("run", "full"):  # a model like any other: minitransformer knows it too
        report = succeeds(tmp_path, "evaluate", text, "--model", name, "--json")
        losses[name] = next(iter(json.loads(report).values()))["loss"]
    assert losses["run"] < 2.9 and losses["full"] < 2.9  # log 23 = 3.1 is what knows nothing has
    for path in (last, last.with_suffix(".json")):
        path.unlink()
    succeeds(tmp_path, *sampled, "--resume", **here)
    assert last.read_bytes() == once
    for wrong, said in (("23", "fewer than all 23"), ("0", "from 1 on")):
        result = command(tmp_path, *(wrong if word == "8" else word for word in sampled[:-1]), "elsewhere", **here)
        assert result.returncode == 2 and said in result.stderr and "Traceback" not in result.stderr
    for more in (("--objective", "bag", "--norm-first"), ()):
        data = (text,) if more else ()
        result = command(tmp_path, "pretrain", *data, "--sampled-words", "8", *more, "--out", "elsewhere", **here)
        assert result.returncode == 2 and "omit it" in result.stderr


@pytest.mark.parametrize("hidden", [False, True])
def test_what_is_predicted_is_counted(hidden):
    """Counts are those of the targets that the batches really have."""
    tokenizer = WordTokenizer(list("abcdef"), extra_specials=("[MASK]",))
    rng = np.random.default_rng(0)
    documents = [rng.integers(3, 10, size=length).astype(np.int32) for length in (0, 1, 3, 4, 5, 9, 20)]
    if hidden:  # all of them, in one epoch
        batches = MaskedBatches(documents, tokenizer, rate=1.0, max_len=5, ignore=-1)
    else:
        batches = LanguageModelBatches(documents, max_len=5, ignore=-1)
    targets = np.concatenate([batch.targets[batch.targets >= 0] for batch in batches.epoch()])
    expected = np.bincount(targets, minlength=tokenizer.vocab_size)
    assert predicted(documents, tokenizer, 5, hidden).tolist() == expected.tolist()


# ---------------------------------------------------------------------------------------------------- finetuning


def task_of(scratch=False):
    """On the masked model, or from scratch with words of its own."""
    options = FinetuneOptions("new", data=DataOptions("labels.tsv"), scratch=scratch)
    if scratch:
        return finetuning(replace(options, words=TokenizerOptions("words", 100)), None)
    return finetuning(options, open_model("masked", "LanguageModel"))


def test_words_are_dropped_in_training_and_never_in_evaluation(folder):
    plain = task_of()
    thinned = with_word_dropout(plain, 0.5)
    scores = [task.evaluate(plain.model.eval()) for task in (plain, thinned)]
    assert scores[0] == scores[1]
    mask = thinned.codecs["text"].tokenizer.special("[MASK]")
    assert any((batch.ids == mask).any() for batch in thinned.batches.epoch())
    assert not any((batch.ids == mask).any() for batch in plain.batches.epoch())
    assert thinned.settings == plain.settings | {"word_dropout": 0.5}  # noted: resuming with another is told


def test_without_mask_in_the_vocabulary_a_dropped_word_is_unknown(folder):
    thinned = with_word_dropout(task_of(scratch=True), 0.5)
    tokenizer = thinned.codecs["text"].tokenizer
    assert isinstance(tokenizer, WordTokenizer) and "[MASK]" not in tokenizer.specials
    assert any((batch.ids == tokenizer.oov).any() for batch in thinned.batches.epoch())
    assert thinned.model.config.pooling == "last"


def test_finetuning_with_word_dropout_resumes_bit_for_bit(folder, capsys):
    arguments = ("finetune", "labels.tsv", "--from", "masked", "--steps", "20", "--batch", "8")
    one, other, batch = resumed_bytes(capsys, folder, "thinned", *arguments, "--word-dropout", "0.3", main=train.main)
    assert one == other and batch > 0
    plain = resumed_bytes(capsys, folder, "plain", *arguments, main=train.main)[0]
    assert plain != one  # the words were really dropped


def test_layers_can_be_held_back(folder, capsys):
    """In a step of Adam every weight moves by about the learning rate: the layers by a hundredth of what words do."""
    plain = task_of()
    assert with_layer_rate(plain, 0.01).settings == plain.settings | {"layer_rate": 0.01}
    options = ("labels.tsv", "--from", "masked", "--steps", "1", "--lr", "0.01", "--layer-rate", "0.01")
    says(capsys, "finetune", *options, "--out", "held")
    before, after = (load_model(name)[0].base.state_dict() for name in ("masked", "held"))
    moved = {name: float(abs(after[name] - before[name]).max()) for name in before}
    assert moved.pop("embedding.weight") == pytest.approx(0.01, rel=1e-3)
    weights = [size for name, size in moved.items() if name.endswith("weight")]
    assert weights and max(moved.values()) == pytest.approx(1e-4, rel=1e-2)  # of weights near 1, a few last bits
    assert "above 0 and at most 1" in refused(capsys, "finetune", *options[:-1], "2", "--out", "not")


@pytest.mark.parametrize(
    ("pooling", "options", "kind"),
    [
        ("stream", ("--quiet-start",), QuietStreamClassifier),
        ("mean", ("--quiet-start",), QuietClassifier),
        ("stream", (), StreamClassifier),
    ],
)
def test_ways_to_start_and_to_read(folder, capsys, pooling, options, kind):
    name = kind.__name__
    scratch = ("--scratch", "--norm-first", "--pooling", pooling, *options, "--epochs", "1", *SHORT)
    says(capsys, "finetune", "labels.tsv", *scratch, "--out", name)
    model, _ = load_model(name)
    assert type(model) is kind and model.config.pooling == "mean"
    assert "accuracy" in says(capsys, "evaluate", "labels.tsv", "--model", name)
    result = command(folder, "evaluate", "labels.tsv", "--model", name)  # minitransformer alone
    assert result.returncode == 2 and result.stderr.count("\n") == 1 and f"holds a '{name}'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--scratch --quiet-start", "add --pooling mean or --pooling stream"),
        ("--from masked --quiet-start", "add --scratch"),
        ("--scratch --no-norm-first --pooling stream", "add --norm-first"),
        ("--scratch --preset lab --pooling stream", "add --norm-first"),
        ("--from masked --word-dropout 1", "'1': give a number from 0 to below 1"),
    ],
)
def test_mistakes(folder, capsys, arguments, message):
    assert message in refused(capsys, "finetune", "labels.tsv", *arguments.split(), "--out", "new")
    assert not (folder / "new").exists()


def test_what_goes_on_is_the_command_of_this_program(folder, capsys, monkeypatch):
    """After Ctrl-C a run says how to resume it."""
    from minitransformer.app.training.interrupts import Interrupts

    arguments = ["pretrain", "text.txt", *SHORT, "--steps", "3", "--sampled-words", "8", "--out", "stopped"]
    monkeypatch.setattr("sys.argv", ["train.py", *arguments])
    monkeypatch.setattr(Interrupts, "__enter__", lambda self: setattr(self, "signal", 2) or self)
    assert train.main(arguments) == 130
    assert f"resume with: {train.PROGRAM} pretrain text.txt" in capsys.readouterr().err
    assert read(command_support.latest(folder / "stopped")).step == 0
