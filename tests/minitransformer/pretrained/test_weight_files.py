"""Every format: what was written is what is read; what is wrong is named in one line."""

import io
import json
import os
import struct
import zipfile

import numpy as np
import pytest
import small_files as small

from minitransformer.errors import WeightsError
from minitransformer.pretrained.gguf import GgufFile
from minitransformer.pretrained.npz_file import NpzFile
from minitransformer.pretrained.open_weights import open_weights
from minitransformer.pretrained.safetensors_file import INDEX, SafetensorsFile, ShardedFile
from minitransformer.pretrained.torch_zip import TorchFile

SIX = small.SIX.reshape(2, 3)


@pytest.fixture
def written(tmp_path):
    """written(content, name) → its path."""

    def write(content: bytes, name: str = "weights"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


def refused(reader, path, message: str) -> None:
    """Refused when opened, or when the arrays are read."""
    with pytest.raises(WeightsError) as error:
        dict(reader(path))
    assert message in str(error.value) and str(error.value).startswith(f"{path}: ") and "\n" not in str(error.value)


def same(array: np.ndarray, expected, dtype) -> None:
    np.testing.assert_array_equal(array, expected, strict=False)
    assert array.shape == np.shape(expected) and array.dtype == dtype
    array[...] = array  # the caller's own, not a window into a read-only buffer


# --------------------------------------------------------------------------------------------------------- what is read


def test_torch_zip(written):
    file = TorchFile(written(small.good_torch()))
    assert list(file) == ["model.a.weight", "model.b.weight", "model.c", "model.d"]
    assert file.settings == {"dims.n_mels": 80, "dims.name": "tiny"}
    assert file.shapes["model.b.weight"] == (3, 2) and "model.e" not in file
    assert list(file.kinds.values()) == ["F32", "F32", "F16", "I64"]
    same(file["model.a.weight"], SIX, np.float32)
    same(file["model.b.weight"], SIX.T, np.float32)
    same(file["model.c"], [2.0, 3.0], np.float32)
    same(file["model.d"], 7, np.int64)
    with pytest.raises(KeyError):
        file["model.e"]


def test_torch_before_zip(written):
    file = TorchFile(written(small.good_legacy()))
    same(file["a.weight"], SIX, np.float32)
    same(file["c"], np.ones(4), np.float32)


def test_safetensors(written):
    file = SafetensorsFile(written(small.good_safetensors()))
    same(file["a.weight"], SIX, np.float32)
    same(file["b"], np.ones(4), np.float32)
    same(file["c"], -7, np.int64)
    same(file["empty"], np.ones((0, 3)), np.float32)
    assert file.notes == {"format": "pt"}
    assert file.kinds == {"a.weight": "F32", "b": "BF16", "c": "I64", "empty": "F16"}


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"])
def test_safetensors_as_its_own_library_writes_them(tmp_path, rng, dtype):
    from safetensors.numpy import save_file

    array = rng.integers(0, 100, (3, 5)).astype(dtype)
    save_file({"x": array}, tmp_path / "x")
    same(SafetensorsFile(tmp_path / "x")["x"], array, np.float32 if dtype == "f2" else dtype)


def sharded(folder, index: dict) -> None:
    for number in (1, 2):
        header = {f"x{number}": {"dtype": "F32", "shape": [6], "data_offsets": [0, 24]}}
        (folder / f"model-{number}.safetensors").write_bytes(small.safetensors(header, small.SIX.tobytes()))
    (folder / INDEX).write_text(json.dumps({"weight_map": index}))


def test_shards(tmp_path):
    sharded(tmp_path, {"x1": "model-1.safetensors", "x2": "model-2.safetensors"})
    file = open_weights(tmp_path)
    assert list(file) == ["x1", "x2"] and file.kinds == {"x1": "F32", "x2": "F32"}
    same(file["x2"], small.SIX, np.float32)


@pytest.mark.parametrize("packed", [False, True])
def test_npz(written, packed):
    arrays = small.npz_arrays()
    file = NpzFile(written(small.npz(arrays, packed)))
    assert file.keys() == arrays.keys()
    kinds = {"a.weight": "F32", "by_columns": "F32", "half": "F16", "notes": "TEXT", "d": "I64", "flags": "BOOL"}
    assert file.kinds == kinds
    for name, array in arrays.items():
        same(file[name], array, np.float32 if name == "half" else array.dtype)


def test_gguf(written):
    file = GgufFile(written(small.good_gguf()))
    lists = {name: np.asarray(file.metadata.pop(name)).tolist() for name in ("scores", "nested")}
    assert lists == {"scores": [0.25, -1.0], "nested": [[5, -6]]}
    assert file.metadata == {"general.architecture": "llama", "layers": 30, "eps": 0.5, "tokens": ["a", "Ġb", ""]}
    same(file["a.weight"], SIX, np.float32)
    same(file["h"], np.ones(3), np.float32)
    # bytes 0 ... 15: their lower halves are 0 ... 15, their upper halves 0; w = 2 q - 1
    same(file["q"], [[*(2.0 * np.arange(16) - 1), *[-1.0] * 16] * 2] * 2, np.float32)
    raw = file.raw("q")
    assert raw.kind == "Q4_1" and raw.shape == (2, 64) and raw.blocks.shape == (2, 40)
    with pytest.raises(TypeError, match="F32, not quantised"):
        file.raw("a.weight")


@pytest.mark.parametrize(
    "name, content, reader",
    [
        ("model.safetensors", small.good_safetensors(), SafetensorsFile),
        ("pytorch_model.bin", small.good_torch(), TorchFile),
        ("old.pth", small.good_legacy(), TorchFile),
        ("x.npz", small.npz(small.npz_arrays(), True), NpzFile),
        ("y.gguf", small.good_gguf(), GgufFile),
    ],
)
def test_the_reader_is_chosen_by_the_content(written, tmp_path, name, content, reader):
    path = written(content, name)
    assert type(open_weights(path)) is reader
    assert open_weights(tmp_path).keys() == open_weights(path).keys(), "the only file of weights in a folder"


def test_a_folder_without_weights(tmp_path):
    refused(open_weights, tmp_path, "holds 0 files of weights")
    (tmp_path / "a.pt").touch()
    (tmp_path / "b.pt").touch()
    refused(open_weights, tmp_path, "holds 2 files of weights")


# ------------------------------------------------------------------------------------------------------ what is refused

READERS = [TorchFile, SafetensorsFile, NpzFile, GgufFile, ShardedFile]


@pytest.mark.parametrize("reader", READERS)
def test_not_a_file(tmp_path, reader):
    refused(reader, tmp_path / "missing", "it does not exist")
    refused(reader, tmp_path, "is not an ordinary file")
    os.mkfifo(tmp_path / "pipe")
    refused(reader, tmp_path / "pipe", "is not an ordinary file")
    (tmp_path / "empty").touch()
    refused(reader, tmp_path / "empty", "")
    with pytest.raises(WeightsError):
        reader("a\0b")


@pytest.mark.parametrize("make, reader", [
    (small.good_torch, TorchFile), (small.good_legacy, TorchFile), (small.good_safetensors, SafetensorsFile),
    (lambda: small.npz(small.npz_arrays(), False), NpzFile), (small.good_gguf, GgufFile),
])  # fmt: skip
def test_cut_anywhere(written, make, reader):
    content = make()
    for length in range(0, len(content), 1 + len(content) // 400):
        refused(reader, written(content[:length]), "")


@pytest.mark.parametrize("reader, make", [(TorchFile, small.good_torch), (SafetensorsFile, small.good_safetensors)])
def test_a_file_that_changes_under_its_reader(written, reader, make):
    path = written(make())
    file = reader(path)
    os.utime(path, ns=(1, 1))
    with pytest.raises(WeightsError, match="changed while it was read"):
        dict(file)


def one(entry: dict | list, numbers: bytes = small.SIX.tobytes(), **more) -> bytes:
    return small.safetensors({"x": entry, **more}, numbers)


X = {"dtype": "F32", "shape": [6], "data_offsets": [0, 24]}


@pytest.mark.parametrize(
    "content, message",
    [
        (one(X | {"dtype": "F8_E4M3"}), "has the type 'F8_E4M3'"),
        (one(X | {"dtype": ["F32"]}), "has the type list"),
        (one(X | {"shape": [7]}), "another length"),
        (one(X | {"shape": [-6]}), "impossible shape"),
        (one(X | {"shape": [1] * 9}), "impossible shape"),
        (one(X | {"shape": [0, 10**18], "data_offsets": [0, 0]}, b""), "impossible shape"),
        (one(X | {"shape": [6.0]}), "impossible shape"),
        (one(X | {"shape": "6"}), "impossible shape"),
        (one(X | {"data_offsets": [24, 0]}), "another length"),
        (one(X | {"data_offsets": [-24, 0]}), "impossible data_offsets"),
        (one(X | {"data_offsets": [0, 24, 48]}), "impossible data_offsets"),
        (one(X | {"data_offsets": [8, 32]}, bytes(32)), "does not begin where"),
        (one(X, y=X), "does not begin where"),
        (one(X, bytes(28)), "its description speaks of"),
        (one(X | {"more": 1}), "is not described by"),
        (one([]), "is not described by"),
        (small.safetensors(b'{"x":1,"x":1}', b""), "a name stands twice"),
        (small.safetensors(b"[" * 100_000, b""), "is not JSON"),
        (small.safetensors(b"[]", b""), "not a JSON object"),
        (small.safetensors(b'{"a\xff":1}', b""), "is not JSON"),
        (struct.pack("<Q", 1 << 63) + b"{}", "claims a description of 9,223,372,036,854,775,808 bytes"),
    ],
)
def test_safetensors_refused(written, content, message):
    refused(SafetensorsFile, written(content), message)


@pytest.mark.parametrize(
    "index, message",
    [
        ({"x1": "../model-1.safetensors"}, "has no weight_map"),
        ({"x1": "/etc/passwd"}, "has no weight_map"),
        ({"x1": 1}, "has no weight_map"),
        (["x1"], "has no weight_map"),
    ],
)
def test_an_index_that_leads_elsewhere(tmp_path, index, message):
    sharded(tmp_path, index)
    refused(ShardedFile, tmp_path / INDEX, message)


def test_shards_that_do_not_match_their_index(tmp_path):
    for index, message in [
        ({"x1": "model-1.safetensors", "x3": "model-1.safetensors"}, "lacks 'x3'"),
        ({"x9": "model-1.safetensors"}, "has an array that its index does not name: 'x1'"),
        ({"x1": "model-7.safetensors"}, "it does not exist"),
    ]:
        sharded(tmp_path, index)
        with pytest.raises(WeightsError, match=message):
            ShardedFile(tmp_path / INDEX)


@pytest.mark.parametrize("array", [np.array([{}], object), np.array([(1, 2.0)], "i4,f4"), np.array([1j])])
def test_npz_of_other_things_than_numbers_and_text(written, array):
    refused(NpzFile, written(small.npz({"x": array}, False)), "'x' is not described as numbers or text")


@pytest.mark.parametrize("header", [b"'<U0'", b"'|S0'", b"'<U999999999'", b"'|O'", b"'<f16'", b"'>f4'"])
def test_npz_of_odd_types(written, header):
    content = small.npz({"x": np.array("ab")}, False)
    entry = zipfile.ZipFile(io.BytesIO(content)).read("x.npy")
    other = entry.replace(b"'<U2'", header).replace(b" " * (len(header) - 5) + b"\n", b"\n")
    refused(NpzFile, written(small.zipped(("x.npy", other))), "is not described as numbers or text")


def test_npz_of_characters_that_do_not_exist(written):
    content = small.npz({"x": np.array("ab")}, False)
    entry = zipfile.ZipFile(io.BytesIO(content)).read("x.npy")
    wrong = entry[:-4] + struct.pack("<I", 0x110000)
    refused(NpzFile, written(small.zipped(("x.npy", wrong))), "characters that do not exist")


def with_array(*, shape=(2, 32), kind=8, offset=0, alignment=None, numbers=bytes(68), copies=1, **more) -> bytes:
    entries = [] if alignment is None else [small.gguf_entry("general.alignment", 4, struct.pack("<I", alignment))]
    return small.gguf(entries, [small.gguf_array("x", shape, kind, offset)] * copies, numbers, **more)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"GGML" + bytes(100), "is not a GGUF file"),
        (small.gguf([], [], b"", version=1), "is GGUF of version 1"),
        (small.gguf([], [], b"", version=3 << 24), "version 50331648"),
        (with_array(kind=99), "type number 99"),
        (with_array(shape=(2, 31)), "not whole blocks"),
        (with_array(shape=(1, 1, 1, 1, 32)), "has 5 axes"),
        (with_array(shape=(1 << 62, 32)), "impossible shape"),
        (with_array(numbers=bytes(67)), "lies beyond the end"),
        (with_array(offset=32), "lies beyond the end"),
        (with_array(offset=1 << 63), "lies beyond the end"),
        (with_array(offset=31, numbers=bytes(200)), "not aligned"),
        (with_array(alignment=0), "alignment of 0"),
        (with_array(alignment=1 << 31), "alignment of 2147483648"),
        (with_array(copies=2), "stands there twice"),
        (small.gguf([], [small.gguf_array(n, (8,), 0, 0) for n in "ab"], bytes(99)), "on another"),
        (small.gguf([small.gguf_entry("k", 4, bytes(4))] * 2, [], b""), "'k' stands there twice"),
        (small.gguf([small.gguf_entry("k", 13, bytes(4))], [], b""), "unknown type 13"),
        (small.gguf([small.gguf_entry("k", 9, struct.pack("<IQ", 0, 1 << 60))], [], b""), "ends in the middle"),
        (small.gguf([small.gguf_entry("k", 9, struct.pack("<IQ", 8, 1 << 60))], [], b""), "ends in the middle"),
        (small.gguf([small.gguf_entry("k", 9, struct.pack("<IQ", 9, 1) * 2000)], [], b""), "array of the type 9"),
        (small.gguf([small.gguf_entry("k", 8, struct.pack("<Q", 2) + b"\xff\xff")], [], b""), "not UTF-8"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), "ends in the middle"),
    ],
)
def test_gguf_refused(written, content, message):
    refused(GgufFile, written(content), message)


def test_gguf_of_the_second_version_and_of_another_alignment(written):
    content = with_array(alignment=64, offset=64, numbers=bytes(64) + bytes(68), version=2)
    content = content[: len(content) - 132]
    content += bytes(-len(content) % 64) + bytes(64) + b"\0\x3c" + b"\x05" * 32 + bytes(34)  # scale 1, every q is 5
    np.testing.assert_array_equal(GgufFile(written(content))["x"], [[5.0] * 32, [0.0] * 32])


@pytest.mark.parametrize("kind", [2, 3, 6, 7, 8, 14])
def test_gguf_without_rows_or_columns(written, kind):
    for shape in [(0, 256), (3, 0)]:
        assert GgufFile(written(with_array(kind=kind, shape=shape)))["x"].shape == shape


def test_a_changed_number_is_noticed_where_the_format_has_checksums(written):
    for content, reader in [(small.good_torch(), TorchFile), (small.npz({"x": small.SIX}, False), NpzFile)]:
        place = content.index(small.SIX.tobytes())
        changed = content[: place + 5] + bytes([content[place + 5] ^ 1]) + content[place + 6 :]
        refused(reader, written(changed), "")


def test_a_zip_of_something_else(tmp_path):
    with zipfile.ZipFile(tmp_path / "x", "w") as archive:
        archive.writestr("readme.txt", "hello")
    refused(TorchFile, tmp_path / "x", "not one of PyTorch")
    refused(NpzFile, tmp_path / "x", "is not described as numbers")
