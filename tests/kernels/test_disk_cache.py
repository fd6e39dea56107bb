"""Compiled code that is kept: never from where others can write, whole or not at all, and made anew when damaged."""

import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from types import ModuleType

import pytest

import kernels
from kernels import disk_cache
from kernels.cpu.kept import SealedFiles
from kernels.disk_cache import put, seal, unsealed, why_not_private
from kernels.emulator import compiler

ROOT = Path(__file__).parents[2]
CALLS = {
    "numba": "import numpy as np, kernels; print(kernels.backend('numba').relu(np.array([-1.0, 2.0])).tolist())",
    "emulated": "import numpy as np, kernels; print(kernels.backend('emulated').relu(np.array([-1.0, 2.0])).tolist())",
}
PREPARED = """
from numba.core.cpu import CPUContext
prepare, times = CPUContext.refresh, []
CPUContext.refresh = lambda context: (times.append(1), prepare(context))
import numpy as np, kernels
print(kernels.backend('numba').relu(np.array([-1.0, 2.0])).tolist(), len(times) > 0)
"""
pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="rights of files are those of Unix")


@pytest.fixture
def call(tmp_path):
    """Runs the call in a new process whose caches are in tmp_path."""

    def run(backend: str, program: str | None = None, **more: str) -> subprocess.CompletedProcess:
        caches = {"NUMBA_CACHE_DIR": str(tmp_path / "numba"), "MINITRANSFORMER_CACHE": str(tmp_path)}
        env = {**os.environ, "MINITRANSFORMER_QUIET": "0", **caches, **more}
        command = [sys.executable, "-c", program or CALLS[backend]]
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)

    return run


def empty(contents: bytes) -> bytes:
    return b""


def truncated(contents: bytes) -> bytes:
    return contents[: len(contents) // 2]


def flipped(contents: bytes) -> bytes:
    middle = len(contents) // 2
    return contents[:middle] + bytes([contents[middle] ^ 1]) + contents[middle + 1 :]


def compiled_files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("works-")]


ANEW = [
    ("numba", [flipped]),
    *(pytest.param(tier, [empty, truncated, flipped], marks=pytest.mark.slow) for tier in CALLS),
]


@pytest.mark.parametrize(("tier", "damages"), ANEW)
def test_damaged_files_are_made_anew(call, tmp_path, tier, damages):
    """Every file at once: an index, machine code, the emulator and its kernels. Said once, and not again afterwards."""
    if tier not in kernels.available():
        pytest.skip(str(kernels.reasons()[tier]))
    assert call(tier).stdout == "[0.0, 2.0]\n"
    for damage in damages:
        files = compiled_files(tmp_path)
        assert len(files) >= 2
        for path in files:
            path.write_bytes(damage(path.read_bytes()))
        repaired, after = call(tier), call(tier)
        assert (repaired.returncode, repaired.stdout) == (0, "[0.0, 2.0]\n"), (damage, repaired.stderr)
        assert repaired.stderr.count("damaged; they are made anew") == 1, damage
        assert (after.returncode, after.stdout, after.stderr) == (0, "[0.0, 2.0]\n", ""), damage


@pytest.mark.parametrize("damage", [empty, truncated, flipped, lambda c: c + b"x", lambda c: c[:10]])
def test_a_seal_shows_every_damage(damage):
    assert unsealed(seal(b"machine code")) == b"machine code"
    assert unsealed(damage(seal(b"machine code"))) is None


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    events = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, real=real: (events.append(name), real(*a))[1])
    (tmp_path / "new").write_bytes(b"1")
    put(tmp_path / "new", tmp_path / "file")
    assert events == ["fsync", "replace", "fsync"] and (tmp_path / "file").read_bytes() == b"1"


def test_code_of_former_sources_is_not_run(tmp_path):
    """A process may end when the index is new and the code is not."""
    SealedFiles(str(tmp_path), "kernel", "former sources").save("key", "old code")
    files = SealedFiles(str(tmp_path), "kernel", "sources")
    files._save_index({"key": files._data_name(1)})
    assert files.load("key") is None
    files.save("key", "code")
    files.save("another key", "other code")
    assert (files.load("key"), files.load("another key")) == ("code", "other code")


def test_numba_does_not_get_ready_to_compile_before_it_loads(call):
    """That takes as long as the loading of ten kernels; the first process has to."""
    for expected in ("[0.0, 2.0] True", "[0.0, 2.0] False"):
        result = call("numba", PREPARED)
        assert result.stdout.strip() == expected, result.stderr


def test_an_index_that_names_a_class_which_has_gone_since_is_passed_over(tmp_path, monkeypatch):
    """The types of a kernel's arguments are pickled by name: a named tuple may have another one after an update."""
    module = ModuleType("former_sources")
    module.Room = namedtuple("Room", "width")
    module.Room.__module__ = module.__name__
    monkeypatch.setitem(sys.modules, module.__name__, module)
    SealedFiles(str(tmp_path), "kernel", "former sources").save(module.Room, "old code")
    del module.Room
    files = SealedFiles(str(tmp_path), "kernel", "sources")
    assert files.load("key") is None
    files.save("key", "code")
    assert files.load("key") == "code"


# -------------------------------------------------------------------------------------------------------- privacy


def foreign(path: Path, monkeypatch) -> None:
    """Makes a folder that of another user."""
    if os.getuid() == 0:
        os.chown(path, 54321, 54321)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 54321)


def test_every_part_of_a_path_is_looked_at(tmp_path, monkeypatch):
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True, mode=0o700)
    assert why_not_private(inner) is None
    for part in (inner, inner.parent, inner.parent.parent):
        part.chmod(0o777)
        assert f"{part}: other users may write to it" in why_not_private(inner)
        part.chmod(0o1777)  # as /tmp: others may write, but not rename or remove
        assert why_not_private(inner) is None
        part.chmod(0o700)
    (tmp_path / "link").symlink_to(inner)
    inner.parent.chmod(0o777)
    assert why_not_private(tmp_path / "link") is not None, "the folder behind a link counts"
    inner.parent.chmod(0o700)
    foreign(inner.parent, monkeypatch)
    assert "belongs to another user" in why_not_private(inner)
    assert why_not_private(inner, below=inner.parent) is None, "the program itself comes from there"


@pytest.mark.parametrize("tier", CALLS)
def test_nothing_is_loaded_from_where_others_can_write(call, tmp_path, tier):
    """A folder above the cache is open: the emulator refuses, Numba compiles anew; neither reads what is there."""
    if tier not in kernels.available():
        pytest.skip(str(kernels.reasons()[tier]))
    assert call(tier).returncode == 0
    before = {path: path.stat().st_mtime_ns for path in compiled_files(tmp_path)}
    tmp_path.chmod(0o777)
    try:
        result = call(tier)
    finally:
        tmp_path.chmod(0o700)
    assert f"{tmp_path}: other users may write to it" in result.stderr
    if tier == "numba":
        assert (result.stdout, result.returncode) == ("[0.0, 2.0]\n", 0) and "compiling Numba kernels" in result.stderr
    else:
        assert result.returncode == 1
    assert before == {path: path.stat().st_mtime_ns for path in compiled_files(tmp_path)}


def test_the_folder_is_looked_at_at_every_load(tmp_path, monkeypatch):
    """Not only when it is chosen."""
    monkeypatch.setattr(compiler, "cache_folder", lambda: tmp_path)
    library = tmp_path / "library.so"
    library.write_bytes(seal(b"code"))
    assert compiler._kept(library)
    tmp_path.chmod(0o777)
    with pytest.raises(compiler.CompilerError, match="other users may write to it.*set MINITRANSFORMER_CACHE"):
        compiler._kept(library)


def test_without_a_private_place_the_folder_is_new(tmp_path, monkeypatch):
    """No usable home, and the name in the common folder is taken by somebody else."""
    monkeypatch.delenv("MINITRANSFORMER_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/no/home")
    common = tmp_path / "tmp"
    common.mkdir()
    common.chmod(0o1777)
    monkeypatch.setattr(compiler.tempfile, "tempdir", str(common))
    ours = compiler.cache_folder.__wrapped__()
    assert ours == common / f"minitransformer-{os.getuid()}" / "emulator" and ours.stat().st_mode & 0o777 == 0o700
    foreign(ours.parent, monkeypatch)
    if os.getuid() == 0:
        fresh = compiler.cache_folder.__wrapped__()
        assert fresh.parent == common and fresh != ours.parent and fresh.stat().st_mode & 0o777 == 0o700
        assert disk_cache.why_not_private(fresh) is None
