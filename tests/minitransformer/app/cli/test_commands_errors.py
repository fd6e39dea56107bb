"""Whatever a user gets wrong ends in one line that says what to do, exit code 2, and nothing overwritten."""

import json
import os
import shlex
import shutil

import pytest
from command_support import TINY, command, inside, prepare, refused

from minitransformer.app.cli import classify
from minitransformer.app.cli.main import main
from minitransformer.app.language import reviews
from minitransformer.app.tasks import builtin

TEXT = "\n".join(["a small text .", "another small text .", "the last text ."] * 3) + "\n"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with one tiny run of each kind, made once."""
    folder = tmp_path_factory.mktemp("errors")
    (folder / "text.txt").write_text(TEXT)
    (folder / "labels.tsv").write_text("text\tlabel\n" + "".join(f"text {i}\t{'ab'[i % 2]}\n" for i in range(8)))
    (folder / "pairs.tsv").write_text("".join(f"one {i}\tun {i}\n" for i in range(8)))
    short = ("--steps", "2", "--tokenizer", "words", "--max-len", "8", *TINY)
    prepare(
        folder,
        ("pretrain", "text.txt", *short),
        ("finetune", "labels.tsv", "--scratch", *short),
        ("train-translator", "pairs.tsv", *short),
    )
    return folder


@pytest.fixture
def folder(runs, monkeypatch):
    yield from inside(runs, monkeypatch)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("pretrain missing.txt --out new", "missing.txt:0: found no such file"),
        ("pretrain text.txt", "already holds a run of 2 steps; add --resume to go on with it, --out DIR"),
        ("pretrain text.txt --out nowhere --resume", "nowhere: holds no checkpoint"),
        ("pretrain text.txt --out text.txt", "this is a file; name a folder"),
        ("pretrain pieces.spm --out new", "give --dict dict.txt"),
        ("pretrain text.txt --out new --valid missing.txt", "missing.txt:0: found no such file"),
        ("pretrain --out new --valid text.txt", "--valid is about data of your own: give DATA"),
        ("pretrain --out new --vocabulary 10", "--vocabulary is about data of your own"),
        ("pretrain text.txt --out new --texts 10", "--texts counts built-in texts"),
        ("pretrain text.txt --out new --from runs/pretrain --tokenizer words", "those of the language model"),
        (
            "pretrain pieces.spm --out new --from runs/pretrain",
            "most of its pieces are unknown to the tokenizer (words)",
        ),
        ("pretrain text.txt --out runs/translator --resume", "holds a translator, not a language model"),
        ("pretrain text.txt --out new --preset lab --steps 3 --warmup 9", "the whole run has 3 steps; give fewer"),
        ("pretrain text.txt --out new --max-len 1000000000000000", "not enough memory"),
        ("pretrain text.txt --out=", "--out: name a folder"),
        ("pretrain text.txt --out new --vocabulary 1", "another size of the vocabulary"),
        ("pretrain labels.tsv --out new --text-column star", "expected a column 'star'"),
        ("pretrain text.txt --out new --d-model 10 --n-heads 4", "--d-model 10 cannot be shared by --n-heads 4"),
        ("pretrain text.txt --out new --width 10 --heads 4", "--d-model 10 cannot be shared by --n-heads 4"),
        ("pretrain text.txt --out new --d-model 9 --n-heads 3", "--d-model 9: choose an even number"),
        ("pretrain text.txt --out new --positions rotating", "invalid choice: 'rotating'"),
        ("pretrain text.txt --out new --objective bag", "invalid choice: 'bag'"),
        ("pretrain text.txt --out new --steps 0", "'0': give a whole number from 1 on"),
        ("pretrain text.txt --out new --lr nan", "'nan': give a number above 0"),
        ("pretrain text.txt --out new --dropout 1", "'1': give a number from 0 to below 1"),
        ("pretrain text.txt --out new --max-len 1", "give at least 2"),
        ("pretrain text.txt --out new --tokenizer words --vocabulary 4", "leaves no room for words"),
        ("pretrain text.txt --out new --backend tpu", "unknown backend 'tpu'"),
        ("finetune missing.tsv --out new", "missing.tsv:0: found no such file"),
        ("finetune labels.tsv --from runs/finetune --out new", "holds a classifier, not a language model"),
        ("finetune labels.tsv --from nowhere --out new", "nowhere: no such run or checkpoint"),
        ("finetune labels.tsv --from runs/pretrain --scratch", "not allowed with argument"),
        ("finetune labels.tsv --d-model 32 --out new", "give them to pretrain, or add --scratch"),
        ("finetune labels.tsv --scratch --label-column star --out new", "expected a column 'star'"),
        ("finetune text.txt --scratch --out new", "found the suffix '.txt'"),
        ("finetune labels.tsv --scratch --text-column ² --out new", "expected a column '²'"),
        ("finetune labels.tsv --scratch --max-len 1 --out new", "give at least 2"),
        ("finetune labels.tsv --vocabulary 9 --out new", "--vocabulary: the words are those of the language model"),
        ("finetune --scratch --text-column text --out new", "--text-column is about data of your own"),
        ("finetune labels.tsv --scratch --out runs/pretrain --resume", "holds a language model, not a classifier"),
        ("finetune --from runs/pretrain --out new", "was not trained on the built-in language"),
        (
            "classify --model runs/pretrain",
            "holds a language model, not a classifier; make one with `minitransformer",
        ),
        ("classify hello --model nowhere", "nowhere: no such run"),
        ("classify hello --file text.txt", "give one or the other"),
        ("classify --file missing.txt", "missing.txt:0: found no such file"),
        ("classify", "there is nothing to classify"),
        ("generate --model runs/translator", "holds a translator, not a language model"),
        ("generate --beam 2 --temperature 1", "leave out --temperature"),
        ("generate --greedy --beam 2", "give one or the other"),
        ("generate --temperature 0", "'0': give a number above 0"),
        ("generate --top-p 1.5", "above 0 and at most 1"),
        ("generate --length 99", "there is room for 7 words"),
        ("generate a-a-a-a-a-a-a-a-a-a", "shorten it"),
        ("train-translator text.txt --out new", "text.txt:1: found 1 column(s)"),
        ("train-translator --reverse --out new", "--reverse needs a file of pairs"),
        ("train-translator --tokenizer pieces --out new", "--tokenizer is about data of your own"),
        ("train-translator pairs.tsv --out runs/finetune --resume", "holds a classifier, not a translator"),
        ("train-translator pairs.tsv --max-len 2 --out new", "every pair is longer than max_len=2"),
        ("translate", "there is nothing to translate"),
        ("translate hello --model runs/pretrain", "holds a language model, not a translator"),
        ("translate a-a-a-a-a-a-a-a-a-a", "takes at most 7"),
        ("evaluate text.txt", "name it with --model: runs/pretrain, runs/finetune, runs/translator"),
        ("evaluate missing.txt --model runs/pretrain", "missing.txt:0: found no such file"),
        ("evaluate pieces.spm --model runs/pretrain", "most of its pieces are unknown"),
        ("evaluate text.txt --model runs/pretrain --seed 1", "--seed is about fresh built-in text"),
        ("evaluate text.txt --model runs/pretrain --beam 2", "--beam is nothing that a language model has use for"),
        ("evaluate --model runs/pretrain --text-column text", "--text-column is about data of your own"),
        ("evaluate labels.tsv --model runs/finetune/step-00000002.json --last", "omit it"),
        ("evaluate other.tsv --model runs/finetune", "other.tsv:3: found the label 'c', expected one of 'a', 'b'"),
        ("evaluate --model runs/finetune", "was not trained on the built-in language; give it data"),
    ],
)
def test_mistakes(folder, capsys, arguments, message):
    (folder / "pieces.spm").write_text("▁a ▁b\n▁b ▁a\n")
    (folder / "other.tsv").write_text("text\tlabel\nx\ta\ny\tc\n")
    assert message in refused(capsys, *arguments.split())
    assert not (folder / "new").exists(), "what fails before training leaves nothing behind"


@pytest.mark.parametrize(
    "texts, which", [(("",), "the text"), (("fine", " "), "text 2 of 2"), (("", "fine"), "text 1 of 2")]
)
@pytest.mark.parametrize("name", ["classify", "translate"])
def test_an_empty_text_is_not_left_out_silently(folder, capsys, name, texts, which):
    assert f"{which} is empty: write something between the quotes" in refused(capsys, name, *texts)


@pytest.mark.parametrize(
    "arguments",
    [
        "pretrain missing.txt", "pretrain text.txt --valid missing.txt", "pretrain missing.txt --out nowhere --resume",
        "finetune missing.tsv", "finetune missing.tsv --from nowhere", "train-translator missing.tsv",
        "evaluate missing.txt", "evaluate missing.txt --model nowhere",
    ],
)  # fmt: skip
def test_a_missing_file_is_told_before_anything_about_runs(folder, capsys, arguments):
    """runs/pretrain and the others hold a run already, nowhere none: that would be the next mistake."""
    assert ":0: found no such file" in refused(capsys, *arguments.split())


def test_data_that_are_not_fetched_yet(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MINITRANSFORMER_CACHE", str(tmp_path))
    for name in ("pretrain", "finetune", "evaluate"):
        assert "imdb is not fetched yet: type `minitransformer data imdb` first" in refused(capsys, name, "imdb")


@pytest.mark.parametrize(
    "arguments, made_by",
    [
        ("generate", "pretrain"), ("finetune", "pretrain"), ("classify", "finetune"), ("translate", "train-translator"),
        ("evaluate", "pretrain"),
    ],
)  # fmt: skip
def test_without_a_model_its_maker_is_named(folder, tmp_path, monkeypatch, capsys, arguments, made_by):
    monkeypatch.chdir(tmp_path)
    assert f"`minitransformer {made_by}`" in refused(capsys, arguments)


@pytest.mark.parametrize(
    "arguments", ["pretrain {}", "finetune {} --scratch", "train-translator {}", "classify --file {}"]
)
def test_bytes_that_are_not_utf8(folder, capsys, arguments):
    (folder / "bad.tsv").write_bytes(b"text\tlabel\nfine\ta\nna\xefve\tb\n")
    line = refused(capsys, *arguments.format("bad.tsv").split(), *(() if "classify" in arguments else ("--out", "new")))
    assert "bad.tsv:3: found byte 0xef that is not UTF-8" in line


def test_a_single_class_teaches_nothing(folder, capsys):
    (folder / "one.tsv").write_text("text\tlabel\nx\tgood\ny\tgood\nz\tgood\n")
    assert "at least two classes" in refused(capsys, "finetune", "one.tsv", "--scratch", "--out", "new")


def test_resuming_with_other_sizes_is_refused_and_changes_nothing(folder, capsys):
    before = sorted(os.listdir("runs/pretrain"))
    line = refused(
        capsys, "pretrain", "text.txt", "--tokenizer", "words", "--resume", "--d-model", "32", "--steps", "4"
    )
    assert "belongs to another model" in line and sorted(os.listdir("runs/pretrain")) == before


@pytest.mark.parametrize("damage", ["cut", "labels", "tokenizer", "escape"])
def test_a_damaged_checkpoint_is_refused(folder, capsys, damage):
    from minitransformer.app.training.checkpoints.document import decode, encode

    shutil.copytree("runs/finetune", damage)
    file = max((folder / damage).glob("step-*.json"))
    path = str(file)
    entries = decode(path, file.read_bytes())
    if damage == "labels":
        entries["training"]["settings"]["labels"] = ["only one"]
    elif damage == "tokenizer":
        entries["tokenizer"] = {"text": {"style": "plain", "files": {"tokenizer.json": "{}"}}}
    elif damage == "escape":
        entries["tokenizer"]["text"]["files"]["../tokenizer.json"] = "{}"
    content = encode(entries)
    file.write_bytes(content[: len(content) // 2] if damage == "cut" else content)
    line = refused(capsys, "classify", "hello", "--model", path)
    assert path in line or os.path.basename(path) in line


@pytest.mark.parametrize("name, value", [("whole", True), ("quiet_start", True), ("pooling", "stream")])
def test_an_experiment_of_version_0_1_is_refused(folder, capsys, name, value):
    """Its settings are no model's of today; the same without it is read."""
    from minitransformer.app.training.checkpoints.document import FORMAT, checksum, decode

    shutil.copytree("runs/finetune", name)
    file = max((folder / name).glob("step-*.json"))
    for harmless in (True, False):
        entries = decode(str(file), file.read_bytes())
        entries["model"]["config"] |= {"whole": False, "quiet_start": False} if harmless else {name: value}
        document = {"format": FORMAT, "version": 1, **entries, "check": checksum(entries)}
        file.write_text(json.dumps(document))
        if harmless:
            assert main(["classify", "hello", "--model", str(file)]) == 0
    line = refused(capsys, "classify", "hello", "--model", str(file))
    assert f"'{value if name == 'pooling' else name}'" in line


def test_the_same_in_a_process_of_its_own(runs):
    """No traceback on the terminal, also for a pipe that is not text."""
    result = command(runs, "translate", "--model", "runs/pretrain")
    assert result.returncode == 2 and result.stderr.count("\n") == 1 and result.stdout == ""
    result = command(runs, "classify", stdin="fine\na\0b\n")
    assert result.returncode == 2 and "<stdin>:2: found a NUL byte" in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_texts_in_the_help_of_classify_are_reviews_that_commit_themselves():
    """What the demonstration's model has never seen it can only guess at: here the language itself knows the label."""
    lines = [line for line in classify.__doc__.replace("\\\n", " ").splitlines() if '"' in line]
    texts = [text for line in lines for text in shlex.split(line)[2:]]
    codec = builtin.review_codec()
    assert [reviews().label_posterior(codec.words(text)) for text in texts] == [1.0, 0.0]


def test_every_command_explains_itself_with_an_example(capsys):
    from minitransformer.app.cli.main import COMMANDS

    for name in ("pretrain", "finetune", "classify", "generate", "train-translator", "translate", "evaluate"):
        assert name in COMMANDS
        with pytest.raises(SystemExit) as stop:
            main([name, "--help"])
        text = capsys.readouterr().out
        assert stop.value.code == 0 and f"  minitransformer {name}" in text and "--backend" in text


def test_json_reports_are_json(folder, capsys):
    capsys.readouterr()
    assert main(["evaluate", "text.txt", "--model", "runs/pretrain", "--json"]) == 0
    (values,) = json.loads(capsys.readouterr().out).values()
    assert values["texts"] == 9 and values["perplexity"] > 1
