"""torch files made to do harm: each is refused in one line, nothing runs, nothing grows."""

import io
import os
import pickle
import struct
import sys
import time
import tracemalloc
import zipfile
import zlib

import pytest
import small_files as small
from small_files import (
    call,
    mapping,
    named,
    several,
    storage,
    tensor,
    text,
    torch_legacy,
    torch_zip,
    whole,
    wholes,
    zipped,
)

from minitransformer.errors import WeightsError
from minitransformer.pretrained.npz_file import NpzFile
from minitransformer.pretrained.torch_zip import TorchFile

SIX = {"0": small.SIX.tobytes()}
FORBIDDEN = ("exec", "compile", "pickle.find_class", "os.", "subprocess.", "socket.", "ctypes.", "shutil.")
ALLOWED = ("os.listdir", "os.scandir")
events: list[str] | None = None


def listen(event: str, arguments: tuple) -> None:
    if events is None or not event.startswith(FORBIDDEN) or event in ALLOWED:
        return
    if event == "exec" and arguments[0].co_filename.startswith((sys.base_prefix, "<frozen")):
        return  # the standard library imports its own parts when it first needs them
    events.append(event)


sys.addaudithook(listen)  # cannot be taken away again, so it only listens while a test wants it to


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """refused(content, message): the file is refused, in no time, with little memory, and nothing is executed."""
    monkeypatch.chdir(tmp_path)

    def check(content: bytes, message: str, reader=TorchFile) -> None:
        global events
        path = tmp_path / "weights.pt"
        path.write_bytes(content)
        start = time.process_time()
        tracemalloc.start()
        try:
            events = heard = []
            with pytest.raises(WeightsError) as error:
                dict(reader(path))
            events = None
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            events = None
        assert message in str(error.value) and "\n" not in str(error.value) and len(str(error.value)) < 700
        assert heard == [] and os.listdir(tmp_path) == ["weights.pt"], "nothing ran"
        assert peak < 30e6 + 4 * len(content) and time.process_time() - start < 20  # seconds of this process

    return check


def test_the_listener_hears():
    """Otherwise silence would prove nothing."""
    global events
    events = heard = []
    try:
        pickle.loads(b"cos\nsystem\n.")
        eval("1 + 1")
    finally:
        events = None
    assert {"pickle.find_class", "exec"} <= set(heard)


CALLS = {
    "os.system": call("os", "system", text("touch ran")),
    "posix.system": call("posix", "system", text("touch ran")),
    "builtins.eval": call("builtins", "eval", text("open('ran', 'w')")),
    "builtins.getattr": call("builtins", "getattr", text("x"), text("y")),
    "torch.load": call("torch", "load", text("other.pt")),
    "torch.jit._pickle.build_intlist": call("torch.jit._pickle", "build_intlist", b"]"),
    "collections.defaultdict": call("collections", "defaultdict"),
    "numpy.core.multiarray._reconstruct": named("numpy.core.multiarray", "_reconstruct"),
    # Python's own machine would follow the dots into other modules
    "torch._utils._rebuild_tensor_v2.__globals__": named("torch._utils", "_rebuild_tensor_v2.__globals__"),
    "torch._utils.os.system": text("torch._utils") + text("os.system") + b"\x93",
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("where", ["alone", "in a dict", "in a tensor", "in hooks", "legacy"])
def test_foreign_names(refused, name, where):
    evil = CALLS[name]
    content = {
        "alone": evil,
        "in a dict": mapping({"x": evil}),
        "in a tensor": call("torch._utils", "_rebuild_tensor_v2", evil, whole(0), wholes(6), wholes(1), b"\x89"),
        "in hooks": call("torch._utils", "_rebuild_parameter", tensor((6,), (1,)), b"\x89", evil),
    }
    if where == "legacy":
        refused(torch_legacy(mapping({"x": evil}), {}), f"its pickle asks for '{name}'")
    else:
        refused(torch_zip(content[where], SIX), f"its pickle asks for '{name}'")


def test_the_first_pickle_of_a_legacy_file_is_read_with_the_same_care(refused):
    refused(small.program(CALLS["os.system"]), "its pickle asks for 'os.system'")


REBUILD = ("torch._utils", "_rebuild_tensor_v2")
INSTRUCTIONS = {
    "INST": b"(ios\nsystem\n",
    "OBJ": b"(" + named("collections", "OrderedDict") + b"o",
    "NEWOBJ": named("collections", "OrderedDict") + b")\x81",
    "NEWOBJ_EX": named("collections", "OrderedDict") + b")}\x92",
    "EXT1": b"\x82\x01",
    "PERSID": b"Px\n",
    "BINBYTES": b"B\0\0\0\0",
    "BYTEARRAY8": b"\x96" + bytes(8),
    "NEXT_BUFFER": b"\x97",
    "LONG4": b"\x8b" + struct.pack("<i", 4) + bytes(4),
    "DUP": b"N2",
    "FROZENSET": b"(\x91",
    "UNICODE": b"Vx\n",
    "STRING": b"S'\\>'\n",
    "INT": b"I" + b"9" * 5000 + b"\n",
    "BINUNICODE8": b"\x8d" + b"\xff" * 8,
    "0xfe": b"\xfe",
}


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_other_instructions(refused, name):
    refused(torch_zip(INSTRUCTIONS[name], SIX), f"uses the instruction {name}")


@pytest.mark.parametrize(
    "content, message",
    [
        (call(*REBUILD, call(*REBUILD, call("os", "system"))), "asks for 'os.system'"),
        (call(*REBUILD), "calls torch._utils._rebuild_tensor_v2 with 0 arguments"),
        (call("collections", "OrderedDict", b"]"), "calls collections.OrderedDict with 1 arguments"),
        (call("torch", "FloatStorage"), "calls torch.FloatStorage"),
        (call("torch._utils", "_rebuild_parameter", text("x")), "str instead of TensorInfo"),
        (b")" + several() + b"R", "tuple instead of Global"),
        (named(*REBUILD) + b"]R", "list instead of tuple"),
        (tensor((6,), (1,)) + mapping({"__class__": text("x")}) + b"b", "sets attributes (BUILD)"),
        (mapping({}) + mapping({"__class__": text("x")}) + b"b", "sets attributes (BUILD)"),
        (mapping({}) + b"\x89\x89sb", "a key of type bool"),
        (b"}" + wholes(1, 2) + b"Ns", "a key of type tuple"),
        (b"}" + whole(1 << 61) + b"Ns", "a key of type int"),
        (b"}(Nu", "makes no sense"),  # a key without a value
        (b"]a", "makes no sense"),
        (b"t", "makes no sense"),
        (b"h\x07", "makes no sense"),  # never put there
        (named(*REBUILD), "'' is a Global"),
        (storage(), "'' is a Storage"),
        (text("weights"), "holds no tensors"),
        (mapping({"a.b": whole(1), "a": mapping({"b": whole(2)})}), "stands for two things"),
        (mapping({"x" * 2000: tensor((6,), (1,))}), "too long"),
        (text("x") + b"Q", "str instead of tuple"),
        (several(text("storage")) + b"Q", "makes no sense"),
        (several(text("module"), named("torch", "FloatStorage"), text("0"), text("cpu"), whole(6)) + b"Q", "storage"),
        (storage(kind="QInt8Storage"), "asks for 'torch.QInt8Storage'"),
        (storage(count=-1), "storage is not described"),
    ],
)
def test_senseless_pickles(refused, content, message):
    refused(torch_zip(content, SIX), message)


@pytest.mark.parametrize(
    "content, message",
    [
        (tensor((7,), (1,)), "reaches beyond its storage"),
        (tensor((6,), (1,), offset=1), "reaches beyond its storage"),
        (tensor((2, 3), (4, 1)), "reaches beyond its storage"),
        (tensor((2, 2), (1 << 40, 1)), "reaches beyond its storage"),
        (tensor((1 << 40,), (0,)), "reaches beyond its storage"),  # one number repeated: four terabytes
        (tensor((0, 1 << 40), (1, 1)), "impossible shape"),
        (tensor((6,), (1,), offset=-1), "impossible place"),
        (tensor((6,), (-1,), offset=5), "impossible place"),
        (tensor((-6,), (1,)), "impossible place"),
        (tensor((6,), (1, 1)), "impossible place"),
        (tensor((1,) * 9, (1,) * 9), "impossible place"),
        (tensor((1 << 62,) * 2, (0, 0)), "impossible place"),
        (tensor((6,), (1,), count=7), "missing, packed or too short"),
        (tensor((6,), (1,), kind="DoubleStorage"), "missing, packed or too short"),
        (tensor((6,), (1,), key="1"), "missing, packed or too short"),
        (tensor((6,), (1,), key="../../../etc/passwd"), "missing, packed or too short"),
        (tensor((1 << 40,), (1,), count=1 << 40), "missing, packed or too short"),
    ],
)
def test_tensors_without_a_place(refused, content, message):
    refused(torch_zip(mapping({"x": content}), SIX), message)
    if "missing" not in message:
        refused(torch_legacy(mapping({"x": content}), {"0": (6, SIX["0"])}), message)


def test_overlapping_tensors_are_windows_into_one_storage(tmp_path):
    """PyTorch writes them too; reading shares nothing."""
    (tmp_path / "x").write_bytes(torch_zip(mapping({"x": tensor((3, 2), (1, 1), offset=1)}), SIX))
    array = TorchFile(tmp_path / "x")["x"]
    array[0, 0] = 9
    assert array.tolist() == [[9, 2], [2, 3], [3, 4]]


def laughs(levels: int, copies: int, start: bytes, end: bytes) -> bytes:
    """A tree that uses each branch many times: memo entry i is `copies` times entry i - 1."""
    content = tensor((6,), (1,)) + b"q\0"
    for level in range(1, levels):
        content += start + b"".join(text(str(n)) * (end == b"u") + b"h" + bytes([level - 1]) for n in range(copies))
        content += end + b"q" + bytes([level])
    return content


@pytest.mark.parametrize("levels", [7, 60])
@pytest.mark.parametrize("start, end", [(b"(", b"t"), (b"](", b"e"), (b"}(", b"u")])
def test_a_billion_laughs(refused, levels, start, end):
    refused(torch_zip(laughs(levels, 100, start, end), SIX), "too many, too long or nested too deeply")


def test_a_dictionary_that_contains_itself(refused):
    refused(torch_zip(b"}q\0" + text("x") + b"h\0s", SIX), "nested too deeply")
    refused(torch_zip(b"]q\0h\0a", SIX), "nested too deeply")


def test_nested_thirty_thousand_times(refused):
    refused(torch_zip(b"]" * 30_000 + b"a" * 29_999, SIX), "nested too deeply")
    refused(torch_zip(b")" + b"\x85" * 30_000, SIX), "nested too deeply")
    refused(torch_zip(b"(" * 30_000, SIX), "makes no sense")


def test_a_pickle_that_only_fills_the_memory(tmp_path):
    (tmp_path / "x").write_bytes(torch_zip(b"]" * 1_000_001, SIX))
    with pytest.raises(WeightsError, match="more than 1,000,000 instructions"):
        TorchFile(tmp_path / "x")


def test_a_memo_of_a_hundred_thousand_entries_is_just_long(tmp_path):
    entries = b"".join(b"r" + struct.pack("<I", 4_294_967_295 - n) for n in range(100_000))
    (tmp_path / "x").write_bytes(torch_zip(mapping({"x": tensor((6,), (1,)) + entries}), SIX))
    assert TorchFile(tmp_path / "x").shapes == {"x": (6,)}


def test_a_string_longer_than_the_file(refused):
    refused(torch_zip(b"X\xff\xff\xff\xff", SIX), "makes no sense")
    refused(torch_zip(b"\x8c\xff", SIX), "makes no sense")


# --------------------------------------------------------------------------------------------------------- hostile zips


GOOD = small.program(mapping({"x": tensor((6,), (1,))}))
PICKLE, NUMBERS = ("a/data.pkl", GOOD), ("a/data/0", SIX["0"])


def test_the_entries_that_the_bad_ones_are_made_of_are_good(tmp_path):
    (tmp_path / "x").write_bytes(zipped(PICKLE, NUMBERS))
    assert TorchFile(tmp_path / "x")["x"].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "a\\..\\x", "C:x"])
def test_entries_with_a_way_out(refused, name):
    refused(zipped(PICKLE, NUMBERS, (name, b"x")), "holds an entry called")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_entry_that_is_there_twice(refused):
    refused(zipped(PICKLE, NUMBERS, NUMBERS), "two entries called 'a/data/0'")
    refused(zipped(PICKLE, NUMBERS, PICKLE), "two entries called 'a/data.pkl'")
    refused(zipped(PICKLE, NUMBERS, ("b/data.pkl", GOOD)), "not one of PyTorch")


def test_numbers_that_are_packed(refused):
    refused(zipped(PICKLE, NUMBERS, packing=zipfile.ZIP_DEFLATED), "missing, packed or too short")
    refused(zipped(PICKLE, NUMBERS, packing=zipfile.ZIP_BZIP2), "packed in a rare way")


def test_a_pickle_of_a_hundred_million_zeros(refused):
    bomb = zipped(("a/data.pkl", bytes(100_000_000)), NUMBERS, packing=zipfile.ZIP_DEFLATED)
    refused(bomb, "has 100,000,000 bytes, more than 16,000,000")


def patched(content: bytes, name: str, **values: int) -> bytes:
    """The central directory's record of an entry, with other numbers in it."""
    places = {"flags": (8, "<H"), "checksum": (16, "<I"), "packed": (20, "<I"), "size": (24, "<I"), "start": (42, "<I")}
    raw = bytearray(content)
    record = raw.rindex(name.encode()) - 46
    assert raw[record : record + 4] == b"PK\1\2"
    for key, value in values.items():
        place, code = places[key]
        struct.pack_into(code, raw, record + place, value)
    return bytes(raw)


def test_a_bomb_that_lies_about_its_length(refused):
    """Said to be 50 bytes, in truth a hundred million: no more than was said is unpacked."""
    zeros = bytes(100_000_000)
    bomb = zipped(("a/data.pkl", zeros), NUMBERS, packing=zipfile.ZIP_DEFLATED)
    refused(patched(bomb, "a/data.pkl", size=50), "not a sound zip archive")
    bomb = zipped(("x.npy", zeros), packing=zipfile.ZIP_DEFLATED)
    refused(bomb, "would grow", NpzFile)
    refused(patched(bomb, "x.npy", size=50), "", NpzFile)
    array = small.npz({"x": small.SIX}, packed=False)
    place = zipfile.ZipFile(io.BytesIO(array)).read("x.npy")
    bomb = zipped(("x.npy", place + zeros), packing=zipfile.ZIP_DEFLATED)
    refused(patched(bomb, "x.npy", size=len(place)), "not a sound zip archive", NpzFile)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"start": 0}, "overlaps another"),
        ({"start": 3}, "overlaps another"),
        ({"start": 1 << 31}, "in the middle of its content"),
        ({"size": 25}, "has two lengths"),
        ({"size": 1 << 30, "packed": 1 << 30}, "overlaps another"),
        ({"size": 20, "packed": 20}, "missing, packed or too short"),
        ({"checksum": 1}, "does not match its checksum"),
        ({"flags": 1}, "is encrypted"),
    ],
)
def test_a_directory_that_lies(refused, values, message):
    refused(patched(zipped(PICKLE, NUMBERS), "a/data/0", **values), message)


def test_entries_that_overlap(refused):
    """A zip in a zip: an entry whose place lies within another, the way small bombs become large."""
    outer = zipped(PICKLE, ("a/data/0", zipped(("a/data/0", SIX["0"])) + bytes(24)))
    inner = outer.index(b"PK\3\4", outer.index(b"a/data/0"))
    both = patched(zipped(PICKLE, ("a/data/1", outer[inner:]), NUMBERS), "a/data/0", start=inner)
    refused(both, "overlaps another or has no place")


def test_a_big_endian_file(refused):
    refused(zipped(PICKLE, NUMBERS, ("a/byteorder", b"big")), "big-endian")


# ------------------------------------------------------------------------------------------------------- hostile legacy


@pytest.mark.parametrize(
    "content, message",
    [
        (small.program(whole(1)), "is not a file that PyTorch wrote"),
        (b"\x1f\x8b" + bytes(50), "is not a file that PyTorch wrote"),
        (torch_legacy(mapping({"x": tensor((6,), (1,))}), {}), "has other storages"),
        (torch_legacy(mapping({"x": tensor((6,), (1,))}), {"0": (5, bytes(24))}), "its storages need"),
        (torch_legacy(mapping({"x": tensor((6,), (1,))}), {"0": (5, bytes(20))}), "is shorter than its tensors"),
        (torch_legacy(mapping({"x": tensor((6,), (1,))}), {"0": (-1, bytes(24))}), "its storages need"),
        (torch_legacy(mapping({"x": tensor((6,), (1,))}), {"0": (1 << 60, bytes(24))}), "its storages need"),
        (torch_legacy(mapping({"x": tensor((3,), (1,)), "y": tensor((3,), (1,), kind="DoubleStorage")}),
                      {"0": (6, bytes(48))}), "is shorter than its tensors"),
    ],
)  # fmt: skip
def test_legacy_storages(refused, content, message):
    refused(content, message)


def test_checksums_are_compared_piece_by_piece(tmp_path):
    """Storages of more than a piece, and of exactly one."""
    for count in (1 << 18, (1 << 18) + 1):
        raw = bytes(4 * count)
        content = mapping({"x": tensor((count,), (1,), count=count)})
        (tmp_path / "x").write_bytes(torch_zip(content, {"0": raw}))
        assert not TorchFile(tmp_path / "x")["x"].any()
        wrong = patched(torch_zip(content, {"0": raw}), "archive/data/0", checksum=zlib.crc32(raw) ^ 1)
        (tmp_path / "x").write_bytes(wrong)
        with pytest.raises(WeightsError, match="checksum"):
            TorchFile(tmp_path / "x")["x"]
