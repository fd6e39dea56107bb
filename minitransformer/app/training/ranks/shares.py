"""Which rank looks after which numbers of a model.

All P numbers of the weights lie in one row, the last array first, because backward finishes that one first. The row is
cut into buckets, which are sent one after the other, and every bucket into a part for each rank:

    bucket 0              bucket 1              ...
    rank 0 | 1 | 2 | 3    rank 0 | 1 | 2 | 3

A rank finishes the gradient of its parts, keeps their optimizer state (which is thus divided, as in ZeRO-1), and tells
the others the new weights. The cuts may go through an array. They fall between blocks of 256 numbers, because the
squares of a block are added by one rank, so that the norm does not depend on the number of ranks; the shares of two
ranks differ by one block at most."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograd import Tensor
from autograd.scaled_gradient import ScaledGradient
from minitransformer.app.ranks import Alone
from minitransformer.errors import TrainingError
from minitransformer.optim import Optimizer

BLOCK = 256  # numbers
_CHUNK = 2**20  # numbers that are squared at a time; a multiple of BLOCK


@dataclass(frozen=True)
class Piece:
    """Numbers of one array that belong to one rank: parameters[array], flat, from `first` up to `last`. They stand from
    `start` on among all numbers of that rank."""

    array: int
    first: int
    last: int
    start: int

    def of(self, numbers: Any) -> Any:
        """Among all numbers of the rank."""
        return numbers[self.start : self.start + self.last - self.first]


class Shares:
    """The numbers of a model, divided among ranks."""

    message = 2**16  # numbers from one rank to another at a time: enough that the start of a message costs little

    def __init__(self, parameters: Sequence[Tensor], ranks: int):
        self.parameters = [*reversed(parameters)]
        self.ends = np.cumsum([0, *(parameter.size for parameter in self.parameters)])
        self.size = int(self.ends[-1])
        length = self.message * ranks if ranks > 1 else self.size  # one rank has nothing to send, and no reason to cut
        self.buckets = [
            _parts(first, min(first + length, self.size), ranks) for first in range(0, self.size, max(1, length))
        ]
        self.pieces = [[*self._pieces(rank)] for rank in range(ranks)]

    def numbers(self, rank: int) -> int:
        """How many are a rank's own."""
        return sum(bucket[rank].stop - bucket[rank].start for bucket in self.buckets)

    def _pieces(self, rank: int) -> Iterator[Piece]:
        start = 0
        for bucket in self.buckets:
            first, last = bucket[rank].start, bucket[rank].stop
            while first < last:
                array = int(np.searchsorted(self.ends, first, side="right")) - 1
                end = min(last, int(self.ends[array + 1]))
                yield Piece(array, first - int(self.ends[array]), end - int(self.ends[array]), start)
                start, first = start + end - first, end

    def view(self, piece: Piece, array: Any) -> Any:
        """The piece of an array that is shaped as its weights; in that shape, where it is the whole array."""
        if piece.last - piece.first == self.parameters[piece.array].size:
            return array
        return array.reshape(-1)[piece.first : piece.last]

    def weights(self, piece: Piece) -> Any:
        """A view of the weights, to be written to."""
        parameter = self.parameters[piece.array]
        if not parameter.array.flags.c_contiguous:  # no view of a part of it would lie in one row
            parameter.data = parameter.backend.xp.ascontiguousarray(parameter.array)
        return self.view(piece, parameter.array)

    def sum_of_squares(self, own: np.ndarray, ranks: Alone) -> float:
        """Of all numbers of all ranks: the same bits for any number of these. own (numbers of this rank)"""
        blocks = np.zeros(-(-self.size // BLOCK))
        for rank, sums in enumerate(ranks.gathered(_block_sums(own))):
            start = 0
            for bucket in self.buckets:
                first, last = bucket[rank].start // BLOCK, -(-bucket[rank].stop // BLOCK)
                blocks[first:last] = sums[start : start + last - first]
                start += last - first
        return float(blocks.sum())


def _parts(first: int, last: int, ranks: int) -> list[slice]:
    """Of the bucket from `first` up to `last`: whole blocks for each rank, as equal as can be."""
    blocks = -(-(last - first) // BLOCK)
    ends = [min(last, first + blocks * rank // ranks * BLOCK) for rank in range(ranks + 1)]
    return [slice(a, b) for a, b in zip(ends[:-1], ends[1:], strict=True)]


def _block_sums(numbers: np.ndarray) -> np.ndarray:
    """Of the squares, in double precision.   (n) → (n / BLOCK)"""
    sums = [np.zeros(0)]
    for first in range(0, len(numbers), _CHUNK):
        squares = np.square(numbers[first : first + _CHUNK], dtype=np.float64)
        sums.append(np.add.reduceat(squares, np.arange(0, len(squares), BLOCK)))
    return np.concatenate(sums)


class OwnPart:
    """The optimizer of one rank's pieces. The whole optimizer knows how often each array was updated; the arrays that
    it keeps (Adam's m and v) lie here in pieces, and are put together only to be saved."""

    def __init__(self, optimizer: Optimizer, shares: Shares, ranks: Alone):
        if ranks.size > 1 and not optimizer.by_number:
            raise TrainingError(
                f"{type(optimizer).__name__} needs whole arrays, and {ranks.size} ranks divide them: train on one rank"
            )
        self.whole, self.shares, self.ranks = optimizer, shares, ranks
        names = {id(parameter): name for name, parameter in optimizer.parameters.items()}
        self.names = [names.get(id(parameter)) for parameter in shares.parameters]  # None: not to be trained
        self.mine = {str(i): piece for i, piece in enumerate(shares.pieces[ranks.rank]) if self.names[piece.array]}
        self.optimizer = copy.copy(optimizer)

    def take_state(self) -> None:
        """Of what the whole optimizer keeps, a rank keeps its own."""
        self.optimizer.arrays = {
            kind: {
                key: self.shares.view(piece, arrays[name]).copy()
                for key, piece in self.mine.items()
                if (name := self.names[piece.array]) in arrays
            }
            for kind, arrays in self.whole.arrays.items()
        }
        self.whole.arrays = {kind: {} for kind in self.whole.arrays}

    def step(self, gradient: np.ndarray, used: np.ndarray, lr: float, factor: float) -> None:
        """One update. gradient (own numbers): to be multiplied by `factor`; used (arrays): which have a gradient"""
        own, whole = self.optimizer, self.whole
        own.lr = whole.lr = lr
        own.parameters = {}
        for key, piece in self.mine.items():
            if used[piece.array]:
                parameter = self.shares.parameters[piece.array]
                weights = self.shares.weights(piece)
                part = Tensor.holding(weights, parameter.backend, parameter.storage)
                grad = Tensor(piece.of(gradient).reshape(weights.shape), backend=parameter.backend)
                part.grad = ScaledGradient(grad, factor)
                own.parameters[key] = part
        own.steps = {key: whole.steps[self.names[self.mine[key].array] or ""] for key in own.parameters}
        own.step()
        own.parameters = {}  # they hold gradients
        for name, is_used in zip(self.names, used, strict=True):
            if name is not None and is_used:
                whole.steps[name] += 1

    def share_weights(self) -> None:
        """Every rank tells the others its new weights."""
        if self.ranks.size == 1:
            return
        shares, rank = self.shares, self.ranks.rank
        own = np.concatenate([np.zeros(0, shares.parameters[0].dtype), *map(self._on_host, shares.pieces[rank])])
        for other, numbers in enumerate(self.ranks.gathered(own)):
            for piece in shares.pieces[other] if other != rank else []:
                parameter, weights = shares.parameters[piece.array], shares.weights(piece)
                weights[...] = parameter.backend.asarray(piece.of(numbers).reshape(weights.shape))
                parameter.writable()

    def _on_host(self, piece: Piece) -> np.ndarray:
        return self.shares.parameters[piece.array].backend.to_numpy(self.shares.weights(piece)).reshape(-1)

    @contextmanager
    def whole_state(self) -> Iterator[None]:
        """Inside, rank 0 has the whole of the optimizer's state, to save it. All ranks take part."""
        for kind, pieces in self.optimizer.arrays.items():
            parameters, rank = self.shares.parameters, self.ranks.rank
            own = np.zeros(self.shares.numbers(rank), parameters[0].dtype)
            for key, array in pieces.items():
                piece = self.mine[key]
                piece.of(own)[...] = parameters[piece.array].backend.to_numpy(array).reshape(-1)
            found = self.ranks.at_first(own, [self.shares.numbers(r) for r in range(self.ranks.size)])
            if rank == 0:
                self.whole.arrays[kind] = self._joined(found)
        try:
            yield
        finally:
            self.whole.arrays = {kind: {} for kind in self.whole.arrays}

    def _joined(self, found: list[np.ndarray]) -> dict[str, Any]:
        """Name → array, of the pieces that all ranks have sent; arrays that were never updated have none."""
        flat = [np.zeros(parameter.size, parameter.dtype) for parameter in self.shares.parameters]
        for pieces, numbers in zip(self.shares.pieces, found, strict=True):
            for piece in pieces:
                flat[piece.array][piece.first : piece.last] = piece.of(numbers)
        places = {name: i for i, name in enumerate(self.names)}
        return {
            name: parameter.backend.asarray(flat[places[name]].reshape(parameter.shape))
            for name, parameter in self.whole.parameters.items()
            if self.whole.steps[name] > 0
        }
