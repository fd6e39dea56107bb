"""One rank of a measurement: a few training steps of the labs' model.

    mpiexec -n N python -m minitransformer.app.bench.ranks_worker ROWS STEPS OVERLAP

ROWS of 256 words in a step, over all ranks; OVERLAP 1 or 0. Rank 0 prints the figures as JSON. Without mpiexec it takes
the plain steps of one process, whose batches stay whole."""

import json
import sys
import time

import numpy as np

import autograd.functional as F
from minitransformer.app import ranks
from minitransformer.app.bench.worker import peak_megabytes
from minitransformer.app.data.batches import LanguageModelBatch
from minitransformer.app.training.ranks.sending import Sending
from minitransformer.app.training.ranks.slices import SLICES, SlicedSteps
from minitransformer.models import build
from minitransformer.optim import Adam, clip_grad_norm

LENGTH, ROUNDS = 256, 20  # ROUNDS: of messages to and fro, for the speed of the wire


def main(rows: int, steps: int, overlap: bool) -> None:
    everybody = ranks.world()
    model = build("lab", dropout=0.0)
    optimizer = Adam(model.named_parameters(), lr=1e-4)
    ids = np.random.default_rng(0).integers(4, 50001, (rows, LENGTH + 1))
    batch = LanguageModelBatch(ids[:, :-1], ids[:, 1:], np.full(rows, LENGTH), np.arange(rows), 1)
    Sending.overlap = overlap
    sliced = SlicedSteps(model, optimizer, _loss, SLICES, 0, 1.0, everybody) if ranks.under_mpi() else None

    def counted() -> np.ndarray:
        """Bytes received, seconds of sending, and those of them for which a rank has waited after backward: so far."""
        return np.array([everybody.received, everybody.seconds, sliced.sending.waited if sliced else 0.0])

    def plain(number: int) -> None:
        F.manual_seed([0, number])
        optimizer.zero_grad()
        _loss(model, batch).backward()
        clip_grad_norm(model.parameters(), 1.0)
        optimizer.step()

    if sliced is not None:
        sliced.start()
    seconds, figures = [], np.zeros(3)
    for number in range(steps + 1):  # the first one compiles, and agrees on the order of the buckets
        everybody.greatest(0)  # all begin together
        before = counted()
        start = time.perf_counter()
        if sliced is not None:
            sliced.step(number, batch, 1e-4, lambda what, value: None)
        else:
            plain(number)
        figures = counted() - before
        seconds.append(everybody.greatest(time.perf_counter() - start))
    sent, talking, waited = figures.tolist()  # of the last step
    latency, bandwidth = _wire(everybody)
    found = {"seconds": seconds[1:], "megabytes": everybody.greatest(peak_megabytes())}
    found |= {"received": everybody.greatest(sent), "talking": talking, "waited": waited}
    found |= {"numbers": model.num_parameters(), "latency": latency, "bandwidth": bandwidth}
    if everybody.rank == 0:
        print(json.dumps(found))


def _loss(model, batch):
    return model.loss(batch.ids, batch.targets, ignore_index=batch.ignore)


def _wire(everybody: ranks.Alone) -> tuple[float, float]:
    """Seconds that the smallest exchange takes, and bytes a second of a large one."""
    if everybody.size == 1:
        return 0.0, float("inf")
    times = []
    for numbers in (1, 2**20):
        given, best = [np.zeros(numbers, np.float32)] * everybody.size, float("inf")
        for _ in range(ROUNDS):
            start = time.perf_counter()
            everybody.exchanged(given, [numbers] * everybody.size)
            best = min(best, time.perf_counter() - start)
        times.append(best)
    return times[0], 4 * 2**20 * (everybody.size - 1) / (times[1] - times[0])


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "1")
