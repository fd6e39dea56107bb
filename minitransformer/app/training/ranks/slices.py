"""Training on several ranks, equal to training on one bit for bit.

Every batch is cut into K slices of rows, whatever the number N of ranks is. A rank computes the gradients of its
slices; each is weighted by its part of all targets, and they are added in one binary tree over the K slices,

    ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))

whose order does not depend on N either: floats add up to other last bits in another order. Dropout is a function of
(step, slice). So N decides only about who computes what.

Each rank is responsible for 1/N of the numbers of the model (shares.py). While the backward pass of its last slice is
still under way, a second thread sends the gradients that are final, bucket by bucket, to the ranks that finish their
sums. A rank receives (N-1)/N · P numbers of gradients a step, and as many new weights: together 2 (N-1)/N · P, the
least that an all-reduce can do. (If N is no power of two, a rank may have to send two sums where one would do.)"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

import autograd.functional as F
from minitransformer.app.data.batches.rows import can_be_cut
from minitransformer.app.ranks import Alone
from minitransformer.app.training.ranks import tree
from minitransformer.app.training.ranks.sending import Sending
from minitransformer.app.training.ranks.shares import OwnPart, Shares
from minitransformer.errors import TrainingError
from minitransformer.models import Model
from minitransformer.optim import Optimizer

SLICES = 8  # under MPI, unless told otherwise
MASKS_PER_SLICE = 2**24  # far more dropout masks than a model draws in one pass


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
        self.model, self.loss_of, self.ranks = model, loss_of, ranks
        self.slices, self.seed, self.clip = slices, seed, math.inf if clip is None else clip
        self.shares = Shares(model.parameters(), ranks.size)
        self.own = OwnPart(optimizer, self.shares, ranks)
        self.sending = Sending(self.shares, self.places(), ranks)
        self.names: list[str] | None = None  # of the values that the loss comes with

    def start(self) -> None:
        """When model and optimizer are as they shall be at the first step."""
        self.own.take_state()

    def whole_state(self) -> AbstractContextManager[None]:
        return self.own.whole_state()

    def slices_of(self, rank: int) -> range:
        bounds = tree.cuts(self.slices, self.ranks.size)
        return range(bounds[rank], bounds[rank + 1])

    def places(self) -> list[list[tuple[int, int]]]:
        """For each rank (first, width) of the sums that it has when its slices are done."""
        found = []
        for rank in range(self.ranks.size):
            nodes: list[tree.Node] = []
            for number in self.slices_of(rank):
                tree.add_node(nodes, tree.Node(number, 1, np.zeros(0)))
            found.append([(node.first, node.width) for node in nodes])
        return found

    # ------------------------------------------------------------------------------------------ a step

    def step(self, number: int, batch: Any, lr: float, demand_finite: Callable[[str, float], None]):
        """One update. number: of steps done before → the batch's values, the norm of its gradient"""
        table = self._send_gradients(number, batch)
        gradient = self.sending.finish()
        values, used = self._values(batch, table)
        demand_finite("the loss", values["loss"])
        norm = self._norm(gradient)
        demand_finite("the norm of the gradient", norm)
        self.own.step(gradient, used, lr, self.clip / norm if self.clip < norm else 1.0)
        self.own.share_weights()
        self._seed(number + 1, 0)  # what a checkpoint notes is the same on all ranks
        return values, norm

    def _send_gradients(self, step: int, batch: Any) -> list[list[float]]:
        """Of this rank's slices, added up as far as the tree allows. → a row of numbers for each slice"""
        if not can_be_cut(batch):
            raise TrainingError(
                f"a batch of {type(batch).__name__} cannot be cut into slices: give it the methods part, rows and "
                "counts, as those of minitransformer.app.data have, or train without slices"
            )
        totals, bounds = batch.counts(), tree.cuts(batch.rows(), self.slices)
        nodes: list[tree.Node] = []
        table = []
        *former, last = self.slices_of(self.ranks.rank)
        for number in [*former, last]:
            gradient = np.zeros(self.shares.size, dtype=self.shares.parameters[0].dtype)
            if number == last:  # as soon as a weight has its gradient from here, its sum is complete
                self.sending.begin([*nodes, tree.Node(number, 1, gradient)])
            part = batch.part(bounds[number], bounds[number + 1])
            table.append(self._slice_gradient(gradient, step, number, part, totals, number == last))
            if number != last:
                tree.add_node(nodes, tree.Node(number, 1, gradient))
        return table

    def _slice_gradient(
        self, gradient: np.ndarray, step: int, number: int, part: Any, totals: tuple[int, ...], is_last: bool
    ) -> list[float]:
        """Written to `gradient`. → the sum of the losses for each mean, the other values, and which weights it has
        reached; nothing for a slice without any target"""
        counts = part.counts()
        if not any(counts):
            return []
        self._seed(step, number)
        parameters, ends = self.shares.parameters, self.shares.ends
        places = {id(parameter): i for i, parameter in enumerate(parameters)}
        reached = [0.0] * len(parameters)

        def keep(leaf: Any, dy: Any) -> None:
            i = places.get(id(leaf))
            if i is not None:
                gradient[ends[i] : ends[i + 1]] = leaf.backend.to_numpy(dy).ravel()
                reached[i] = 1.0
                if is_last:
                    self.sending.is_final(i)

        for parameter in parameters:
            parameter.grad = None
        outcome = self.loss_of(self.model, part)
        loss, more = outcome if isinstance(outcome, tuple) else (outcome, {})
        means: list[Any] = loss if isinstance(loss, list) else [loss]
        if len(means) != len(totals):
            raise TrainingError(
                f"the loss of a {type(part).__name__} is the sum of {len(totals)} means, each over another number of "
                f"targets, and cannot be cut as one number: let the loss be a list of {len(totals)} Tensors"
            )
        weighted = [mean * (n / total) for mean, n, total in zip(means, counts, totals, strict=True) if n]
        whole = weighted[0]
        for other in weighted[1:]:
            whole = whole + other
        whole.backward(on_leaf=keep)
        self.names = [*more]
        sums = [n * float(mean) if n else 0.0 for mean, n in zip(means, counts, strict=True)]
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
        sums = tree.tree_sum([row.copy() for row in everybody])
        totals = batch.counts()
        used = sums[width - len(self.shares.parameters) :] > 0
        more = sums[len(totals) : width - len(self.shares.parameters)] / totals[0] if totals[0] else []
        loss = sum(float(part) / total for part, total in zip(sums, totals, strict=False) if total)
        return {"loss": loss, **dict(zip(self._value_names(), map(float, more), strict=True))}, used

    def _value_names(self) -> list[str]:
        """A rank whose slices were all empty has not met them."""
        if self.names is None or self.ranks.size > 1:
            said = np.frombuffer(json.dumps(self.names).encode(), dtype=np.uint8)
            known = [json.loads(text.tobytes()) for text in self.ranks.gathered(said)]
            self.names = next(names for names in known if names is not None)
        return self.names

    def _norm(self, gradient: np.ndarray) -> float:
        """Of all ranks' numbers together. gradient: this rank's own"""
        return math.sqrt(self.shares.sum_of_squares(gradient, self.ranks))
