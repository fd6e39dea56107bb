"""Files with random damage: refused by the one exception, or read as arrays of the shapes that were promised."""

import io
import random
import struct
import tracemalloc
import zipfile

import pytest
import small_files as small

from minitransformer.errors import WeightsError
from minitransformer.pretrained.gguf import GgufFile
from minitransformer.pretrained.npz_file import NpzFile
from minitransformer.pretrained.safetensors_file import SafetensorsFile
from minitransformer.pretrained.torch_zip import TorchFile


def archived(archive: bytes, name: str):
    """One entry, and the archive around it. Damage to the entry alone gets past the archive's checksums."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        entries = {info.filename: opened.read(info) for info in opened.infolist()}
    return entries[name], lambda content: small.zipped(*(entries | {name: content}).items())


NPZ = [small.npz(small.npz_arrays(), packed) for packed in (False, True)]
# what reads it, what is damaged, what is put around it afterwards
FORMATS = {
    "torch zip": (TorchFile, small.good_torch(), bytes),
    "torch pickle": (TorchFile, *archived(small.good_torch(), "archive/data.pkl")),
    "torch legacy": (TorchFile, small.good_legacy(), bytes),
    "safetensors": (SafetensorsFile, small.good_safetensors(), bytes),
    "npz": (NpzFile, NPZ[0], bytes),
    "npz packed": (NpzFile, NPZ[1], bytes),
    "npy": (NpzFile, *archived(NPZ[0], "a.weight.npy")),
    "gguf": (GgufFile, small.good_gguf(), bytes),
}
# numbers at which lengths, offsets and counts go wrong
NUMBERS = [0, 1, 2, 127, 128, 255, 256, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1]


def mutant(content: bytes, rng: random.Random) -> bytes:
    """One to four changes: a bit, a byte, a number, a piece removed, doubled, moved or cut off."""
    raw = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        place, length = rng.randrange(len(raw)), rng.choice((1, 2, 4, 8, 30))
        match rng.randrange(8):
            case 0:
                raw[place] ^= 1 << rng.randrange(8)
            case 1:
                raw[place] = rng.randrange(256)
            case 2:
                code = rng.choice(("<B", "<H", "<I", "<Q"))
                size = struct.calcsize(code)
                raw[place : place + size] = struct.pack(code, rng.choice(NUMBERS) % (1 << 8 * size))
            case 3:
                del raw[place : place + length]
            case 4:
                raw[place:place] = raw[place : place + length]
            case 5:
                raw[place : place + length] = rng.randbytes(length)
            case 6:
                other = rng.randrange(len(raw))
                raw[place : place + length] = raw[other : other + length]
            case 7:
                del raw[rng.randrange(len(raw)) :]
        if not raw:
            return b""
    return bytes(raw)


def read(reader, path) -> bool:
    """Whether the file was accepted."""
    try:
        file = reader(path)
        for name, shape in file.shapes.items():
            assert file[name].shape == shape and file.kinds[name]
            if reader is GgufFile and file.kinds[name].startswith("Q"):
                assert file.raw(name).blocks.shape[:-1] == shape[:-1]
    except WeightsError as error:
        assert str(error).startswith(str(path)) and "\n" not in str(error) and len(str(error)) < 700
        return False
    return True


def survive(name: str, path, count: int, seed: int) -> int:
    """How many were accepted."""
    reader, content, wrap = FORMATS[name]
    rng, accepted = random.Random(f"{name} {seed}"), 0
    for _ in range(count):
        path.write_bytes(wrap(mutant(content, rng)))
        accepted += read(reader, path)
    return accepted


@pytest.mark.parametrize("count", [300, pytest.param(5000, marks=pytest.mark.oracle)])  # the many where time is taken
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a damaged scale may be infinite
def test_mutants(tmp_path, name, count):
    accepted = survive(name, tmp_path / "mutant", count, seed=count)
    print(f"{name}: {accepted} of {count} mutants accepted")
    assert 0 < accepted < count, "mutants that are all good, or all bad at the first byte, test nothing"


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_mutants_set_little_memory_aside(tmp_path, name):
    """The files have a few hundred bytes. 2 MB is what the interpreter itself may need meanwhile."""
    survive(name, tmp_path / "mutant", 20, seed=1)  # what is imported on the way does not count
    tracemalloc.start()
    try:
        survive(name, tmp_path / "mutant", 300, seed=2)
        assert tracemalloc.get_traced_memory()[1] < 2e6
    finally:
        tracemalloc.stop()
