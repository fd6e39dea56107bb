"""Training on several ranks, equal to training on one bit for bit.

Every batch is cut into K slices of rows, whatever the number N of ranks is. A rank computes the gradients of its
slices; each is weighted by its part of all targets, and they are added in one binary tree over the K slices,

    ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))

whose order does not depend on N either: floats add up to other last bits in another order. Dropout is a function of
(step, slice). So N decides only about who computes what.

Each rank is responsible for a part of the weights: whole arrays, about P/N of all P numbers. It receives their
gradients from the others, finishes their sums, keeps their optimizer state (which is thus divided, as in ZeRO-1) and
sends the new weights to all. A rank receives some (N-1)/N · P numbers of gradients and as many of weights a step,
together 2 (N-1)/N · P, the least that an all-reduce can do, where the parts are equal; since whole arrays are dealt
out, some ranks receive more."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import autograd.functional as F
from autograd import Tensor
from minitransformer.app.data.batches.rows import can_be_cut
from minitransformer.app.ranks import Alone
from minitransformer.errors import TrainingError
from minitransformer.models import Model
from minitransformer.optim import Optimizer, clip_grad_norm

SLICES = 8  # under MPI, unless told otherwise
MASKS_PER_SLICE = 2**24  # far more dropout masks than a model draws in one pass


@dataclass
class Node:
    """A sum in the tree: of `width` slices, the number `first` and those after it."""

    first: int
    width: int
    sum: np.ndarray


def add_node(nodes: list[Node], node: Node) -> None:
    """One more sum, to the right of all others. Two neighbours become one where the tree joins them."""
    while nodes and nodes[-1].width == node.width and nodes[-1].first % (2 * node.width) == 0:
        left = nodes.pop()
        node = Node(left.first, 2 * left.width, np.add(left.sum, node.sum, out=left.sum))
    nodes.append(node)


def tree_sum(arrays: list[np.ndarray]) -> np.ndarray:
    """Of as many arrays as there are slices. The arrays are used up."""
    nodes: list[Node] = []
    for number, array in enumerate(arrays):
        add_node(nodes, Node(number, 1, array))
    return nodes[0].sum


def cuts(total: int, parts: int) -> list[int]:
    """Where to cut: part i goes from cuts[i] to cuts[i + 1]."""
    return [total * i // parts for i in range(parts + 1)]


class SlicedSteps:
    """The steps of a model and its optimizer over slices, on these ranks."""

    def __init__(
        self, model: Model, optimizer: Optimizer, loss_of: Callable[[Any, Any], Any], slices: int, seed: int,
        clip: float | None, ranks: Alone,
    ):  # fmt: skip
        if ranks.size > slices:
            raise TrainingError(
                f"{ranks.size} ranks cannot share {slices} slices of a batch: start at most {slices} ranks, or give "
                f"--slices {2 ** math.ceil(math.log2(ranks.size))}"
            )
        self.model, self.optimizer, self.loss_of, self.ranks = model, optimizer, loss_of, ranks
        self.slices, self.seed, self.clip = slices, seed, math.inf if clip is None else clip
        self.parameters = model.parameters()
        self.dtype = self.parameters[0].dtype
        self.ends = np.cumsum([0, *(parameter.size for parameter in self.parameters)])
        self.owned = self._division()
        self.names: list[str] | None = None  # of the values that the loss comes with

    # ------------------------------------------------------------------------------------------ who does what

    def _division(self) -> list[int]:
        """The arrays of rank r go from owned[r] to owned[r + 1]: whole ones, cut nearest to equal parts."""
        aims = self.ends[-1] * np.arange(1, self.ranks.size) / self.ranks.size
        return [0, *np.abs(self.ends[:, None] - aims).argmin(axis=0).tolist(), len(self.parameters)]

    def _numbers(self, rank: int) -> slice:
        """The numbers of a rank's arrays among all."""
        return slice(self.ends[self.owned[rank]], self.ends[self.owned[rank + 1]])

    def _own(self) -> list[Any]:
        return self.parameters[self.owned[self.ranks.rank] : self.owned[self.ranks.rank + 1]]

    def _slices_of(self, rank: int) -> range:
        bounds = cuts(self.slices, self.ranks.size)
        return range(bounds[rank], bounds[rank + 1])

    # ------------------------------------------------------------------------------------------ a step

    def step(self, number: int, batch: Any, lr: float, demand_finite: Callable[[str, float], None]):
        """One update. number: of steps done before → the batch's values, the norm of its gradient"""
        self.optimizer.lr = lr
        nodes, table = self._gradients(number, batch)
        values, used = self._values(batch, table)
        demand_finite("the loss", values["loss"])
        self._finish_sums(nodes, used)
        norm = clip_grad_norm(self._own(), self.clip, total=self._total)
        demand_finite("the norm of the gradient", norm)
        self.optimizer.step()
        self._share_weights(used)
        self._seed(number + 1, 0)  # what a checkpoint notes is the same on all ranks
        return values, norm

    def _gradients(self, step: int, batch: Any) -> tuple[list[Node], list[list[float]]]:
        """Of this rank's slices, added up as far as the tree allows; and a row of numbers for each slice."""
        if not can_be_cut(batch):
            raise TrainingError(
                f"a batch of {type(batch).__name__} cannot be cut into slices: give it the methods part, rows and "
                "counts, as those of minitransformer.app.data have, or train without slices"
            )
        totals, bounds = batch.counts(), cuts(batch.rows(), self.slices)
        nodes: list[Node] = []
        table = []
        for number in self._slices_of(self.ranks.rank):
            gradient = np.zeros(self.ends[-1], dtype=self.dtype)
            table.append(self._slice_gradient(gradient, step, number, batch, bounds, totals))
            add_node(nodes, Node(number, 1, gradient))
        return nodes, table

    def _slice_gradient(
        self, gradient: np.ndarray, step: int, number: int, batch: Any, bounds: list[int], totals: tuple[int, ...]
    ) -> list[float]:
        """Written to `gradient`. → the sum of the losses for each mean, the other values, and which weights it has
        reached; nothing for a slice without any target"""
        part = batch.part(bounds[number], bounds[number + 1])
        counts = part.counts()
        if not any(counts):
            return []
        self._seed(step, number)
        for parameter in self.parameters:
            parameter.grad = None
        outcome = self.loss_of(self.model, part)
        loss, more = outcome if isinstance(outcome, tuple) else (outcome, {})
        means: list[Any] = loss if isinstance(loss, list) else [loss]
        if len(means) != len(totals):
            raise TrainingError(
                f"the loss of a {type(batch).__name__} is the sum of {len(totals)} means, each over another number of "
                f"targets, and cannot be cut as one number: let the loss be a list of {len(totals)} Tensors"
            )
        weighted = [mean * (n / total) for mean, n, total in zip(means, counts, totals, strict=True) if n]
        whole = weighted[0]
        for other in weighted[1:]:
            whole = whole + other
        whole.backward()
        for i, parameter in enumerate(self.parameters):
            if parameter.grad is not None:
                gradient[self.ends[i] : self.ends[i + 1]] = parameter.backend.to_numpy(parameter.grad.array).ravel()
        self.names = [*more]
        sums = [n * float(mean) if n else 0.0 for mean, n in zip(means, counts, strict=True)]
        reached = [float(parameter.grad is not None) for parameter in self.parameters]
        return [*sums, *(counts[0] * float(value) for value in more.values()), *reached]

    def _seed(self, step: int, number: int) -> None:
        """Every dropout mask becomes a function of (step, slice)."""
        F.manual_seed([self.seed, step, number])
        counter = (step * self.slices + number) * MASKS_PER_SLICE
        self.model.set_rng_state(self.model.rng_state() | {"counter": counter})

    def _values(self, batch: Any, table: list[list[float]]) -> tuple[dict[str, float], np.ndarray]:
        """The mean loss and other values of the whole batch, and which weights any slice has reached."""
        width = int(self.ranks.greatest(max(map(len, table))))
        if not width:
            raise TrainingError("a batch holds no target at all: there is nothing to learn from it")
        rows = [row or [0.0] * width for row in table]
        everybody = np.concatenate(self.ranks.gathered(np.array(rows, dtype=np.float64).ravel())).reshape(-1, width)
        sums = tree_sum([row.copy() for row in everybody])
        totals = batch.counts()
        used = sums[width - len(self.parameters) :] > 0
        more = sums[len(totals) : width - len(self.parameters)] / totals[0] if totals[0] else []
        loss = sum(float(part) / total for part, total in zip(sums, totals, strict=False) if total)
        return {"loss": loss, **dict(zip(self._value_names(), map(float, more), strict=True))}, used

    def _value_names(self) -> list[str]:
        """A rank whose slices were all empty has not met them."""
        if self.names is None or self.ranks.size > 1:
            said = np.frombuffer(json.dumps(self.names).encode(), dtype=np.uint8)
            known = [json.loads(text.tobytes()) for text in self.ranks.gathered(said)]
            self.names = next(names for names in known if names is not None)
        return self.names

    def _finish_sums(self, nodes: list[Node], used: np.ndarray) -> None:
        """Each rank gets from all others what they have of its own weights, and ends the tree for these."""
        ranks = self.ranks
        mine = self._numbers(ranks.rank)
        length = mine.stop - mine.start
        places = [self._places(rank) for rank in range(ranks.size)]
        sent = [np.concatenate([node.sum[self._numbers(rank)] for node in nodes]) for rank in range(ranks.size)]
        found = ranks.exchanged(sent, [len(place) * length for place in places])
        whole: list[Node] = []
        for place, arrays in zip(places, found, strict=True):
            for i, (first, width) in enumerate(place):
                add_node(whole, Node(first, width, arrays[i * length : (i + 1) * length]))
        for parameter in self.parameters:
            parameter.grad = None
        first = self.owned[ranks.rank]
        for i, parameter in enumerate(self._own(), first):
            if used[i]:
                numbers = whole[0].sum[self.ends[i] - mine.start : self.ends[i + 1] - mine.start]
                parameter.grad = Tensor(numbers.reshape(parameter.shape), backend=parameter.backend)

    def _places(self, rank: int) -> list[tuple[int, int]]:
        """(first, width) of the sums that a rank has when its slices are done."""
        nodes: list[Node] = []
        for number in self._slices_of(rank):
            add_node(nodes, Node(number, 1, np.zeros(0)))
        return [(node.first, node.width) for node in nodes]

    def _total(self, squares: list[float]) -> float:
        """Of all ranks, in the order of the weights."""
        return sum(np.concatenate(self.ranks.gathered(np.array(squares, dtype=np.float64))).tolist())

    def _share_weights(self, used: np.ndarray) -> None:
        if self.ranks.size == 1:
            return
        own = [parameter.backend.to_numpy(parameter.array).ravel() for parameter in self._own()]
        everybody = np.concatenate(self.ranks.gathered(np.concatenate([np.zeros(0, self.dtype), *own])))
        steps = {id(parameter): name for name, parameter in self.optimizer.parameters.items()}
        mine = {id(parameter) for parameter in self._own()}
        for i, parameter in enumerate(self.parameters):
            if id(parameter) not in mine:
                numbers = everybody[self.ends[i] : self.ends[i + 1]].reshape(parameter.shape)
                parameter.writable()[...] = parameter.backend.asarray(numbers)
                if used[i] and id(parameter) in steps:
                    self.optimizer.steps[steps[id(parameter)]] += 1

    # ------------------------------------------------------------------------------------------ the optimizer's state

    def forget_others(self) -> None:
        """Of the optimizer's state a rank keeps what belongs to its own weights."""
        mine = {id(parameter) for parameter in self._own()}
        for arrays in self.optimizer.arrays.values():
            for name, parameter in self.optimizer.parameters.items():
                if id(parameter) not in mine:
                    arrays.pop(name, None)

    @contextmanager
    def whole_state(self) -> Iterator[None]:
        """Inside, rank 0 has the whole of the optimizer's state, to save it. All ranks take part."""
        names = {id(parameter): name for name, parameter in self.optimizer.parameters.items()}
        for kind, arrays in self.optimizer.arrays.items():
            flat = [self._flat(arrays, names.get(id(parameter))) for parameter in self._own()]
            lengths = [self._state_length(rank, names) for rank in range(self.ranks.size)]
            found = self.ranks.at_first(np.concatenate([np.zeros(0, self.dtype), *flat]), lengths)
            if self.ranks.rank == 0:
                self.optimizer.arrays[kind] = self._by_name(np.concatenate(found), names)
        try:
            yield
        finally:
            self.forget_others()

    def _kept(self, parameter: Any, names: Mapping[int, str]) -> bool:
        name = names.get(id(parameter))
        return name is not None and self.optimizer.steps[name] > 0

    def _flat(self, arrays: Mapping[str, Any], name: str | None) -> np.ndarray:
        known = None if name is None else arrays.get(name)
        if known is None:
            return np.zeros(0, self.dtype)
        return self.parameters[0].backend.to_numpy(known).ravel()

    def _state_length(self, rank: int, names: Mapping[int, str]) -> int:
        parameters = self.parameters[self.owned[rank] : self.owned[rank + 1]]
        return sum(parameter.size for parameter in parameters if self._kept(parameter, names))

    def _by_name(self, numbers: np.ndarray, names: Mapping[int, str]) -> dict[str, Any]:
        found, start = {}, 0
        for parameter in self.parameters:
            if self._kept(parameter, names):
                part = numbers[start : start + parameter.size].reshape(parameter.shape)
                found[names[id(parameter)]] = parameter.backend.asarray(part.copy())
                start += parameter.size
        return found


# ---------------------------------------------------------------------------------------------------- agreement


def demand_agreement(ranks: Alone, told: Mapping[str, Any]) -> None:
    """Raises if ranks differ in what decides about the numbers, and names the first difference. told: JSON values"""
    said = np.frombuffer(json.dumps(dict(_flat(told)), sort_keys=True).encode(), dtype=np.uint8)
    known = [json.loads(text.tobytes()) for text in ranks.gathered(said)]
    for rank, other in enumerate(known):
        for name, value in known[0].items():
            if other.get(name) != value:
                raise TrainingError(
                    f"rank {rank} differs from rank 0 in {name}: {str(other.get(name))[:80]}, not {str(value)[:80]}; "
                    "give all ranks the same program, libraries, options and data"
                )


def _flat(told: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What lies inside has the last of its names."""
    for name, value in told.items():
        yield from _flat(value) if isinstance(value, dict) else [(name, value)]


def digest(arrays: Mapping[str, np.ndarray]) -> str:
    """A few letters that stand for all these numbers."""
    known = hashlib.sha256()
    for name, array in arrays.items():
        known.update(f"{name} {array.dtype} {array.shape}".encode())
        known.update(np.ascontiguousarray(array).tobytes())
    return known.hexdigest()[:16]
