"""Weights of eight or four bits that stay so in memory: read by products, never trained.

    weight = QuantisedWeight(quantise(matrix, "Q4_1"), "Q4_1")    5 bits a weight instead of 32
    quantise_model(model)                                         every large matrix of a model, in place

A matrix is cut into blocks of 32 neighbours of a row. Each block keeps a scale (Q4_1 also its least value) in float16,
and for each weight a whole number: kernels/reference/quantised_linear.py draws it. The same bytes are in GGUF files."""

from collections.abc import Mapping
from typing import Any

import numpy as np

import autograd.functional as F
import kernels
from autograd import Tensor
from autograd.storage import Storage
from autograd.tensor import AutogradError
from kernels.reference.quantised_linear import LAYOUTS
from kernels.signature import QUANTISED, WEIGHTS_OF_A_BLOCK
from minitransformer.module import Module, Parameter


class QuantisedWeight(Parameter):
    """A matrix (F, C) of which only the bytes (F, R) are kept. Shape and size count weights, `numpy()` unpacks them;
    there is no gradient by them.

    blocks  (F, R) uint8, rows of whole blocks;   kind  Q8_0 or Q4_1"""

    __slots__ = ("kind",)

    def __init__(self, blocks: np.ndarray, kind: str):
        if kind not in QUANTISED:
            raise ValueError(f"weights cannot stay quantised as {kind!r}; kinds are {', '.join(QUANTISED)}")
        if blocks.dtype != np.uint8 or blocks.ndim != 2 or blocks.shape[1] % QUANTISED[kind]:
            raise ValueError(f"{kind}: rows of whole blocks are needed, {QUANTISED[kind]} bytes each")
        backend = kernels.current()
        self._hold(backend.asarray(blocks), backend)
        self.kind = kind

    def __reduce__(self):
        return QuantisedWeight, (self.backend.to_numpy(self.array), self.kind)

    # ------------------------------------------------------------------------------------------ as numbers

    @property
    def shape(self) -> tuple[int, ...]:
        rows, row = self.array.shape
        return rows, row // QUANTISED[self.kind] * WEIGHTS_OF_A_BLOCK

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """Of the numbers it stands for."""
        return np.dtype(np.float32)

    @property
    def data(self) -> Any:
        """All numbers, unpacked into an array of their own."""
        return self.backend.dequantise(self.array, self.kind)

    @data.setter
    def data(self, blocks: Any) -> None:
        """Bytes take the place of the bytes; numbers do not."""
        if blocks.dtype != np.uint8 or blocks.shape != self.array.shape:
            raise AutogradError(f"quantised weights ({self.kind}) take no new numbers; {UNPACK}")
        self.array = self.backend.xp.array(self.backend.asarray(blocks))
        self.storage = Storage(self.array)

    numbers = Parameter.numpy

    @property
    def requires_grad(self) -> bool:  # type: ignore[override]
        return False

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        if flag:
            raise AutogradError(f"quantised weights ({self.kind}) are not trained: they have no gradient; {UNPACK}")

    # ------------------------------------------------------------------------------------------ what layers do with it

    def __getitem__(self, rows: slice) -> "QuantisedWeight":  # type: ignore[override]
        return QuantisedWeight(self.array[rows], self.kind)

    def product(self, x: Tensor) -> Tensor:
        """x weightᵀ.   x (..., C) → (..., F)"""
        return F.quantised_linear(x, self, self.kind)

    def rows_at(self, ids: Any) -> Tensor:
        """Rows of the matrix; the others stay packed.   ids (...) → (..., C)"""
        ids = self.backend.asarray(ids)
        chosen = self.backend.dequantise(self.array[ids.reshape(-1)], self.kind)
        return Tensor.holding(chosen.reshape(*ids.shape, -1), self.backend)


UNPACK = "load the model with quantised=False to have them as float32"


def quantise(numbers: np.ndarray, kind: str) -> np.ndarray:
    """Numbers (F, C) rounded to the nearest that the kind has: bytes (F, R)."""
    blocks = np.asarray(numbers, np.float32).reshape(len(numbers), -1, WEIGHTS_OF_A_BLOCK)
    packed = np.zeros(blocks.shape[:2], LAYOUTS[kind])
    least = np.zeros_like(blocks[..., :1]) if kind == "Q8_0" else blocks.min(axis=-1, keepdims=True)
    largest, steps = (np.abs(blocks), 127) if kind == "Q8_0" else (blocks - least, 15)
    scale = largest.max(axis=-1, keepdims=True) / np.float32(steps)
    with np.errstate(divide="ignore", invalid="ignore"):
        q = np.where(scale == 0, 0, (blocks - least) * (1 / scale))
    packed["scale"] = scale[..., 0]
    if kind == "Q8_0":
        packed["q"] = np.trunc(q + np.copysign(np.float32(0.5), q))
    else:
        q = np.trunc(q + np.float32(0.5)).clip(0, 15).astype(np.uint8)
        packed["least"], packed["halves"] = least[..., 0], q[..., :16] | q[..., 16:] << 4
    return packed.view(np.uint8)


def quantise_model(model: Module, kind: str = "Q4_1", words: str = "Q8_0") -> None:
    """Quantises every matrix of a model that its layers multiply with, in place; tables of words, which are also heads
    where they are tied, as `words`. What has rows that are no multiple of 32, norms and biases stay as they are."""
    chosen = {}
    for name, parameter in model.named_parameters():
        is_table = name.endswith("embedding.weight")
        matrix = parameter.ndim == 2 and "positions" not in name and parameter.shape[1] % WEIGHTS_OF_A_BLOCK == 0
        if matrix and not isinstance(parameter, QuantisedWeight):
            which = words if is_table or name.startswith("head.") else kind
            chosen[name] = QuantisedWeight(quantise(parameter.numpy(), which), which)
    put(model, chosen)


def put(model: Module, weights: Mapping[str, QuantisedWeight]) -> None:
    """Sets quantised weights in place of the parameters of these names, wherever a tied one is used."""
    former = {id(parameter): weights[name] for name, parameter in model.named_parameters() if name in weights}
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if id(value) in former:
                setattr(module, name, former[id(value)])
