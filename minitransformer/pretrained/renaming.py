"""Foreign names for our weights, in one table a family that is read both ways: file to model, model to file.

    table["base.encoder.layers.0.self_attn.in_proj_weight"] = [
        Piece("layers.0.self_attn.q_proj.weight"), Piece("layers.0.self_attn.k_proj.weight"), ...
    ]

Several pieces lie one below the other in our array. Where a file keeps a piece in another form (a matrix transposed,
rows in another order), the piece says how to read and to write it. Nothing is loaded by half: a missing or surplus
array, or one of another shape, is an error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.signature import QUANTISED
from minitransformer.errors import WeightsError
from minitransformer.models.base import Model
from minitransformer.pretrained.gguf import GgufFile
from minitransformer.pretrained.weight_file import WeightFile
from minitransformer.quantised import QuantisedWeight, put

Array = np.ndarray
MIXED = "the weights and their description belong to different models: fetch or copy both again"


def unchanged(array: Array) -> Array:
    return array


@dataclass(frozen=True)
class Piece:
    """A foreign array: its name, how to bring it into our form, and back."""

    name: str
    read: Callable[[Array], Array] = unchanged
    write: Callable[[Array], Array] = unchanged
    rows: int | None = None  # of our array that it fills; None: all that are left


@dataclass(frozen=True)
class Zeros:
    """Rows of ours that the file does not have, since they are zero (a bias that a family leaves out)."""

    rows: int


def transposed(name: str) -> Piece:
    """A matrix written as (in, out)."""
    return Piece(name, np.transpose, np.transpose)


Table = Mapping[str, "list[Piece | Zeros]"]


def take(
    model: Model, file: WeightFile, table: Table, *, prefix: str = "", ignored: str = "(?!)", quantised: bool = False
) -> Model:
    """Fills a model with the arrays of a file.

    prefix     stands before the names of the file
    ignored    an expression for names that hold no weights of this model
    quantised  weights stay quantised where the file has them so, in a kind that can be multiplied with"""
    wanted = {prefix + piece.name for pieces in table.values() for piece in pieces if isinstance(piece, Piece)}
    missing = sorted(name for name in wanted if name not in file)
    surplus = sorted(name for name in file if name not in wanted and not re.fullmatch(ignored, name))
    kind = f"a {type(model).__name__} of the sizes that it names"
    for names, found in ((missing, "too few"), (surplus, "too many")):
        if names:
            listed = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
            count = f"{len(names)} array{'s' if len(names) > 1 else ''}"
            advice = "choose the files of one model, as they were published"
            raise WeightsError(file.path, f"has {count} {found} for {kind}: {listed}", advice)
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    state, kept = {}, {}
    for ours, pieces in table.items():
        packed = _as_it_is(file, prefix, pieces, shapes[ours]) if quantised else None
        if packed is not None:
            kept[ours] = packed
            continue
        left, parts = shapes[ours][0], []
        for piece in pieces:
            rows = left if piece.rows is None else piece.rows
            parts.append(_part(file, prefix, piece, (rows, *shapes[ours][1:])))
            left -= rows
        state[ours] = parts[0] if len(parts) == 1 else np.concatenate(parts)
    put(model, kept)
    try:
        model.load_state_dict(state)
    except ValueError as error:
        raise WeightsError(file.path, str(error), MIXED) from None
    return model.eval()


def _as_it_is(file: WeightFile, prefix: str, pieces: list, shape: tuple[int, ...]) -> QuantisedWeight | None:
    """The pieces one below the other, still quantised; None where they are not all of one kind, or do not fit."""
    names = [prefix + piece.name for piece in pieces if isinstance(piece, Piece) and piece.read is unchanged]
    kinds = {file.kinds[name] for name in names}
    rows = sum(file.shapes[name][0] for name in names if len(file.shapes[name]) == 2)
    fits = len(names) == len(pieces) and (rows, file.shapes[names[-1]][-1]) == shape
    if not isinstance(file, GgufFile) or not fits or len(kinds) != 1 or not kinds <= set(QUANTISED):
        return None
    parts = [file.raw(name).blocks for name in names]
    widths = {part.shape[1:] for part in parts}
    return QuantisedWeight(parts[0] if len(parts) == 1 else np.concatenate(parts), *kinds) if len(widths) == 1 else None


def _part(file: WeightFile, prefix: str, piece: Piece | Zeros, shape: tuple[int, ...]) -> Array:
    """The array of a piece in our form; `shape` is what there is room for."""
    if isinstance(piece, Zeros):
        return np.zeros(shape, np.float32)
    name = prefix + piece.name
    try:
        array = piece.read(file[name])
    except (ValueError, IndexError) as error:  # it has another number of axes, or rows that heads cannot share
        if isinstance(error, WeightsError):
            raise
        array = None
    if array is None or array.shape != shape:
        stored = " x ".join(map(str, file.shapes[name])) or "a single number"
        raise WeightsError(file.path, f"{name} ({stored}) does not fit the sizes of this model", MIXED)
    return array


def give(model: Model, table: Table, *, prefix: str = "") -> dict[str, Array]:
    """The arrays of a model under their foreign names."""
    state: dict[str, Any] = model.state_dict()
    theirs = {}
    for ours, pieces in table.items():
        start, array = 0, state[ours]
        for piece in pieces:
            end = len(array) if piece.rows is None else start + piece.rows
            if isinstance(piece, Piece):
                theirs[prefix + piece.name] = np.ascontiguousarray(piece.write(array[start:end]))
            elif array[start:end].any():
                raise ValueError(
                    f"{ours}: rows {start} to {end - 1} are not zero, and there is no place for them there"
                )
            start = end
    return theirs
