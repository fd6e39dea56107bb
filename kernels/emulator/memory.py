"""The arrays of a launch as pieces of memory: arrays that overlap are one piece, and stay so when they are moved."""

import ctypes
from typing import NamedTuple

import numpy as np

from kernels.cuda.launcher import Launch


class Piece(NamedTuple):
    """Memory from one address to another that the launch may use."""

    begin: int
    end: int
    element_bytes: int
    writable: bool  # at least one array in it is not const
    name: str  # of its arrays, as the kernel calls them

    def contents(self) -> bytes:
        return ctypes.string_at(self.begin, self.end - self.begin)


def pieces_of(launch: Launch) -> list[Piece]:
    """In order of address."""
    pieces: list[Piece] = []
    found = [
        Piece(value.ctypes.data, value.ctypes.data + value.nbytes, value.itemsize, not parameter.const, parameter.name)
        for parameter, value in zip(launch.parameters, launch.values, strict=True)
        if isinstance(value, np.ndarray) and value.nbytes
    ]
    for piece in sorted(found):
        if pieces and piece.begin < pieces[-1].end:
            last = pieces[-1]
            both, names = last.writable or piece.writable, f"{last.name}, {piece.name}"
            pieces[-1] = Piece(last.begin, max(last.end, piece.end), last.element_bytes, both, names)
        else:
            pieces.append(piece)
    return pieces


def piece_with(pieces: list[Piece], array: np.ndarray) -> tuple[int, int]:
    """The number of the piece that holds an array, and where in it the array begins."""
    for number, piece in enumerate(pieces):
        if piece.begin <= array.ctypes.data < piece.end:
            return number, array.ctypes.data - piece.begin
    raise LookupError("the array is in none of the pieces")
