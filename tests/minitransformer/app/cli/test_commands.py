"""The commands that train and use models, end to end, with tiny settings; what is stopped or killed is a process."""

import json
import os
import re
import signal
import time

import pytest
from command_support import TINY, WORDS, start, write_texts
from command_support import command_here as command
from command_support import succeeds_here as succeeds


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with text, labelled text and pairs that a tiny model can learn."""
    folder = tmp_path_factory.mktemp("commands")
    lines = write_texts(folder)
    # a made-up language that is English backwards, letter by letter and in the same order of words
    pairs = [f"{line}\t{' '.join(word[::-1] for word in line.split())}" for line in lines]
    (folder / "pairs.tsv").write_text("\n".join(pairs) + "\n")
    return folder


@pytest.fixture(scope="module")
def pretrained(files):
    out = succeeds(files, "pretrain", "text.txt", "--tokenizer", "words", "--steps", "30", "--max-len", "12", *TINY)
    assert "language model, 23 words" in out and re.search(r"loss +\d", out)
    return files


@pytest.fixture(scope="module")
def finetuned(pretrained):
    options = ("--epochs", "3", "--batch", "4", "--lr", "0.01")
    out = succeeds(pretrained, "finetune", "labels.tsv", "--from", "runs/pretrain", *options)
    assert "starts from runs/pretrain/step-" in out and "classifier (bad, good)" in out
    return pretrained


# ---------------------------------------------------------------------------------------------------- your own data


def test_from_text_to_generated_text(pretrained):
    result = command(pretrained, "generate", "the cat", "--seed", "3", "--length", "6")
    assert result.returncode == 0 and result.stdout.startswith("the cat")
    assert "using runs/pretrain/step-" in result.stderr
    assert result.stdout == succeeds(pretrained, "generate", "the cat", "--seed", "3", "--length", "6")
    assert set(result.stdout.split()) <= {*WORDS, "nice", "poor"}
    options = ("--temperature", "1.5", "--top-k", "5", "--top-p", "0.9", "--no-repeat", "2", "--count", "3")
    assert len(succeeds(pretrained, "generate", "--seed", "1", "--length", "5", *options).splitlines()) == 3
    beams = succeeds(pretrained, "generate", "the", "--beam", "3", "--count", "2", "--length", "5").splitlines()
    scores = [float(line.split()[0]) for line in beams]
    assert len(beams) == 2 and max(scores) < 0


def test_words_appear_while_the_text_is_written():
    """Each word is printed when it is known, not at the end."""
    from minitransformer.app.cli.generate import _Page
    from minitransformer.app.data import WordTokenizer
    from minitransformer.app.tasks.text_codec import TextCodec

    codec = TextCodec(WordTokenizer(["j'", "ai", "faim", "."], split="spaces"), "fr")
    page, seen = _Page(codec.decode), []
    for length in range(1, 5):
        page.show(list(range(4, 4 + length)))
        seen.append(page.shown)
    assert seen == ["J'", "J'ai", "J'ai faim", "J'ai faim."]


def test_from_labelled_text_to_a_label(finetuned):
    table = succeeds(finetuned, "classify", "nice the cat", "poor little tree").splitlines()
    assert [line.split()[0] for line in table[2:]] == ["good", "bad"]
    assert all(re.search(r"\d\d\.\d%", line) for line in table[2:])
    piped = succeeds(finetuned, "classify", stdin="nice the cat\n\npoor little tree\n").splitlines()
    assert piped == table
    (finetuned / "some.txt").write_text("nice the cat\npoor little tree\n")
    assert succeeds(finetuned, "classify", "--file", "some.txt").splitlines() == table
    with start(finetuned, "classify") as process:  # an answer to each line while the pipe is still open
        for text in ("nice the cat", "poor little tree"):
            process.stdin.write(text + "\n")
            process.stdin.flush()
            until = [process.stdout.readline() for _ in range(3 if text.startswith("nice") else 1)][-1]
            assert until.rstrip() in table and until.rstrip().endswith(text)
        process.stdin.close()
        assert process.wait() == 0
    note = command(finetuned, "classify", "nice zebra")
    assert "never seen: zebra" in note.stderr


def test_evaluate_a_classifier_and_a_language_model_on_files(finetuned):
    report = json.loads(succeeds(finetuned, "evaluate", "labels.tsv", "--model", "runs/finetune", "--json"))
    (values,) = report.values()
    low, high = values["interval"]
    assert values["texts"] == 40 and 0 <= low <= values["accuracy"] <= high <= 1 and values["accuracy"] > 0.9
    out = succeeds(finetuned, "evaluate", "text.txt", "--model", "runs/pretrain")
    assert re.search(r"perplexity +\d", out) and "48 texts of text.txt" in out


def test_from_pairs_to_a_printed_translation(files):
    """A language of 17 words, each with one translation: after a few hundred steps everything must be right."""
    options = ("--steps", "250", "--lr", "0.01", "--d-model", "32", "--n-heads", "2", "--n-layers", "1", "--d-ff", "32")
    out = succeeds(files, "train-translator", "pairs.tsv", "--batch", "16", "--max-len", "12", *options)
    assert "translator, 21 and 21 words" in out
    assert succeeds(files, "translate", "the cat sees") == "eht tac sees\n"
    out = succeeds(files, "translate", "--beam", "3", stdin="the cat sees\na dog near\n")
    assert out == "eht tac sees\na god raen\n"
    out = succeeds(files, "evaluate", "pairs.tsv", "--model", "runs/translator")
    assert float(re.search(r"BLEU +([\d.]+)", out)[1]) > 95
    assert float(re.search(r"exactly right +([\d.]+)", out)[1]) > 95
    assert "capitals do not count" in out
    # a reference counts as it is written: words that the model does not know are missed, capitals are not
    pairs = [line.split("\t") for line in (files / "pairs.tsv").read_text().splitlines()]
    (files / "capitals.tsv").write_text("".join(f"{one}\t{other.upper()}\n" for one, other in pairs))
    (files / "unknown.tsv").write_text("".join(f"{one}\t{other} inconnu jamais vu\n" for one, other in pairs))
    scores = {}
    for name in ("pairs", "capitals", "unknown"):
        report = succeeds(files, "evaluate", f"{name}.tsv", "--model", "runs/translator", "--json")
        (scores[name],) = json.loads(report).values()
    assert scores["capitals"]["bleu"] == scores["pairs"]["bleu"] and scores["pairs"]["bleu_lowercase"] is True
    assert scores["unknown"]["bleu"] < 60 and scores["unknown"]["exact"] == 0 and "cut" not in scores["pairs"]
    # of a sentence that is too long the beginning is translated, and the reference stays whole
    first = [
        (files / "pairs.tsv").read_text().splitlines()[0],
        "\t".join([" ".join(["cat"] * 12), " ".join(["tac"] * 12)]),
    ]
    (files / "long.tsv").write_text("\n".join(first) + "\n")
    out = succeeds(files, "evaluate", "long.tsv", "--model", "runs/translator")
    assert "1 of the pairs, longer than the 11 words" in out and "50.0%" in out


def test_capitals_count_where_the_model_writes_them(files, tmp_path, monkeypatch):
    """Translations that are right but for their capitals: all of BLEU without regard to these, not all of it with."""
    from minitransformer.app.tasks import evaluating
    from minitransformer.app.tasks.options import DataOptions
    from minitransformer.app.tasks.trained import open_model

    lines = (files / "pairs.tsv").read_text().title() + (files / "pairs.tsv").read_text()
    (tmp_path / "pairs.tsv").write_text(lines)
    options = ("--tokenizer", "pieces", "--vocabulary", "90", "--steps", "1", "--max-len", "60", *TINY)
    succeeds(tmp_path, "train-translator", "pairs.tsv", "--out", "run", *options)
    trained = open_model(str(tmp_path / "run"), "Translator")
    target, references = trained.codecs["target"], [line.split("\t")[1] for line in lines.splitlines()]
    monkeypatch.setattr(evaluating, "translations", lambda *_, **__: [target.encode(r.lower()) for r in references])
    asked = evaluating.EvaluateOptions(data=DataOptions(path=str(tmp_path / "pairs.tsv")))
    found = evaluating.evaluation(trained, asked)
    assert found.values["bleu_any_case"] == pytest.approx(100) and found.values["bleu"] < 60
    assert f"{found.values['bleu']:.1f} (100.0 if capitals do not count)" in dict(found.lines)["BLEU"]


def test_the_labs_form_of_data(tmp_path):
    """Pieces, dict.txt and labels in files of their own."""
    (tmp_path / "dict.txt").write_text("▁the 9\n▁good 5\n▁bad 5\n▁book 4\n")
    texts = ["▁the ▁good ▁book" if i % 2 else "▁the ▁bad ▁book ▁strange" for i in range(20)]
    (tmp_path / "train.review.spm").write_text("\n".join(texts) + "\n")
    (tmp_path / "train.label").write_text("\n".join(str(i % 2) for i in range(20)) + "\n")
    succeeds(tmp_path, "pretrain", "train.review.spm", "--steps", "5", "--max-len", "8", *TINY)
    succeeds(tmp_path, "finetune", "train.review.spm", "--epochs", "20", "--lr", "0.01", "--batch", "4")
    assert "1 " in succeeds(tmp_path, "classify", "▁the ▁good ▁book").splitlines()[2]
    raw = command(tmp_path, "classify", "the good book")
    assert raw.returncode == 2 and "--sentencepiece" in raw.stderr
    out = succeeds(tmp_path, "evaluate", "train.review.spm", "--model", "runs/finetune")
    assert "20 right" in out


def test_pieces_learnt_from_the_text_travel_in_the_checkpoint(files, tmp_path):
    """The two files of a checkpoint are all that is needed, wherever they are copied."""
    folder = tmp_path / "made"
    succeeds(files, "pretrain", "text.txt", "--vocabulary", "60", "--steps", "4", "--out", str(folder), *TINY)
    for name in os.listdir(folder):
        if name.startswith("step-00000004"):
            os.rename(folder / name, tmp_path / name)
    text = succeeds(tmp_path, "generate", "the cat", "--model", "step-00000004.json", "--greedy", "--length", "3")
    assert text.startswith("the cat")


# ---------------------------------------------------------------------------------------------------- built-in language


def test_the_built_in_language_needs_no_data(tmp_path):
    short = ("--steps", "4", "--texts", "40", *TINY)
    out = succeeds(tmp_path, "pretrain", *short)
    assert "best possible  1.064" in out and "it says" in out
    out = succeeds(tmp_path, "finetune", "--epochs", "1", "--texts", "16")
    assert "starts from runs/pretrain/" in out and "best possible" in out
    out = succeeds(tmp_path, "finetune", "--scratch", "--out", "runs/scratch", "--epochs", "1", "--texts", "16", *TINY)
    assert "starts from random weights" in out
    assert "truth" in succeeds(tmp_path, "classify")
    out = succeeds(tmp_path, "evaluate", "--texts", "30")
    assert "best possible  1.0641" in out and "95 % interval" in out and "best possible    99.0%" in out


def test_a_built_in_translator_from_training_to_bleu(tmp_path):
    succeeds(tmp_path, "train-translator", "--steps", "4", "--texts", "40", *TINY)
    assert len(succeeds(tmp_path, "translate").splitlines()) == 6
    out = succeeds(tmp_path, "evaluate", "--texts", "20")
    assert re.search(r"BLEU +\d", out) and "best possible  0.0055" in out


def test_presets_have_the_labs_numbers():
    from minitransformer.app.tasks.recipes import FINETUNE, PRETRAIN, TRANSLATOR

    lab = PRETRAIN["lab"]
    assert (lab.lr, lab.batch, lab.epochs, lab.clip, lab.cosine) == (3e-4, 16, 2, 0.5, False)
    assert (lab.model.d_model, lab.model.n_layers, lab.model.max_len, lab.model.vocab_size) == (200, 4, 512, None)
    lab = FINETUNE["lab"]
    assert (lab.lr, lab.batch, lab.epochs, lab.clip) == (1e-4, 8, 15, 0.5)
    lab = TRANSLATOR["lab"]
    assert (lab.lr, lab.batch, lab.epochs, lab.model.max_len) == (1e-3, 64, 10, 24)


# ---------------------------------------------------------------------------------------------------- stopping


def test_ctrl_c_saves_and_the_printed_command_goes_on_to_the_same_weights(files, tmp_path):
    text = str(files / "text.txt")
    limits = ("--steps", "200", "--max-len", "12", "--dropout", "0.1")
    settings = ("pretrain", text, "--tokenizer", "words", *limits, *TINY)
    succeeds(tmp_path, *settings, "--out", "whole")
    process = start(tmp_path, *settings, "--out", "halved")
    while not (tmp_path / "halved" / "step-00000040.json").exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    error = process.communicate()[1]
    assert process.returncode == 128 + signal.SIGINT and "Traceback" not in error
    resumed = re.search(r"resume with: minitransformer (.*)", error)[1].split()
    assert resumed[-1] == "--resume"
    succeeds(tmp_path, *resumed)
    last = "step-00000200.safetensors"
    assert (tmp_path / "whole" / last).read_bytes() == (tmp_path / "halved" / last).read_bytes()


@pytest.mark.slow
def test_killed_and_resumed_with_compiled_kernels(files, tmp_path):
    """Threads, BLAS and recycled memory change nothing: a run that was killed three times ends with the same bytes."""
    text = str(files / "text.txt")
    limits = ("--steps", "200", "--max-len", "12", "--dropout", "0.1")
    settings = ("pretrain", text, "--tokenizer", "words", *limits, *TINY)
    whole = start(tmp_path, *settings, "--out", "whole", backend="numba")
    error = whole.communicate()[1]
    assert whole.returncode == 0, error
    resume: tuple[str, ...] = ()
    for step in (40, 80, 160):
        process = start(tmp_path, *settings, "--out", "killed", *resume, backend="numba")
        while not (tmp_path / "killed" / f"step-{step:08}.json").exists():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.001)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        resume = ("--resume",)
    last = start(tmp_path, *settings, "--out", "killed", "--resume", backend="numba")
    error = last.communicate()[1]
    assert last.returncode == 0, error
    file = "step-00000200.safetensors"
    assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "killed" / file).read_bytes()


def test_minutes_end_a_run(files, tmp_path):
    out = succeeds(
        tmp_path,
        "pretrain",
        str(files / "text.txt"),
        "--tokenizer",
        "words",
        "--minutes",
        "0.03",
        "--max-len",
        "12",
        *TINY,
    )
    steps = [json.loads(line) for line in (tmp_path / "runs" / "pretrain" / "metrics.jsonl").read_text().splitlines()]
    assert steps and "loss" in out
