"""What the loop asks of its data, and where it stands in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from minitransformer.app.training.checkpoints import Checkpoint, CheckpointError
from minitransformer.app.training.state import State
from minitransformer.errors import TrainingError


class BatchSource(Protocol):
    """A pure function of the epoch: asked again for the same epoch and start, it gives the same batches.
    The classes of `minitransformer.text` are such sources."""

    def count(self, epoch: int = 0) -> int: ...
    def epoch(self, epoch: int = 0, start: int = 0) -> Iterator[Any]: ...


class Position:
    """Walks through a source from where `state` says, and keeps epoch and batch there up to date."""

    def __init__(self, source: BatchSource, state: State):
        self.source, self.state = source, state
        self._iterator: Iterator[Any] | None = None
        self._count = 0
        self._counted: int | None = None

    def count(self) -> int:
        """Batches in the present epoch."""
        if self._counted != self.state.epoch:
            self._count, self._counted = self.source.count(self.state.epoch), self.state.epoch
            if self._count < 1:
                raise TrainingError(f"there are no batches in epoch {self.state.epoch + 1}: give more data")
        return self._count

    def check(self, checkpoint: Checkpoint) -> None:
        """The place noted in a checkpoint must exist in these data."""
        if self.state.batch >= self.count():
            found = f"stands at batch {self.state.batch} of epoch {self.state.epoch + 1}, which has {self.count()} here"
            raise CheckpointError(checkpoint.path, found, "resume with the data and batch size it was trained with")

    def take(self) -> Any:
        """The next batch. It counts as done only after `advance`."""
        if self._iterator is None:
            self._iterator = self.source.epoch(self.state.epoch, self.state.batch)
        try:
            return next(self._iterator)
        except StopIteration:
            where = f"epoch {self.state.epoch + 1} ended at batch {self.state.batch} of {self.count()}"
            raise TrainingError(f"{where}: the batch source's count() and epoch() disagree") from None

    def advance(self) -> None:
        self.state.batch += 1
        if self.state.batch == self.count():
            self.state.epoch, self.state.batch, self._iterator = self.state.epoch + 1, 0, None


def count_tokens(batch: Any) -> int:
    """Real positions in a batch of `minitransformer.text`; in another one the elements of its first array."""
    lengths = [getattr(batch, name, None) for name in ("lengths", "source_lengths", "target_lengths")]
    if any(length is not None for length in lengths):
        return sum(int(length.sum()) for length in lengths if length is not None)
    first = batch[0] if isinstance(batch, tuple | list) else batch
    return int(getattr(first, "size", 1))
