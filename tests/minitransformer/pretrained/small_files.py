"""Small files of every format, written by hand: valid ones, and the parts to make bad ones of."""

import io
import json
import struct
import zipfile

import numpy as np

# ---------------------------------------------------------------------------------------------- pickles, by instruction


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def whole(value: int) -> bytes:
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def several(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def wholes(*values: int) -> bytes:
    return several(*map(whole, values))


def named(module: str, name: str) -> bytes:
    return b"c" + f"{module}\n{name}\n".encode()


def call(module: str, name: str, *arguments: bytes) -> bytes:
    return named(module, name) + several(*arguments) + b"R"


def storage(key="0", count=6, kind="FloatStorage") -> bytes:
    return several(text("storage"), named("torch", kind), text(key), text("cpu"), whole(count)) + b"Q"


def tensor(shape, strides, offset=0, **of_storage) -> bytes:
    hooks = call("collections", "OrderedDict")
    parts = storage(**of_storage), whole(offset), wholes(*shape), wholes(*strides), b"\x89", hooks
    return call("torch._utils", "_rebuild_tensor_v2", *parts)


def mapping(items: dict[str, bytes], start=b"}") -> bytes:
    return start + b"(" + b"".join(text(key) + value for key, value in items.items()) + b"u"


def program(value: bytes) -> bytes:
    return b"\x80\x02" + value + b"."


# ---------------------------------------------------------------------------------------------------------- whole files


def zipped(*entries: tuple[str, bytes], packing=zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return file.getvalue()


def torch_zip(content: bytes, storages: dict[str, bytes]) -> bytes:
    numbers = [(f"archive/data/{key}", raw) for key, raw in storages.items()]
    return zipped(("archive/data.pkl", program(content)), ("archive/byteorder", b"little"), *numbers)


def torch_legacy(content: bytes, storages: dict[str, tuple[int, bytes]]) -> bytes:
    keys = b"](" + b"".join(text(key) for key in storages) + b"e"
    pickles = whole(0x1950A86A20F9469CFC6C), whole(1001), mapping({"protocol_version": whole(1001)}), content, keys
    numbers = b"".join(struct.pack("<q", count) + raw for count, raw in storages.values())
    return b"".join(map(program, pickles)) + numbers


def safetensors(header: dict | bytes, numbers: bytes) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + numbers


def npz(arrays: dict[str, np.ndarray], packed: bool) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(file, **arrays)
    return file.getvalue()


def gguf_string(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def gguf_entry(key: str, kind: int, value: bytes) -> bytes:
    return gguf_string(key) + struct.pack("<I", kind) + value


def gguf_array(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    """`shape` in NumPy's order."""
    return gguf_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], kind, offset)


def gguf(entries: list[bytes], arrays: list[bytes], numbers: bytes, version=3, alignment=32) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, len(arrays), len(entries)) + b"".join(entries + arrays)
    return head + bytes(-len(head) % alignment) + numbers


# -------------------------------------------------------------------------------------------------- one of every format

SIX = np.arange(6, dtype="<f4")


def good_torch() -> bytes:
    state = {
        "a.weight": tensor((2, 3), (3, 1)),
        "b.weight": tensor((3, 2), (1, 3), key="0"),  # transposed, the same storage
        "c": tensor((2,), (1,), offset=2, key="1", count=4, kind="HalfStorage"),
        "d": call("torch._utils", "_rebuild_parameter", tensor((), (), key="2", count=1, kind="LongStorage"), b"\x88"),
    }
    both = {"dims": mapping({"n_mels": whole(80), "name": text("tiny")}), "model": mapping(state)}
    halves, seven = np.array([0, 1, 2, 3], "<f2").tobytes(), np.array(7, "<i8").tobytes()
    return torch_zip(mapping(both), {"0": SIX.tobytes(), "1": halves, "2": seven, "3": b"unused"})


def good_legacy() -> bytes:
    state = {"a.weight": tensor((2, 3), (3, 1)), "c": tensor((4,), (1,), key="1", count=4, kind="BFloat16Storage")}
    return torch_legacy(
        mapping(state, call("collections", "OrderedDict")), {"0": (6, SIX.tobytes()), "1": (4, b"\x80\x3f" * 4)}
    )


def good_safetensors() -> bytes:
    header = {
        "__metadata__": {"format": "pt"},
        "a.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
        "c": {"dtype": "I64", "shape": [], "data_offsets": [32, 40]},
        "empty": {"dtype": "F16", "shape": [0, 3], "data_offsets": [40, 40]},
    }
    return safetensors(header, SIX.tobytes() + b"\x80\x3f" * 4 + struct.pack("<q", -7))


def npz_arrays() -> dict[str, np.ndarray]:
    return {
        "a.weight": SIX.reshape(2, 3), "by_columns": np.asfortranarray(SIX.reshape(2, 3)), "half": SIX.astype("<f2"),
        "notes": np.array('{"alphabet": "ab"}'), "d": np.array(7, "<i8"), "flags": np.array([True, False]),
    }  # fmt: skip


def good_gguf() -> bytes:
    values = [
        gguf_entry("general.architecture", 8, gguf_string("llama")),
        gguf_entry("layers", 4, struct.pack("<I", 30)),
        gguf_entry("eps", 6, struct.pack("<f", 0.5)),
        gguf_entry("tokens", 9, struct.pack("<IQ", 8, 3) + b"".join(map(gguf_string, ("a", "Ġb", "")))),
        gguf_entry("scores", 9, struct.pack("<IQ2f", 6, 2, 0.25, -1.0)),
        gguf_entry("nested", 9, struct.pack("<IQ", 9, 1) + struct.pack("<IQ2h", 3, 2, 5, -6)),
    ]
    arrays = [gguf_array("a.weight", (2, 3), 0, 0), gguf_array("q", (2, 64), 3, 32), gguf_array("h", (3,), 1, 128)]
    block = np.array([2.0, -1.0], "<f2").tobytes() + bytes(range(16))
    return gguf(values, arrays, SIX.tobytes() + bytes(8) + block * 4 + bytes(16) + np.ones(3, "<f2").tobytes())
