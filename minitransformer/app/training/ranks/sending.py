"""Gradients on their way to the ranks that finish their sums, while backward goes on.

A bucket (shares.py) leaves when the last of its arrays is final: tied weights after their last use. All ranks send the
buckets in one order, that in which the first backward pass of rank 0 has finished them. MPI moves nothing by itself:
somebody has to sit and wait for it, which a second thread does. The sums do not depend on any of this."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from minitransformer.app.ranks import Alone
from minitransformer.app.training.ranks import tree
from minitransformer.app.training.ranks.shares import Shares


class Sending:
    """Brings the gradients of a bucket to the ranks that finish their sums, in a thread of its own.

    places  for each rank (first, width) of the sums that it has"""

    overlap = True  # send while backward goes on; without it after that, the same bytes

    def __init__(self, shares: Shares, places: list[list[tuple[int, int]]], ranks: Alone):
        self.shares, self.places, self.ranks, ends = shares, places, ranks, shares.ends
        self.thread = ThreadPoolExecutor(1, "gradients") if self.overlap and ranks.can_use_threads else None
        self.order = [*range(len(shares.buckets))]  # in which they leave, on all ranks alike
        self.learned = ranks.size == 1  # whether it is the order in which backward finishes them
        self.arrays_in = [  # for each bucket
            {i for i in range(len(shares.parameters)) if bucket[0].start < ends[i + 1] and ends[i] < bucket[-1].stop}
            for bucket in shares.buckets
        ]
        self.buckets_of: list[list[int]] = [[] for _ in shares.parameters]
        for bucket, arrays in enumerate(self.arrays_in):
            for array in arrays:
                self.buckets_of[array].append(bucket)
        own = [bucket[ranks.rank].stop - bucket[ranks.rank].start for bucket in shares.buckets]
        self.starts = np.cumsum([0, *own])  # of each bucket among this rank's own numbers
        self.waited = 0.0  # seconds after backward until all sums were there
        self.early = 0  # buckets that left before backward had ended, in all

    def begin(self, nodes: list[tree.Node]) -> None:
        """nodes: what this rank has; the last one is still being written to."""
        self.nodes = nodes
        self.own = np.empty(self.starts[-1], dtype=nodes[0].sum.dtype)
        self.missing = [set(arrays) for arrays in self.arrays_in]  # those that are not final yet
        self.ready: dict[int, None] = {}  # buckets, in the order in which they were finished
        self.sent: list[Future | None] = []

    def is_final(self, array: int) -> None:
        """Nothing will be added to the gradient of this array any more."""
        for bucket in self.buckets_of[array]:
            self.missing[bucket].discard(array)
            if not self.missing[bucket]:
                self.ready[bucket] = None
        if self.thread is not None:
            self._send_ready()

    def _send_ready(self) -> None:
        while len(self.sent) < len(self.order) and (bucket := self.order[len(self.sent)]) in self.ready:
            self.sent.append(None if self.thread is None else self.thread.submit(self._reduce, bucket))
            if self.thread is None:
                self._reduce(bucket)

    def finish(self) -> np.ndarray:
        """Waits until all sums of this rank's own numbers are there, and returns them."""
        start = time.perf_counter()
        self.early += len(self.sent)
        self.ready |= dict.fromkeys(self.order)  # those with an array that the slice has not reached
        self._send_ready()
        for one in self.sent:
            if one is not None:
                one.result()
        self.waited += time.perf_counter() - start
        if not self.learned:
            self.order = self.ranks.gathered(np.array([*self.ready]))[0].tolist()  # as rank 0 saw it
            self.learned = True
        return self.own

    def _reduce(self, bucket: int) -> None:
        """Each rank gets from all others what they have of its own part, and ends the tree for it."""
        parts, rank = self.shares.buckets[bucket], self.ranks.rank
        local: list[tree.Node] = []
        for node in self.nodes:
            tree.add_node(local, node.part(slice(parts[0].start, parts[-1].stop)))
        first, length = parts[0].start, parts[rank].stop - parts[rank].start
        sent = [np.concatenate([node.sum[p.start - first : p.stop - first] for node in local]) for p in parts]
        found = self.ranks.exchanged(sent, [len(places) * length for places in self.places])
        whole: list[tree.Node] = []
        for places, numbers in zip(self.places, found, strict=True):
            for i, (first, width) in enumerate(places):
                tree.add_node(whole, tree.Node(first, width, numbers[i * length : (i + 1) * length]))
        self.own[self.starts[bucket] : self.starts[bucket + 1]] = whole[0].sum
