"""From a masked language model to a classifier that reads both sides, through the command line; and new options."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from command_support import SHORT, TINY, WORDS, inside, latest, prepare, refused, resumed_bytes, says

import kernels
from minitransformer.app.data import MaskedBatches
from minitransformer.app.tasks import measures, modelling, recipes, task
from minitransformer.app.tasks.modelling import PretrainOptions
from minitransformer.app.tasks.objectives import MASKED as MASKED_WORDS
from minitransformer.app.tasks.objectives import NEXT
from minitransformer.app.tasks.options import DataOptions, TokenizerOptions
from minitransformer.app.tasks.trained import open_model
from minitransformer.app.training.checkpoints import load_model, read
from minitransformer.errors import UserError

MASKED = ("pretrain", "text.txt", "--objective", "masked", *SHORT)


def texts():
    """Each word is known from either neighbour, so that a hidden one can be found without fail."""
    return [" ".join(WORDS[(i + j) % len(WORDS)] for j in range(4 + i % 5)) for i in range(60)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with data, a masked model, a causal one, and a classifier on the masked one."""
    folder = tmp_path_factory.mktemp("masked")
    opinions = [f"{'nice' if i % 2 else 'poor'} {line}" for i, line in enumerate(texts()[:40])]
    (folder / "text.txt").write_text("\n".join(texts() + opinions[:4]) + "\n")
    rows = [f"{text}\t{'good' if i % 2 else 'bad'}" for i, text in enumerate(opinions)]
    (folder / "labels.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    (folder / "pairs.tsv").write_text("".join(f"one {i}\tun {i}\n" for i in range(8)))
    wide = ("--d-model", "32", "--d-ff", "64", "--n-layers", "2", "--lr", "0.01", "--batch", "16")
    labelled = ("finetune", "labels.tsv", "--valid", "labels.tsv", "--from", "runs/masked", "--epochs", "6")
    prepare(
        folder,
        (*MASKED, *wide, "--steps", "500", "--out", "runs/masked"),
        ("pretrain", "text.txt", "--steps", "2", *SHORT),
        (*labelled, "--lr", "0.01"),
    )
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    yield from inside(made, monkeypatch)


# ---------------------------------------------------------------------------------------------------- end to end


def test_hidden_words_are_found(folder, capsys):
    report = says(capsys, "evaluate", "text.txt", "--model", "runs/masked", "--json")
    (values,) = json.loads(report).values()
    # Guessing among 19 words costs log 19 = 2.94; what remains are words replaced by others, and nice or poor.
    assert values["hidden_word_loss"] < 0.7 and values["mask_rate"] == 0.15 and values["texts"] == 64
    assert values["hidden_word_perplexity"] == pytest.approx(np.exp(values["hidden_word_loss"]))
    assert report == says(capsys, "evaluate", "text.txt", "--model", "runs/masked", "--json")  # fixed masks
    table = says(capsys, "evaluate", "text.txt", "--model", "runs/masked")
    assert "nats a hidden word" in table and "15% of the words, the same ones each time" in table


def test_the_loss_of_hidden_words_counts_each_of_them_once(folder):
    trained = open_model("runs/masked", "LanguageModel")
    tokenizer = trained.codecs["text"].tokenizer
    batches = MaskedBatches(tokenizer.encode_all(texts()), tokenizer, rows=7, max_len=12, rate=0.4)
    losses = []
    for batch in batches.epoch():
        for ids, targets, length in zip(batch.ids, batch.targets, batch.lengths, strict=True):
            logits = trained.model(ids[None, :length]).numpy()[0].astype(np.float64)
            log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
            losses += [-log_p[t, targets[t]] for t in range(length) if targets[t] != batch.ignore]
    found = measures.language_model_loss(trained.model, batches.epoch())["loss"]
    assert found == pytest.approx(np.mean(losses), rel=1e-5)  # float32 against float64


def test_what_the_run_says(folder, capsys):
    out = says(capsys, *MASKED, "--steps", "2", "--out", "says")
    assert "masked language model, 24 words" in out  # 19, four specials and [MASK]
    filled = [line for line in out.splitlines() if line.startswith("fills in")]
    assert len(filled) == 2 and all("[MASK]" in line and "→" in line and "(it was: " in line for line in filled)
    assert "nats a hidden word" in out and "it says" not in out and "minitransformer finetune --from says" in out


def test_the_gaps_are_filled_with_words_of_a_text_it_was_not_trained_on(folder):
    from minitransformer.app.tasks.filling import filled

    trained = open_model("runs/masked", "LanguageModel")
    codec = trained.codecs["text"]
    documents = [[], [codec.tokenizer.oov], *(codec.encode(text) for text in texts())]
    lines = filled(trained.model, codec, documents, 3)
    assert len(lines) == 3
    for line, text in zip(lines, texts(), strict=False):
        shown, _, rest = line.partition(" → ")
        guesses, _, truth = rest.removesuffix(")").partition(" (it was: ")
        assert shown.count("[MASK]") == 1 and shown.replace("[MASK]", truth) == text
        assert guesses in [*WORDS, "nice", "poor"]


def test_finetune_carries_the_direction_over_and_pools_by_it(folder, capsys):
    options = ("--epochs", "1", "--batch", "8")
    says(capsys, "finetune", "labels.tsv", "--from", "runs/pretrain", "--out", "past", *options)
    says(capsys, "finetune", "labels.tsv", "--from", "runs/masked", "--pooling", "last", "--out", "last", *options)
    configs = [load_model(run)[0].config for run in ("runs/finetune", "past", "last")]
    assert [(c.causal, c.pooling) for c in configs] == [(False, "mean"), (True, "last"), (False, "last")]
    report = says(capsys, "evaluate", "labels.tsv", "--model", "runs/finetune", "--json")
    assert next(iter(json.loads(report).values()))["accuracy"] >= 0.95  # the first word says it
    praise = [f"nice {line}" for line in texts()[1:40:2]]
    assert says(capsys, "classify", *praise).count("good") >= 18  # of 20: at most two of all 40 are wrong


def test_the_built_in_language_and_its_rate(folder, capsys):
    out = says(
        capsys, "pretrain", "--objective", "masked", "--mask-rate", "0.3", "--steps", "3", "--texts", "20", "--out",
        "own", *TINY,
    )  # fmt: skip
    assert "fills in" in out and "best possible" not in out
    assert "30% of the words" in says(capsys, "evaluate", "--texts", "20", "--model", "own")
    settings = read(latest(folder / "own")).training["settings"]
    assert settings["objective"] == "masked" and settings["mask_rate"] == 0.3
    says(capsys, "finetune", "--from", "own", "--epochs", "1", "--texts", "16", "--out", "own-classes")


@pytest.mark.parametrize("data", ["text.txt", None])
def test_the_rate_decides_how_many_words_are_hidden(folder, data):
    options = PretrainOptions(
        "new", texts=None if data else 20, data=DataOptions(data), objective=MASKED_WORDS, mask_rate=1.0,
        words=TokenizerOptions("words", 100) if data else TokenizerOptions(),
    )  # fmt: skip
    for batch in modelling.task(options).batches.epoch():
        assert ((batch.targets != batch.ignore).sum(axis=1) == batch.lengths - 1).all()  # all but <sos>
    plain = modelling.task(replace(options, objective=NEXT, mask_rate=None))
    assert plain.codecs["text"].tokenizer.extra_specials == () and plain.model.config.causal is True


def test_the_labs_form_of_data(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dict.txt").write_text("▁the 9\n▁good 5\n▁bad 5\n▁book 4\n")
    (tmp_path / "a.review.spm").write_text("▁the ▁good ▁book\n▁the ▁bad ▁book\n\n▁strange ▁strange\n▁the ▁book\n" * 4)
    with kernels.use("numpy"):
        out = says(capsys, "pretrain", "a.review.spm", "--objective", "masked", "--steps", "2", "--max-len", "8", *TINY)
        assert "masked language model, 9 words" in out and "texts have no word to hide and are left out" in out
        (tmp_path / "b.review.spm").write_text("▁strange\n" * 4)
        options = ("--objective", "masked", "--dict", "dict.txt", "--out", "new", "--max-len", "8", *TINY)
        assert "most of its pieces are unknown" in refused(capsys, "pretrain", "b.review.spm", *options)


# ---------------------------------------------------------------------------------------------------- other text


@pytest.fixture(scope="module")
def elsewhere(made):
    """Text of another kind: the same words, each twice."""
    lines = (" ".join(f"{word} {word}" for word in text.split()) for text in texts())
    (made / "elsewhere.txt").write_text("\n".join(lines) + "\n")


def test_going_on_with_other_text_starts_from_the_run_named(folder, elsewhere, capsys):
    arguments = ("pretrain", "elsewhere.txt", "--objective", "masked", "--from", "runs/masked", "--lr", "1e-12")
    out = says(capsys, *arguments, "--steps", "1", "--dropout", "0.3", "--out", "moved")
    assert "starts from runs/masked/step-" in out and "masked language model, 24 words" in out
    (before, _), (after, checkpoint) = load_model("runs/masked"), load_model("moved")
    for name, weight in before.state_dict().items():
        np.testing.assert_allclose(after.state_dict()[name], weight, atol=1e-11)  # one step of Adam moves by 1e-12
    assert after.config == replace(before.config, dropout=0.3) and checkpoint.step == 1


def test_going_on_learns_the_other_text_and_resumes_bit_for_bit(folder, elsewhere, capsys):
    arguments = ("pretrain", "elsewhere.txt", "--objective", "masked", "--from", "runs/masked", "--steps", "60")
    one, other, _ = resumed_bytes(capsys, folder, "further", *arguments)
    assert one == other
    reports = [says(capsys, "evaluate", "elsewhere.txt", "--model", m, "--json") for m in ("runs/masked", "further")]
    losses = [next(iter(json.loads(report).values()))["hidden_word_loss"] for report in reports]
    assert losses[1] < losses[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--from", "runs/masked"), "this run has the objective masked, not next; add --objective masked"),
        (("--objective", "masked", "--from", "runs/pretrain"), "has the objective next, not masked"),
        (("--from", "runs/pretrain", "--d-model", "8"), "the sizes are those of the language model"),
        (("--from", "runs/pretrain", "--tie-weights"), "the sizes are those of the language model"),
        (("--from", "runs/finetune"), "holds a classifier, not a language model"),
        (("--from", "nowhere"), "nowhere: no such run"),
    ],
)
def test_a_run_to_start_from_that_does_not_fit_is_refused(folder, capsys, options, message):
    assert message in refused(capsys, "pretrain", "text.txt", "--out", "refused", *options)
    assert not os.path.exists("refused")


def test_going_on_needs_text(folder, capsys):
    assert "--from goes on with other text: give DATA" in refused(
        capsys, "pretrain", "--from", "runs/pretrain", "--out", "x"
    )


# ---------------------------------------------------------------------------------------------------- smoothing


def test_smoothing_is_of_the_training_loss_only(folder, capsys):
    """With half the probability spread over all words, an untrained model's loss stays where it is, a sure one's
    cannot fall: after training, the smoothed run's training loss is far above what it scores when evaluated."""
    arguments = ("train-translator", "pairs.tsv", "--valid", "pairs.tsv", "--epochs", "40", "--lr", "0.01", *TINY)
    losses = {}
    for smoothing in ("0", "0.5"):
        says(capsys, *arguments, "--label-smoothing", smoothing, "--out", f"smooth-{smoothing}")
        lines = [json.loads(line) for line in (folder / f"smooth-{smoothing}/metrics.jsonl").read_text().splitlines()]
        losses[smoothing] = [[x["loss"] for x in lines if x["kind"] == kind][-1] for kind in ("train", "evaluation")]
    assert losses["0"][0] < 0.5 and losses["0.5"][0] > 1.0 > losses["0.5"][1]
    assert read(latest(folder / "smooth-0.5")).training["settings"]["label_smoothing"] == 0.5
    assert "give a number from 0 to below 1" in refused(capsys, *arguments, "--label-smoothing", "1")


# ---------------------------------------------------------------------------------------------------- resuming


def test_a_masked_run_resumes_bit_for_bit(folder, capsys):
    one, other, batch = resumed_bytes(capsys, folder, "whole", *MASKED, "--steps", "50", "--dropout", "0.1")
    assert one == other and batch > 0  # in the middle of an epoch
    assert (folder / "whole/metrics.jsonl").read_text().count("\n") > 2


@pytest.mark.parametrize(("objective", "run"), [("masked", "runs/pretrain"), ("next", "runs/masked")])
def test_resuming_with_the_other_objective_is_refused(folder, capsys, objective, run):
    before = sorted(os.listdir(run))
    arguments = ("pretrain", "text.txt", *SHORT, "--objective", objective, "--out", run, "--resume")
    other = {"masked": "next", "next": "masked"}[objective]
    assert f"add --objective {other}" in refused(capsys, *arguments)
    assert sorted(os.listdir(run)) == before


# ---------------------------------------------------------------------------------------------------- error lines


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("pretrain text.txt --mask-rate 0.2 --out new", "add --objective masked"),
        ("pretrain text.txt --objective masked --mask-rate 0 --out new", "'0': give a number above 0"),
        ("pretrain text.txt --objective masked --mask-rate 1.5 --out new", "above 0 and at most 1"),
        ("pretrain text.txt --objective both --out new", "invalid choice: 'both'"),
        ("pretrain text.txt --activation sine --out new", "invalid choice: 'sine'"),
        ("pretrain text.txt --clip 0 --out new", "'0': give a number above 0"),
        ("pretrain text.txt --tokenizer words --steps 5 --warmup 5 --out new", "--warmup 5: the whole run has 5 steps"),
        ("generate --model runs/masked", "fills in hidden words and cannot go on with a text; name a run"),
        ("generate hello --beam 2 --model runs/masked", "without --objective"),
        ("finetune labels.tsv --from runs/masked --activation gelu --out new", "give them to pretrain, or add"),
        ("finetune labels.tsv --from runs/masked --no-norm-first --out new", "give them to pretrain, or add"),
        ("finetune labels.tsv --from runs/masked --tie-weights --out new", "unrecognized arguments: --tie-weights"),
    ],
)
def test_mistakes(folder, capsys, arguments, message):
    assert message in refused(capsys, *arguments.split())
    assert not (folder / "new").exists(), "what fails before training leaves nothing behind"


# ---------------------------------------------------------------------------------------------------- options


def test_options_reach_the_model_and_the_run(folder, capsys):
    chosen = ("--tie-weights", "--activation", "gelu", "--no-norm-first", "--warmup", "4", "--clip", "0.7")
    says(capsys, *MASKED, "--steps", "6", "--out", "options", *chosen)
    checkpoint = read(latest(folder / "options"))
    config, training = checkpoint.model["config"], checkpoint.training
    assert (config["tie_weights"], config["activation"], config["norm_first"]) == (True, "gelu", False)
    assert training["options"]["clip"] == 0.7 and training["schedule"]["factor at step 1"] == 0.25
    assert "head.weight" not in checkpoint.infos("model")
    usual = read(latest(folder / "runs/masked")).model["config"]
    assert (usual["tie_weights"], usual["activation"], usual["norm_first"]) == (False, "relu", True)


def test_a_translator_ties_its_head_to_the_target_words(folder, capsys):
    out = ("--tokenizer", "words", "--steps", "2", "--max-len", "8", *TINY, "--tie-weights", "--out", "tied")
    says(capsys, "train-translator", "pairs.tsv", *out, "--activation", "tanh")
    config = load_model("tied")[0].config
    assert config.tie_weights is True and config.activation == "tanh" and config.share_embedding is False


def test_the_choices_of_activation_are_those_there_are():
    from kernels.contract import ACTIVATIONS
    from minitransformer.app.cli.main import parser_for
    from minitransformer.config import GATED

    choices = [action.choices for action in parser_for("pretrain")._actions if action.dest == "activation"]
    assert set(choices[0]) == {*ACTIVATIONS, *GATED}


def factors(recipe, total, steps):
    return [task._schedule(recipe, total)(step) for step in steps]


def test_how_the_learning_rate_warms_up():
    falling = recipes.Recipe(lr=1, batch=1, warmup=50)
    assert factors(falling, 100, [5, 10, 100]) == [0.5, 1, 0]  # a tenth of a short run
    asked = recipes.Recipe(lr=1, batch=1, warmup=50, warmup_as_asked=True)
    assert factors(asked, 100, [5, 50, 100]) == [0.1, 1, 0]
    staying = recipes.Recipe(lr=1, batch=1, warmup=50, warmup_as_asked=True, cosine=False)
    assert factors(staying, 100, [5, 50, 51, 100]) == [0.1, 1, 1, 1]
    assert factors(recipes.Recipe(lr=1, batch=1, cosine=False), 100, [1, 100]) == [1, 1]
    assert factors(falling, 1, [1]) == [1]
    with pytest.raises(UserError, match="give fewer"):
        factors(asked, 50, [1])
