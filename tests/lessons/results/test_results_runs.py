"""The results' trainings and reports, on a few sentences and a few steps."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_support import FRUGAL

import kernels
from lessons.results import experiments, faulty, films, page, pretraining, runs, train, transfer, translation
from lessons.results.runs import Run
from minitransformer.app.cli.main import parser_for
from minitransformer.errors import UserError

pytestmark = pytest.mark.slow  # trainings of the results page, on toys

TINY = "--d-model 16 --n-heads 2 --n-layers 1 --d-ff 16 --batch 8"
WORDS = "the cat sees a dog near red house and little tree under old bridge with green bird".split()  # noqa: SIM905
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def numpy_backend(monkeypatch):
    """Nothing to compile and nothing to draw, in the commands that are started too."""
    for name, value in {**FRUGAL, "MINITRANSFORMER_BACKEND": "numpy"}.items():
        monkeypatch.setenv(name, value)
    with kernels.use("numpy"):
        yield


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Reviews, pairs and a text with the names of the real ones."""
    folder = tmp_path_factory.mktemp("results")
    lines = [" ".join(WORDS[(i + j) % len(WORDS)] for j in range(3 + i % 5)) for i in range(40)]
    reviews, pairs, novels = (folder / name for name in ("data/cls-books-fr", "data/tatoeba-eng-fra", "runs/novels"))
    for one in (reviews, pairs, novels):
        one.mkdir(parents=True)
    (novels / "lab.txt").write_text("\n".join(lines) + "\n")
    (reviews / "dict.txt").write_text("".join(f"▁{word} 5\n" for word in [*WORDS, "nice", "poor"]))
    for name in ("train", "valid"):
        pieces = [
            f"▁{('poor', 'nice')[i % 2]} {' '.join('▁' + word for word in line.split())}"
            for i, line in enumerate(lines)
        ]
        (reviews / f"{name}.review.spm").write_text("\n".join(pieces) + "\n")
        (reviews / f"{name}.label").write_text("".join(f"{i % 2}\n" for i in range(40)))
        (pairs / f"{name}.tsv").write_text("".join(f"{line}.\t{line[::-1]}.\n" for line in lines))
    with (pairs / "train.tsv").open("a") as file:
        file.write("she IS so mean.\tmean so is she.\n")
    return {"data": str(folder / "data"), "runs": str(folder / "runs")}


def a_run(name="one", steps=3, **options):
    return Run(
        name, f"pretrain {{runs}}/novels/lab.txt --tokenizer words --steps {steps} --max-len 12 {TINY}", **options
    )


# ---------------------------------------------------------------------------------------------------- one run


def test_a_run_is_trained_measured_noted_and_left_alone_afterwards(places, monkeypatch, capfd):
    monkeypatch.delenv("PYTHONPATH")  # this one draws
    run = a_run(measured={"again": "evaluate {runs}/novels/lab.txt"})
    runs.train(run, places)
    note = runs.note_of(run, places)
    assert note["command"].startswith("minitransformer pretrain ") and note["command"].endswith("/runs/one")
    assert note["measured"]["again"]["texts"] == 40 and note["backend"] == "numpy" and note["machine"]
    assert sorted(os.listdir(run.folder(places))) == ["curve.png", "done.json", "metrics.jsonl"]  # weights are gone
    lines = runs.metrics(run, places)
    assert [line["step"] for line in lines["evaluation"]] == [1, 2, 3]
    assert "$ minitransformer pretrain" in capfd.readouterr().out
    monkeypatch.setattr(runs, "_call", None)
    runs.train(run, places)  # would fail if it called anything


def test_weights_that_others_start_from_are_kept(places):
    run = a_run("kept", keep=True)
    runs.train(run, places)
    assert list(run.folder(places).glob("step-*.safetensors"))


def test_a_run_that_was_stopped_goes_on(places):
    whole, stopped = a_run("whole", 8, keep=True), a_run("stopped", 8, keep=True)
    runs.train(whole, places)
    runs.train(stopped, places)
    (stopped.folder(places) / "done.json").unlink()
    for file in stopped.folder(places).glob("step-00000008.*"):
        file.unlink()
    runs.train(stopped, places)
    one, other = (run.folder(places) / "step-00000008.safetensors" for run in (whole, stopped))
    assert one.read_bytes() == other.read_bytes()


def test_a_command_that_fails_ends_in_a_line_and_leaves_no_note(places, capfd):
    run = Run("failed", "pretrain {runs}/nowhere.txt")
    with pytest.raises(UserError, match="this command failed, see above: minitransformer pretrain"):
        runs.train(run, places)
    assert "nowhere.txt" in capfd.readouterr().err and not run.done(places)
    with pytest.raises(UserError, match="not trained yet"):
        runs.note_of(run, places)


def test_a_command_that_was_stopped_stops_the_rest(places, monkeypatch):
    """Exit code 130 is what a command says after Ctrl-C."""
    monkeypatch.setattr(sys, "executable", str(Path(places["runs"], "python")))
    Path(sys.executable).write_text("#!/bin/sh\nexit 130\n")
    Path(sys.executable).chmod(0o755)
    with pytest.raises(KeyboardInterrupt):
        runs.train(a_run("interrupted"), places)


def test_every_command_of_every_experiment_is_understood():
    """--help of its command knows every option; folders and names are each used once."""
    every = [run for group in experiments.EXPERIMENTS.values() for run in group]
    assert len({run.name for run in every}) == len(every)
    commands = {"minitransformer": {}, "lessons.results.train": train.COMMANDS}
    for run in every:
        places = {"data": "D", "runs": "R"}
        for words in (run.training(places), *run.measuring(places).values()):
            parser_for(words[0], instead=commands[run.module]).parse_args(words[1:])


# ---------------------------------------------------------------------------------------------------- the command line


def test_the_list_of_experiments_and_their_commands(places, capsys):
    folders = ["--data", places["data"], "--runs", places["runs"]]
    assert runs.main(folders) == 0
    assert f"transfer-lab     0 of {len(experiments.EXPERIMENTS['transfer-lab'])} runs done" in capsys.readouterr().out
    assert runs.main(["translation", "--commands", *folders]) == 0
    assert capsys.readouterr().out.startswith("minitransformer train-translator ")
    assert runs.main(["nothing"]) == 2
    assert "no experiment is called 'nothing'; there are: pretraining" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------- the reports


def report(module, places, folder, capsys):
    """What is printed; drawn again from the record, the figures are the same."""
    arguments = ["--data", places["data"], "--runs", places["runs"], "--out", str(folder)]
    assert module.main(arguments) == 0, capsys.readouterr().err
    printed = capsys.readouterr().out
    figures = {path: path.read_bytes() for path in folder.glob("*.png")}
    assert figures
    assert module.main([*arguments, "--draw"]) == 0
    assert {path: path.read_bytes() for path in folder.glob("*.png")} == figures
    return printed, json.loads((folder / f"{module.NAME}.json").read_text())


def test_pretraining(places, tmp_path, monkeypatch, capsys):
    run = a_run("curve", 10, keep=True)
    monkeypatch.setattr(experiments, "PRETRAINING", {"a model": run})
    assert pretraining.main(["--runs", places["runs"], "--out", str(tmp_path)]) == 2
    assert "nothing is trained yet" in capsys.readouterr().err
    runs.train(run, places)
    capsys.readouterr()
    printed, record = report(pretraining, places, tmp_path, capsys)
    summary = record["runs"]["a model"]
    assert len(summary["curve"]["perplexity"]) == len(summary["cpu_minutes"]) == 5
    assert summary["cpu_minutes"] == sorted(summary["cpu_minutes"]) and "perplexity" in printed


def test_figures_stay_when_the_models_are_gone(places, tmp_path, monkeypatch, capsys):
    first, second = a_run("first", 5), a_run("second", 5)
    monkeypatch.setattr(experiments, "PRETRAINING", {"a": first, "b": second, "never": a_run("never")})
    runs.train(first, places)
    capsys.readouterr()
    _, before = report(pretraining, places, tmp_path, capsys)
    shutil.rmtree(first.folder(places))
    runs.train(second, places)
    capsys.readouterr()
    _, after = report(pretraining, places, tmp_path, capsys)
    assert list(before["runs"]) == ["a"] and list(after["runs"]) == ["a", "b"]
    assert after["runs"]["a"] == before["runs"]["a"]


def test_translators_are_compared_without_capitals():
    assert translation.any_case({"bleu": 40.0, "bleu_lowercase": True}) == 40
    assert translation.any_case({"bleu": 40.0, "bleu_lowercase": False, "bleu_any_case": 42.0}) == 42


def test_work_that_was_not_counted_at_the_beginning_follows_from_the_pace_after_it():
    """A run of 10 tokens a second, the first half without a count."""
    lines = [{"tokens": 600 * n} for n in (1, 2)]
    lines += [{"tokens": 600 * n, "cpu_seconds": 60 * (n - 2) + 0.0} for n in (3, 4, 5)]
    assert pretraining._cpu_minutes(lines) == pytest.approx([1, 2, 3, 4, 5])


@pytest.mark.slow
def test_transfer(places, tmp_path, monkeypatch, capsys):
    command = f"finetune {experiments.LABELLED} --scratch --epochs 3 --lr 0.01 --max-len 12 {TINY}"
    group = [Run(f"seed-{seed}", f"{command} --seed {seed}") for seed in range(3)]
    monkeypatch.setattr(experiments, "TRANSFER", {"A recipe": {"scratch": group}})
    for run in group:
        runs.train(run, places)
    capsys.readouterr()
    printed, record = report(transfer, places, tmp_path, capsys)
    assert np.shape(record["recipes"]["A recipe"]["scratch"]["accuracy"]) == (3, 3)
    assert [found["accuracy"] for found in record["naive_bayes"].values()] == [1, 1]  # one word tells
    assert "(3 seeds)" in printed and "Naive Bayes, words: 100.0% of 40" in printed


@pytest.mark.slow
def test_films(places, tmp_path, monkeypatch, capsys):
    folder = Path(places["runs"], "imdb")
    folder.mkdir()
    for name, count in (("train-8", 8), ("train-20", 20), ("valid", 6), ("test", 10)):
        lines = [
            f"{('bad', 'good')[i % 2]} {WORDS[i % 9]} film\t{('negative', 'positive')[i % 2]}" for i in range(count)
        ]
        (folder / f"{name}.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n")
    base = Run(
        "films-lm", f"pretrain {{runs}}/novels/lab.txt --tokenizer words --steps 2 --max-len 12 {TINY}", keep=True
    )
    few = {
        labels: [
            Run(
                f"films-{labels}-{seed}",
                f"finetune {{runs}}/imdb/train-{labels}.tsv --valid {{runs}}/imdb/valid.tsv --from {{runs}}/films-lm "
                f"--epochs 2 --batch 4 --seed {seed}",
                experiments.TESTED,
            )
            for seed in range(2)
        ]
        for labels in (8, 20)
    }
    monkeypatch.setattr(experiments, "LABELS", (8, 20))
    monkeypatch.setattr(experiments, "FILMS_BASES", {"pretrained": base})
    monkeypatch.setattr(experiments, "FILMS", {"pretrained": few})
    assert films.main(["--runs", places["runs"], "--out", str(tmp_path)]) == 2
    assert "nothing is trained yet" in capsys.readouterr().err
    for run in (base, *few[8], *few[20]):
        runs.train(run, places)
    capsys.readouterr()
    printed, record = report(films, places, tmp_path, capsys)
    assert record["naive_bayes"] == {"8": 1, "20": 1}  # one word tells
    assert [len(summary["accuracy"]) for summary in record["groups"]["pretrained"].values()] == [2, 2]
    assert "20 labels, pretrained" in printed
    assert page.films(record).count("(2 seeds)") == 2 == printed.count("(2 seeds)")
    one = {"naive_bayes": {"8": 0.5, "20": 0.5}, "groups": {"a": {"8": {"accuracy": [0.75]}}}}
    assert page.films(one).count("75.0%, one seed |") == 1 and "20 | 50.0% |" in page.films(one)
    assert page.films_commands(record).count("finetune") == 2


def test_naive_bayes_by_hand():
    """Words 0 to 3; word 0 in both kinds, 1 in bad ones, 2 in good ones, 3 never seen."""
    documents, labels = [[0, 1], [0, 1, 1], [0, 2], [2]], [0, 0, 1, 1]
    found = transfer.naive_bayes(documents, labels, [[1], [2], [0, 3], [1, 3, 3], [0]], 4)
    # documents with a word, + 1: bad (3, 3, 1), sum 7; good (2, 1, 3), sum 6; word 0 speaks a little for bad
    assert found.tolist() == [0, 1, 0, 0, 0]


def test_the_interval_over_seeds_is_students():
    mean, half = transfer.interval([0.7, 0.8, 0.9])
    assert mean == pytest.approx(0.8) and half == pytest.approx(4.303 * 0.1 / 3**0.5)
    assert (
        transfer.accuracy_text([0.7, 0.8, 0.9]) == "80.0% ± 24.8%"
        and transfer.accuracy_text([0.75]) == "75.0%, one seed"
    )


@pytest.mark.slow
def test_translation(places, tmp_path, monkeypatch, capsys):
    command = f"train-translator {experiments.PAIRS} --steps 4 --max-len 24 {TINY}"
    run = Run("pairs", command, experiments.MEASURED, keep=True)
    monkeypatch.setattr(experiments, "TRANSLATION", {"tiny": run})
    runs.train(run, places)
    capsys.readouterr()
    printed, record = report(translation, places, tmp_path, capsys)
    summary = record["runs"]["tiny"]
    assert [said["english"] for said in summary["sentences"] if said["trained_on"]] == ["She is so mean."]
    assert summary["tokens_a_word"] == 1  # a model of words
    assert len(summary["sentences"]) == 13 and "BLEU" in printed and "student" in summary["sentences"][0]["unknown"]
    for look in summary["looks"]:
        weights = np.array(look["weights"])
        assert weights.shape == (len(look["target"]), len(look["source"]))
        np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-3)  # five digits of each are kept


def test_tokens_a_word_of_a_model_of_letters(places):
    letters = SimpleNamespace(codecs={"target": SimpleNamespace(encode=list)})
    texts = [french for _, french in translation.pairs("valid", places)]
    words = sum(len(text[:-1].split()) + 2 for text in texts)  # the full stop and the end count too
    assert translation.tokens_a_word(letters, places) == pytest.approx(sum(len(text) + 1 for text in texts) / words)


def test_faults_are_trained_once(places, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(faulty, "STEPS", 2)
    monkeypatch.setattr(faulty, "SIZES", replace(faulty.SIZES, d_model=16, n_heads=2, d_ff=16))
    printed, record = report(faulty, places, tmp_path, capsys)
    assert list(record["faults"]) == list(faulty.FAULTS) and "mask after softmax" in printed
    assert all(len(summary["losses"]) == 2 and len(summary["said"]) == 3 for summary in record["faults"].values())
    first = {name: summary["losses"][0] for name, summary in record["faults"].items()}
    assert (
        first["trained on the source"] != first["sound"] == first["unregistered weights"] != first["words not scaled"]
    )
    monkeypatch.setattr(faulty, "trained", None)  # would fail if it trained anything again
    report(faulty, places, tmp_path, capsys)


def test_the_runs_are_a_module_that_starts():
    out = subprocess.run(
        [sys.executable, "-m", "lessons.results.runs", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "which experiments there are" in out
