"""Weights of four to eight bits: blocks of small whole numbers that share a scale.

A row is cut into blocks of 32 weights. In each, w ≈ scale · q, where q is a whole number of a few bits and the scale a
float16; kinds that end in _1 also have a least value, w ≈ scale · q + least. Q4_1, for example, spends 20 bytes on 32
weights, 5 bits on each instead of 32:

    ┌─────────┬─────────┬──────────┬──────────┬─────┬──────────┐
    │ scale   │ least   │ q16   q0 │ q17   q1 │ ... │ q31  q15 │     a byte holds two q of 4 bits: the lower half one of
    │ 2 bytes │ 2 bytes │  1 byte  │          │     │          │     the first sixteen, the upper half one of the last
    └─────────┴─────────┴──────────┴──────────┴─────┴──────────┘

The dtypes below are these drawings, one for each kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

LAYOUTS = {
    "Q8_0": np.dtype([("scale", "<f2"), ("q", "|i1", 32)]),
    "Q4_0": np.dtype([("scale", "<f2"), ("halves", "|u1", 16)]),
    "Q4_1": np.dtype([("scale", "<f2"), ("least", "<f2"), ("halves", "|u1", 16)]),
    "Q5_0": np.dtype([("scale", "<f2"), ("fifth", "|u1", 4), ("halves", "|u1", 16)]),
    "Q5_1": np.dtype([("scale", "<f2"), ("least", "<f2"), ("fifth", "|u1", 4), ("halves", "|u1", 16)]),
    # 256 weights in 16 groups, each with a scale of its own: w = (scale · scales[group]) · q
    "Q6_K": np.dtype([("halves", "|u1", (2, 64)), ("upper", "|u1", (2, 32)), ("scales", "|i1", 16), ("scale", "<f2")]),
}
WEIGHTS = {kind: 256 if kind == "Q6_K" else 32 for kind in LAYOUTS}  # in one block


@dataclass(frozen=True)
class Quantised:
    """A matrix as it lies in the file: its last axis is cut into blocks."""

    kind: str
    shape: tuple[int, ...]  # in weights
    blocks: np.ndarray  # bytes, (..., bytes of a row): all axes but the last as in `shape`

    def numbers(self) -> np.ndarray:
        return dequantise(self.blocks, self.kind).reshape(self.shape)


def dequantise(blocks: np.ndarray, kind: str) -> np.ndarray:
    """Bytes of whole blocks → float32, (blocks, weights of a block)."""
    return _READERS[kind](np.ascontiguousarray(blocks).reshape(-1).view(LAYOUTS[kind]))


def _float(field: np.ndarray) -> np.ndarray:
    """One number for each block, float16, as a column of float32."""
    return field.astype(np.float32)[:, None]


def _halves(packed: np.ndarray) -> np.ndarray:
    """Lower halves of all bytes, then their upper halves."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1)


def _five(b: np.ndarray) -> np.ndarray:
    """Four bits from the halves; bit i of `fifth` is the highest bit of q_i."""
    return _halves(b["halves"]) | np.unpackbits(b["fifth"], axis=-1, bitorder="little") << 4


def _q8_0(b: np.ndarray) -> np.ndarray:
    return _float(b["scale"]) * b["q"].astype(np.float32)


def _q4_0(b: np.ndarray) -> np.ndarray:
    return _float(b["scale"]) * (_halves(b["halves"]).astype(np.float32) - 8)


def _q4_1(b: np.ndarray) -> np.ndarray:
    return _float(b["scale"]) * _halves(b["halves"]).astype(np.float32) + _float(b["least"])


def _q5_0(b: np.ndarray) -> np.ndarray:
    return _float(b["scale"]) * (_five(b).astype(np.float32) - 16)


def _q5_1(b: np.ndarray) -> np.ndarray:
    return _float(b["scale"]) * _five(b).astype(np.float32) + _float(b["least"])


def _q6_k(b: np.ndarray) -> np.ndarray:
    """Each half of a block: 128 weights, their lower four bits in 64 bytes, their upper two in 32."""
    upper = np.concatenate([b["upper"] >> shift & 3 for shift in (0, 2, 4, 6)], axis=-1)  # (blocks, 2, 128)
    q = (_halves(b["halves"]) | upper << 4).astype(np.float32) - 32
    scales = _float(b["scale"]) * b["scales"].astype(np.float32)  # (blocks, 16)
    return (scales[:, :, None] * q.reshape(-1, 16, 16)).reshape(-1, 256)


_READERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Q8_0": _q8_0, "Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1, "Q6_K": _q6_k,
}  # fmt: skip
