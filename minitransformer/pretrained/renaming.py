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

from minitransformer.errors import WeightsError
from minitransformer.models.base import Model
from minitransformer.pretrained.weight_file import WeightFile

Array = np.ndarray


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


def take(model: Model, file: WeightFile, table: Table, *, prefix: str = "", ignored: str = "(?!)") -> Model:
    """Fills a model with the arrays of a file.

    prefix   stands before the names of the file
    ignored  an expression for names that hold no weights of this model"""
    wanted = {prefix + piece.name for pieces in table.values() for piece in pieces if isinstance(piece, Piece)}
    missing = sorted(name for name in wanted if name not in file)
    surplus = sorted(name for name in file if name not in wanted and not re.fullmatch(ignored, name))
    kind = f"a {type(model).__name__} of the sizes that it names"
    for names, found in (
        (missing, f"lacks {len(missing)} arrays of {kind}"),
        (surplus, f"has {len(surplus)} arrays too many for {kind}"),
    ):
        if names:
            listed = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
            raise WeightsError(file.path, f"{found}: {listed}", "choose the files of one model, as they were published")
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    state = {}
    for ours, pieces in table.items():
        parts = [_part(file, prefix, piece, shapes[ours]) for piece in pieces]
        state[ours] = parts[0] if len(parts) == 1 else np.concatenate(parts)
    try:
        model.load_state_dict(state)
    except ValueError as error:
        raise WeightsError(file.path, str(error), "the file and its description belong to different models") from None
    return model.eval()


def _part(file: WeightFile, prefix: str, piece: Piece | Zeros, shape: tuple[int, ...]) -> Array:
    if isinstance(piece, Zeros):
        return np.zeros((piece.rows, *shape[1:]), np.float32)
    array = piece.read(file[prefix + piece.name])
    if array.ndim != len(shape):
        found = f"{prefix}{piece.name} has {array.ndim} axes, expected {len(shape)}"
        raise WeightsError(file.path, found, "the file and its description belong to different models")
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
