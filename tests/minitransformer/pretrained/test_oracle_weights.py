"""Our readers against the programs that define the formats: PyTorch and llama.cpp's `gguf`. Equal bit for bit."""

import numpy as np
import pytest

from minitransformer.errors import WeightsError
from minitransformer.pretrained.blocks import LAYOUTS, dequantise
from minitransformer.pretrained.gguf import GgufFile
from minitransformer.pretrained.npz_file import NpzFile
from minitransformer.pretrained.safetensors_file import SafetensorsFile
from minitransformer.pretrained.torch_zip import TorchFile

pytestmark = pytest.mark.oracle


def equal(ours: np.ndarray, theirs) -> None:
    """`theirs` is a torch tensor; 16-bit floats are compared as float32, which holds them exactly."""
    import torch

    if theirs.dtype in (torch.float16, torch.bfloat16):
        theirs = theirs.float()
    theirs = theirs.detach().contiguous().numpy()
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("as_zip", [True, False])
def test_what_pytorch_writes(tmp_path, as_zip, protocol):
    import torch

    torch.manual_seed(0)
    kinds = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
             torch.int8, torch.uint8, torch.bool]  # fmt: skip
    state = {str(kind): (100 * torch.randn(5, 7)).to(kind) for kind in kinds}
    base = torch.randn(4, 6, 5)
    state |= {
        "whole": base, "turned": base.permute(2, 0, 1), "piece": base[1:3, ::2, 3:], "last": base[3, 5, 4],
        "one": torch.tensor(2.5), "empty": torch.zeros(0, 3), "parameter": torch.nn.Parameter(torch.randn(3)),
    }  # fmt: skip
    torch.save(state, tmp_path / "x", pickle_protocol=protocol, _use_new_zipfile_serialization=as_zip)
    file = TorchFile(tmp_path / "x")
    assert list(file) == list(state)
    for name, tensor in state.items():
        equal(file[name], tensor)


@pytest.mark.parametrize("as_zip", [True, False])
def test_a_checkpoint_with_optimizer(tmp_path, as_zip):
    """Version numbers hang on a module's state_dict; an optimizer has whole numbers as names, and None among them."""
    import torch

    model = torch.nn.TransformerEncoderLayer(8, 2, 16)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(3, 1, 8)).sum().backward()
    optimizer.step()
    everything = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 7, "note": "é"}
    torch.save(everything, tmp_path / "x", _use_new_zipfile_serialization=as_zip)
    file = TorchFile(tmp_path / "x")
    for name, tensor in everything["model"].items():
        equal(file[f"model.{name}"], tensor)
    equal(file["optimizer.state.3.exp_avg"], optimizer.state_dict()["state"][3]["exp_avg"])
    assert file.settings["step"] == 7 and file.settings["note"] == "é"
    assert file.settings["optimizer.param_groups.0.lr"] == 1e-3


def test_what_pytorch_writes_and_we_do_not_read(tmp_path):
    import torch

    for value, message in [
        (torch.nn.Linear(2, 2), "asks for 'torch.nn.modules.linear.Linear'"),
        ({"x": torch.zeros(2), "dtype": torch.float32}, "asks for 'torch.float32'"),
        ({"x": torch.zeros(2).to_sparse()}, "asks for 'torch._utils._rebuild_sparse_tensor'"),
        ({"x": torch.zeros(1).expand(10**12)}, "reaches beyond its storage"),
    ]:
        torch.save(value, tmp_path / "x")
        with pytest.raises(WeightsError, match=message):
            TorchFile(tmp_path / "x")


@pytest.mark.parametrize("kind", LAYOUTS)
def test_every_kind_of_block(rng, kind):
    """Random bytes: scales that are infinite, subnormal or not a number among them."""
    import gguf

    blocks = rng.integers(0, 256, (20_000, LAYOUTS[kind].itemsize), np.uint8)
    with np.errstate(all="ignore"):
        theirs = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[kind])
        ours = dequantise(blocks, kind)
    assert ours.dtype == np.float32 and ours.tobytes() == theirs.tobytes()


def test_what_gguf_writes(tmp_path, rng):
    import gguf

    writer = gguf.GGUFWriter(tmp_path / "x", "llama")
    entries = {"u8": 200, "i8": -100, "u16": 60_000, "i16": -30_000, "u32": 1 << 31, "i32": -5, "u64": 1 << 63}
    adders = {"u8": "uint8", "i8": "int8", "u16": "uint16", "i16": "int16", "u32": "uint32", "i32": "int32"}
    for key, value in entries.items():
        getattr(writer, f"add_{(adders | {'u64': 'uint64'})[key]}")(key, value)
    writer.add_int64("i64", -(1 << 62))
    writer.add_float32("f32", 0.5)
    writer.add_float64("f64", 0.1)
    writer.add_bool("yes", True)
    writer.add_string("name", "é\n")
    writer.add_array("tokens", ["<s>", "Ġthe", "é"])
    writer.add_array("types", [1, 2, 3])
    kinds, arrays = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "BF16", "F16"], {}
    for kind in kinds:
        number = gguf.GGMLQuantizationType[kind]
        raw = gguf.quants.quantize(rng.normal(size=(3, 64)).astype(np.float32), number)
        arrays[kind] = gguf.quants.dequantize(raw, number)
        writer.add_tensor(kind, raw, raw_dtype=number)
    arrays["F32"] = rng.normal(size=(2, 3, 5)).astype(np.float32)
    writer.add_tensor("F32", arrays["F32"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = GgufFile(tmp_path / "x")
    expected = entries | {"i64": -(1 << 62), "f32": 0.5, "f64": 0.1, "yes": True, "name": "é\n"}
    assert {key: file.metadata[key] for key in expected} == expected
    assert file.metadata["tokens"] == ["<s>", "Ġthe", "é"] and file.metadata["types"].tolist() == [1, 2, 3]
    for name, array in arrays.items():
        assert file[name].shape == array.shape and file[name].tobytes() == array.tobytes()


# --------------------------------------------------------------------------------------------------------- real weights

REAL = [
    ("whisper", "tiny.en.pt", 167),
    ("mgm", "pytorch_model.bin", 101),
    ("rxnfp", "pytorch_model.bin", 207),
]


@pytest.mark.models
@pytest.mark.parametrize("name, file, count", REAL)
def test_real_torch_files(model_folder, name, file, count):
    import torch

    path = model_folder(name) / file
    file, theirs = TorchFile(path), torch.load(path, weights_only=True, map_location="cpu")
    if "dims" in theirs:
        assert file.settings == {f"dims.{name}": value for name, value in theirs["dims"].items()}
        theirs = {f"model_state_dict.{name}": tensor for name, tensor in theirs["model_state_dict"].items()}
    assert list(file) == list(theirs) and len(file) == count
    for name, tensor in theirs.items():
        equal(file[name], tensor)


@pytest.mark.models
def test_real_safetensors(model_folder):
    from safetensors.numpy import load_file

    path = model_folder("mathformer") / "addformer" / "model.safetensors"
    file, theirs = SafetensorsFile(path), load_file(path)
    assert file.keys() == theirs.keys()
    for name, array in theirs.items():
        assert file[name].shape == array.shape and file[name].tobytes() == array.tobytes()


@pytest.mark.models
def test_real_npz(model_folder):
    path = model_folder("bart-g2p") / "oov_bart_en_us.npz"
    file = NpzFile(path)
    with np.load(path, allow_pickle=False) as theirs:
        assert file.keys() == set(theirs.files)
        for name in theirs.files:
            assert file[name].shape == theirs[name].shape and file[name].tobytes() == theirs[name].tobytes()


@pytest.mark.models
def test_real_gguf(model_folder):
    import gguf

    path = model_folder("smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"
    file, theirs = GgufFile(path), gguf.GGUFReader(path)
    for key, field in theirs.fields.items():
        if not key.startswith("GGUF."):
            assert np.array_equal(file.metadata[key], field.contents())
    assert list(file) == [tensor.name for tensor in theirs.tensors]
    for tensor in theirs.tensors:
        assert file[tensor.name].tobytes() == gguf.quants.dequantize(tensor.data, tensor.tensor_type).tobytes()
        if file.kinds[tensor.name].startswith("Q"):
            np.testing.assert_array_equal(file.raw(tensor.name).blocks, tensor.data)
