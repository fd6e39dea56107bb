"""Any file of weights, or a folder that holds one, by what it is rather than by what it is called."""

from __future__ import annotations

import os

from minitransformer.errors import Path, WeightsError, system_error
from minitransformer.pretrained.gguf import GgufFile
from minitransformer.pretrained.npz_file import NpzFile
from minitransformer.pretrained.safetensors_file import INDEX, SafetensorsFile, ShardedFile
from minitransformer.pretrained.torch_zip import TorchFile
from minitransformer.pretrained.weight_file import Source, WeightFile

USUAL = ("model.safetensors", INDEX, "pytorch_model.bin")
ENDINGS = (".gguf", ".npz", ".pt", ".pth", ".safetensors")


def open_weights(path: Path) -> WeightFile:
    """The named arrays in a file; of a folder, in its model.safetensors, or the only file of weights that it has."""
    path = os.fspath(path)
    if os.path.isdir(path):
        path = _weights_in(path)
    if path.endswith(".json"):
        return ShardedFile(path)
    source = Source(path)
    first = source.read(0, min(8, source.size)).tobytes()
    if first.startswith(b"GGUF"):
        return GgufFile(path)
    if first.startswith(b"PK\3\4"):
        return NpzFile(path) if path.endswith(".npz") else TorchFile(path)
    if first.startswith(b"\x80") and not path.endswith(".safetensors"):  # safetensors may begin with any byte
        return TorchFile(path)
    return SafetensorsFile(path)


def _weights_in(folder: str) -> str:
    try:
        files = sorted(os.listdir(folder))
    except OSError as error:
        raise system_error(folder, "cannot be read", error, WeightsError) from None
    for name in USUAL:
        if name in files:
            return os.path.join(folder, name)
    found = [name for name in files if name.endswith(ENDINGS)]
    named = f"one of {', '.join(USUAL)} or a single file that ends in {', '.join(ENDINGS)}"
    if len(found) != 1:
        raise WeightsError(folder, f"holds {len(found)} files of weights", f"expected {named}; name the file itself")
    return os.path.join(folder, found[0])
