"""A ledger of memory: what a training step holds at each moment, predicted from the tape, beside what was measured.

The prediction needs no meter, only the tape of one forward pass:
    all along  weights, the optimizer's state, and the buffers that kernels keep between steps
    forward    every array that the tape holds (results, and what Functions saved), from the Function that made it on
    backward   what the tape still holds, gradients on their way, and the leaves' gradients. A Function lets go of its
               arrays when it has been visited, and an array is gone when nobody holds it any more
A recomputed layer is run once more, on a tape of its own, that comes and goes. Of what kernels make and free while they
run, only the hidden layers of a feed-forward backward pass are large enough to be counted; they belong to the peak.
"""

import gc
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from autograd import Function, Tensor
from autograd.functional import Embedding, LinearCrossEntropy
from autograd.operators import Add
from autograd.recomputation import Recomputed
from autograd.storage import owner_of
from autograd.tensor import inputs_before_results
from kernels.cpu import workspace
from minitransformer.models import LanguageModel, Model
from minitransformer.optim import Adam

# arrays of the hidden layer's size that the backward kernel of a feed-forward layer holds while it runs
HIDDEN_ARRAYS = {"FeedForward": 2, "GatedFeedForward": 3}


class Moment(NamedTuple):
    """Bytes of arrays that are alive when a Function has run (forward) or was visited (backward)."""

    name: str
    backward: bool
    bytes: int


class Ledger:
    """Who holds which array. A key stands for an array: the id of the one that owns the memory, or, for a gradient that
    does not exist yet, an object of its own."""

    def __init__(self, always: dict[int, int]):
        """always: key → bytes of the arrays that are there from beginning to end"""
        self.always, self.alive = always, sum(always.values())
        self.holders: Counter[Any] = Counter()
        self.bytes: dict[Any, int] = {}
        self.moments: list[Moment] = []
        self.peak = self.alive

    def forward(self, result: Tensor) -> None:
        for tensor in inputs_before_results(result):
            self._hold(tensor.array)
            if tensor.node is not None:
                self._hold(*_arrays_of(tensor.node))
                self._note(tensor.node, False)

    def backward(self, result: Tensor) -> None:
        """`forward` has been called before: the tape is held."""
        arrived: dict[int, list[Any]] = {id(result): [self._new(result.array.nbytes)]}
        order = inputs_before_results(result)
        while order:
            tensor = order.pop()
            parts = arrived.pop(id(tensor), [])
            if parts and tensor.node is not None:
                dy = parts[0] if len(parts) == 1 else self._joined(parts, tensor)
                self._visit(tensor, tensor.node, dy, arrived)
                self._drop_key(dy)
            if tensor.node is not None:
                self._drop(*_arrays_of(tensor.node))
            self._drop(tensor.array)

    def _visit(self, tensor: Tensor, node: Function, dy: Any, arrived: dict[int, list[Any]]) -> None:
        if isinstance(node, Recomputed):
            self._compute_again(node)
        for position, parent in enumerate(node.inputs):
            if parent is None or not node.needs[position]:
                continue
            parts = arrived.setdefault(id(parent), [])
            if parts and isinstance(node, Embedding):
                continue  # its rows are added to what is there
            parts.append(self._gradient(tensor, node, position, parent, dy))
            if len(parts) == 2 and tensor.size == parent.size:
                arrived[id(parent)] = [self._joined(parts, parent)]
        self._note(node, True)

    def _gradient(self, tensor: Tensor, node: Function, position: int, parent: Tensor, dy: Any) -> Any:
        """The key of what the rule returns for this input: often dy itself, or a part of it seen in another shape."""
        if isinstance(node, LinearCrossEntropy):  # made along with the loss, and saved
            key: Any = id(owner_of(node.saved[position]))
        elif not isinstance(node, Recomputed) and (
            not node.kernels.calls or (isinstance(node, Add) and parent.shape == tensor.shape)
        ):
            key = dy
        else:
            return self._new(parent.array.nbytes)
        if key not in self.always:
            self.holders[key] += 1
        return key

    def _joined(self, parts: list[Any], tensor: Tensor) -> Any:
        whole = self._new(tensor.array.nbytes)
        for part in parts:
            self._drop_key(part)
        return whole

    def _compute_again(self, node: Recomputed) -> None:
        known = {id(owner_of(array)): array.nbytes for array in node.saved}
        inner, again = Ledger(self.always | known), node.again()[1]
        inner.alive = self.alive
        inner.forward(again)
        inner.backward(again)
        self.moments += inner.moments
        self.peak = max(self.peak, inner.peak)

    def _new(self, size: int) -> Any:
        key = object()
        if size < workspace.LARGE:  # larger ones are used again from step to step
            self.bytes[key], self.holders[key] = size, 1
            self.alive += size
        else:
            self.always[key] = 0  # type: ignore[index]
        return key

    def _hold(self, *arrays: Any) -> None:
        for owner in map(owner_of, arrays):
            if id(owner) not in self.always:
                self.bytes[id(owner)] = owner.nbytes
                self.alive += owner.nbytes * (not self.holders[id(owner)])
                self.holders[id(owner)] += 1

    def _drop(self, *arrays: Any) -> None:
        for owner in map(owner_of, arrays):
            self._drop_key(id(owner))

    def _drop_key(self, key: Any) -> None:
        if key not in self.always:
            self.holders[key] -= 1
            self.alive -= self.bytes[key] * (not self.holders[key])

    def _note(self, node: Function, backward: bool) -> None:
        self.moments.append(Moment(node.name, backward, self.alive))
        hidden = HIDDEN_ARRAYS.get(node.name, 0) * node.saved[-1].nbytes if backward and node.saved else 0
        self.peak = max(self.peak, self.alive + hidden)


def _arrays_of(node: Function) -> list[Any]:
    """What a Function holds: what it saved, and its inputs."""
    saved = [value for value in node.saved if isinstance(value, node.xp.ndarray)]
    return saved + [tensor.array for tensor in node.inputs if tensor is not None]


class Step(NamedTuple):
    """A training step's memory, moment by moment, predicted and measured in bytes of arrays."""

    title: str
    predicted: list[Moment]
    measured: list[Moment]
    predicted_peak: int
    peak: int  # measured, with what kernels hold while they run
    before: int  # measured, when the step begins: weights, the optimizer's state, kernels' buffers


def examine(title: str, model: Model, loss: Callable[[], Tensor]) -> Step:
    """Predicts a training step of this model with Adam, does it, and compares."""
    optimizer = Adam(model.parameters(), lr=3e-4)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    tracemalloc.start()
    try:
        step()  # compiles, and makes the optimizer's state and the kernels' buffers
        optimizer.zero_grad()
        gc.collect()
        there = {id(owner_of(array)): owner_of(array).nbytes for array in _arrays_all_along(model, optimizer)}
        others = tracemalloc.get_traced_memory()[0] - sum(there.values())  # Python's own objects
        ledger, result = Ledger(there), loss()
        ledger.forward(result)
        ledger.backward(result)
        del result
        moments: list[Moment] = []
        before = sum(there.values())
        tracemalloc.reset_peak()
        with _noting(lambda node, backward: moments.append(_now(node, backward, others))):
            step()
        return Step(title, ledger.moments, moments, ledger.peak, tracemalloc.get_traced_memory()[1] - others, before)
    finally:
        tracemalloc.stop()


def _arrays_all_along(model: Model, optimizer: Adam) -> list[Any]:
    state = [array for kind in optimizer.arrays.values() for array in kind.values()]
    return [p.array for p in model.parameters()] + state + workspace.kept()


def _now(node: Function, backward: bool, others: int) -> Moment:
    return Moment(node.name, backward, tracemalloc.get_traced_memory()[0] - others)


def measure(tell: Callable[[str], None]) -> list[Step]:
    """A deep language model twice: as usual, and with its layers computed again in backward."""
    ids = np.random.default_rng(0).integers(0, 2000, (4, 257))
    steps = []
    for title, again in (("layers keep what they computed", False), ("layers are computed again", True)):
        tell(f"ledger: {title}")
        model = LanguageModel(vocab_size=2000, d_model=256, n_heads=4, n_layers=12, d_ff=1024, max_len=256)
        model.recompute(again)
        steps.append(examine(title, model, partial(model.loss, ids[:, :-1], ids[:, 1:])))
    return steps


@contextmanager
def _noting(note: Callable[[Function, bool], None]) -> Iterator[None]:
    apply, visit = Function.apply.__func__, Function.input_gradients  # type: ignore[attr-defined]

    def noted_apply(cls: type[Function], *arguments: Any) -> Tensor:
        result: Tensor = apply(cls, *arguments)
        if result.node is not None:
            note(result.node, False)
        return result

    def noted_visit(node: Function, dy: Any) -> Iterator[tuple[Tensor, Any]]:
        yield from visit(node, dy)
        note(node, True)

    with (
        patch.object(Function, "apply", classmethod(noted_apply)),
        patch.object(Function, "input_gradients", noted_visit),
    ):
        yield
