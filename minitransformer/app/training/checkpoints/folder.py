"""The folder of one run: which checkpoints it holds, which are kept, and that only one process writes to it."""

from __future__ import annotations

import os
from contextlib import suppress

from minitransformer.app.training.checkpoints.files import TEMPORARY
from minitransformer.app.training.checkpoints.snapshot import Checkpoint, Snapshot, file_name, read, step_of, write
from minitransformer.durable import make_folder, sync_folder
from minitransformer.errors import CheckpointError, Path, system_error
from minitransformer.models import Model
from minitransformer.optim import Optimizer


class RunFolder:
    """`keep` counts the newest checkpoints that stay; the best one stays besides."""

    def __init__(self, path: Path, keep: int = 2):
        if keep < 1:
            raise ValueError(f"keep={keep}: at least the newest checkpoint must stay")
        self.path, self.keep = os.fspath(path), keep
        self._lock: int | None = None

    # ------------------------------------------------------------------------------------------ reading

    def steps(self) -> list[int]:
        """The steps of the complete checkpoints, ascending; empty when there is no such folder."""
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise system_error(self.path, "cannot be read", error) from error
        return sorted(step for step in map(step_of, names) if step is not None)

    def file(self, step: int) -> str:
        return os.path.join(self.path, file_name(step))

    def latest(self) -> Checkpoint:
        steps = self.steps()
        if not steps:
            raise CheckpointError(self.path, "holds no checkpoint", "check the folder, or train there first")
        return read(self.file(steps[-1]))

    def best(self) -> Checkpoint:
        """The one with the best evaluation; the latest if none was made."""
        latest = self.latest()
        if latest.best is None or latest.best["step"] == latest.step:
            return latest
        return read(self.file(latest.best["step"]))

    # ------------------------------------------------------------------------------------------ writing

    def open(self) -> None:
        """Makes the folder, takes it for this process alone, and removes what a killed process left half done."""
        try:
            make_folder(self.path)
            self._lock_for_this_process()
            self._remove_litter()
        except OSError as error:
            raise system_error(self.path, "cannot be used as the folder of a run", error) from error

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def save(self, snapshot: Snapshot, model: Model, optimizer: Optimizer) -> str:
        """Writes a checkpoint, then removes those no longer kept. Returns the path of its JSON file."""
        path = write(self.path, snapshot, model, optimizer)
        kept = set(self.steps()[-self.keep :]) | {snapshot.step}
        if snapshot.best is not None:
            kept.add(snapshot.best["step"])
        for step in self.steps():
            if step not in kept:
                self._remove(step)
        return path

    def _remove(self, step: int) -> None:
        # the JSON first: a checkpoint without it does not exist, and the next run removes what is left of it
        path = self.file(step)
        with suppress(OSError):  # one checkpoint too many does no harm
            os.unlink(path)
            sync_folder(self.path)
            os.unlink(path.removesuffix("json") + "safetensors")

    def _remove_litter(self) -> None:
        """Arrays without their JSON, and temporary files."""
        names = set(os.listdir(self.path))
        for name in names:
            stem, ending = os.path.splitext(name)
            orphan = ending == ".safetensors" and step_of(stem + ".json") is not None and stem + ".json" not in names
            ours = name.startswith(("step-", "metrics.jsonl", "curve.png"))
            if orphan or (ours and ending == TEMPORARY):
                os.unlink(os.path.join(self.path, name))

    def _lock_for_this_process(self) -> None:
        """A lock on the folder itself: it needs no file, and the system lets go of it when the process dies."""
        try:
            import fcntl
        except ImportError:  # not on Windows
            return
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            advice = "wait until it is done, or choose another folder"
            raise CheckpointError(self.path, "another process is training in this folder", advice) from error
        except OSError:  # some network disks have no locks: better unguarded than unusable
            os.close(descriptor)
            return
        self._lock = descriptor
